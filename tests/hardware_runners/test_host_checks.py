"""`respect doctor`'s look at devices and their software, on made-up hosts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hardware_runners.compiler import Compiler, CompilerFailedError
from hardware_runners.devices.edgetpus import EdgeTpu, devices_text, find_edge_tpus, is_device_text, of_device
from hardware_runners.devices.runtime import as_numbers
from hardware_runners.host.checks import Host, check_host
from hardware_runners.host.findings import LEVELS, Finding
from hardware_runners.host.link_check import check_links
from hardware_runners.host.software import library_generation
from tests.hardware_runners import coral_double

VERSIONS = {"ai-edge-litert": "2.3.0"}
STOCK = "Package: libedgetpu1-std\nStatus: install ok installed\nVersion: 16.0\n"
NEWER = "Package: libedgetpu1-max\nStatus: install ok installed\nVersion: 16.0TF2.17.1-1.ubuntu24.04\n"


def usb(
    root: Path, *, port: str = "2-1", speed: int = 5000, ids: tuple[str, str] = ("18d1", "9302"), number: int = 4
) -> Path:
    folder = root / "sys/bus/usb/devices" / port
    folder.mkdir(parents=True)
    entries = {"idVendor": ids[0], "idProduct": ids[1], "speed": speed, "busnum": 2, "devnum": number}
    for name, value in entries.items():
        (folder / name).write_text(f"{value}\n")
    node = root / f"dev/bus/usb/002/{number:03d}"
    node.parent.mkdir(parents=True, exist_ok=True)
    node.touch(mode=0o664)
    node.chmod(0o664)
    return node


def pcie(root: Path, *, address: str = "0000:01:00.0", number: int | None = 0, speed: str = "5.0 GT/s PCIe") -> Path:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    entries = {"vendor": "0x1ac1", "device": "0x089a", "current_link_speed": speed, "current_link_width": "1"}
    for name, value in entries.items():
        (folder / name).write_text(f"{value}\n")
    node = root / f"dev/apex_{number}"
    if number is not None:
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        node.chmod(0o660)
        apex = root / f"sys/class/apex/apex_{number}"
        apex.mkdir(parents=True)
        (apex / "device").symlink_to(folder)
        (apex / "temp").write_text("48050\n")
    return node


def library(root: Path, status: str = STOCK) -> None:
    (root / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (root / "usr/lib/x86_64-linux-gnu/libedgetpu.so.1.0").touch()
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(status)


def host(root: Path, **changes: Any) -> Host:
    found = Host(
        root=root, versions=VERSIONS, ids=(1000, frozenset({1000})), python=(3, 11, 7), find_compiler=lambda: None
    )
    return replace(found, **changes)


def of(findings: list[Finding], check: str, level: str | None = None) -> list[Finding]:
    assert all(finding.level in LEVELS for finding in findings)
    assert all(finding.way_out for finding in findings if finding.level == "error"), "an error without a way out"
    return [finding for finding in findings if finding.check == check and level in (None, finding.level)]


# -- devices ----------------------------------------------------------------------------------------------------------


def test_devices_are_found_with_their_links_pcie_first(tmp_path: Path) -> None:
    usb(tmp_path)
    usb(tmp_path, port="1-2", ids=("1a6e", "089a"), speed=480, number=7)
    usb(tmp_path, port="1-3", ids=("046d", "c077"), number=9)
    pcie(tmp_path)
    found = find_edge_tpus(tmp_path)
    assert [one.text for one in found] == ["pcie 5 GT/s x1", "usb 480 Mbit/s", "usb 5000 Mbit/s"]
    assert [one.is_slow for one in found] == [False, True, False]
    assert of_device(":0", found) == of_device("pci:0", found) == found[0]
    assert of_device("usb:1", found) == found[2]
    assert of_device("usb:2", found) is None and of_device("usb", found) is None
    assert find_edge_tpus(tmp_path / "empty") == ()


def test_the_text_of_a_pipelines_devices_tells_their_links(tmp_path: Path) -> None:
    for k in range(2):
        usb(tmp_path, port=f"2-{k + 1}", number=k + 1)
    assert devices_text([":0", ":1"], None, tmp_path) == "2 Edge TPUs, usb 5000 Mbit/s"
    assert devices_text([":0"], [("pcie", "/dev/apex_0")], tmp_path / "empty") == "1 Edge TPU, pcie"
    assert devices_text([":0"], None, tmp_path / "empty") == "1 Edge TPU, unknown link"


@pytest.mark.parametrize("text", ["", ":0", "usb", "usb:12", "pci", "pci:0"])
def test_device_texts(text: str) -> None:
    assert is_device_text(text)
    assert not is_device_text(text + "x")


def test_a_host_without_devices_is_fine(tmp_path: Path) -> None:
    findings = check_host(host(tmp_path))
    assert of(findings, "device", "ok") and not [f for f in findings if f.level == "error"]


def test_a_usb_2_link_is_pointed_out(tmp_path: Path) -> None:
    usb(tmp_path, speed=480).chmod(0o666)
    (finding,) = of(check_host(host(tmp_path)), "device", "warning")
    assert "480 Mbit/s" in finding.what and "USB 3" in finding.way_out


def test_a_slow_pcie_link_and_a_hot_chip_are_pointed_out(tmp_path: Path) -> None:
    pcie(tmp_path, speed="2.5 GT/s PCIe").chmod(0o666)
    (tmp_path / "sys/class/apex/apex_0/temp").write_text("91000\n")
    slow, hot = of(check_host(host(tmp_path)), "device", "warning")
    assert "2.5 GT/s" in slow.what and "91 degrees" in hot.what


def test_a_card_without_its_driver_is_an_error(tmp_path: Path) -> None:
    pcie(tmp_path, number=None)
    (finding,) = of(check_host(host(tmp_path)), "device", "error")
    assert "driver is not loaded" in finding.what and "gasket-dkms" in finding.way_out


@pytest.mark.parametrize("kind", ["pcie", "usb"])
@pytest.mark.parametrize("has_rule", [True, False])
def test_permissions_come_with_the_rule_or_the_group(tmp_path: Path, kind: str, has_rule: bool) -> None:
    node = pcie(tmp_path) if kind == "pcie" else usb(tmp_path)
    if has_rule:
        rules = tmp_path / "etc/udev/rules.d"
        rules.mkdir(parents=True)
        text = 'SUBSYSTEM=="apex"' if kind == "pcie" else 'ATTRS{idVendor}=="1a6e"'
        (rules / "65-tpu.rules").write_text(text)
    (finding,) = of(check_host(host(tmp_path)), "permissions")
    assert node.name in finding.what and finding.level == "error"
    if has_rule:
        assert "/etc/udev/rules.d/65-tpu.rules" in finding.what and "usermod --append" in finding.way_out
    else:
        assert "no udev rule" in finding.what
        assert ("65-apex.rules" if kind == "pcie" else "libedgetpu1-std") in finding.way_out


@pytest.mark.parametrize(
    ("mode", "ids", "is_fine"),
    [
        (0o660, (1000, frozenset({1000})), False),
        (0o660, (1000, frozenset({1000, os.getgid()})), True),
        (0o640, (1000, frozenset({1000, os.getgid()})), False),
        (0o660, (os.getuid() or 0, frozenset({1000})), True),
        (0o666, (1000, frozenset({1000})), True),
        (0o600, (0, frozenset({0})), True),
    ],
)
def test_permissions_follow_mode_owner_and_group(tmp_path: Path, mode: int, ids: Any, is_fine: bool) -> None:
    pcie(tmp_path).chmod(mode)
    assert (of(check_host(host(tmp_path, ids=ids)), "permissions") == []) == is_fine


@pytest.mark.parametrize("kind", ["pcie", "usb"])
def test_a_process_that_holds_a_device_is_named(tmp_path: Path, kind: str) -> None:
    node = pcie(tmp_path) if kind == "pcie" else usb(tmp_path)
    (tmp_path / "proc/4711/fd").mkdir(parents=True)
    (tmp_path / "proc/4711/comm").write_text("frigate\n")
    (tmp_path / "proc/4711/fd/7").symlink_to("/" + str(node.relative_to(tmp_path)))
    (tmp_path / "proc/4711/fd/8").symlink_to("/dev/null")
    (tmp_path / "proc/12/fd").mkdir(parents=True)
    found = of(check_host(host(tmp_path, ids=(0, frozenset()))), "device", "error")
    assert len(found) == 1 and "held by process 4711 (frigate)" in found[0].what and "kill 4711" in found[0].way_out


# -- software ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "versions", "level"),
    [
        (STOCK, {"tflite-runtime": "2.5.0.post1"}, "ok"),
        (STOCK, {"tflite-runtime": "2.11.0"}, "ok"),
        (STOCK, {"tflite-runtime": "2.14.0"}, "error"),
        (STOCK, {"ai-edge-litert": "2.3.0"}, "error"),
        (NEWER, {"ai-edge-litert": "2.3.0"}, "ok"),
        (NEWER, {"tflite-runtime": "2.17.1"}, "ok"),
        (NEWER, {"tflite-runtime": "2.14.0"}, "error"),
        ("", {"ai-edge-litert": "2.3.0"}, "warning"),
    ],
)
def test_library_and_interpreter_must_be_of_one_generation(
    tmp_path: Path, status: str, versions: dict[str, str], level: str
) -> None:
    library(tmp_path, status)
    (finding,) = of(check_host(host(tmp_path, versions=versions)), "runtime fit")
    assert finding.level == level
    assert level != "error" or ("segmentation fault" in finding.what and "feranick" in finding.way_out)


def test_generations_are_read_from_the_packages_version() -> None:
    assert library_generation("16.0") == (2, 5)
    assert library_generation("16.0TF2.17.1-1.ubuntu24.04") == (2, 17)
    assert library_generation("16.0tf2.18.0-1") == (2, 18)
    assert as_numbers("2.5.0.post1") == (2, 5, 0) and as_numbers("2rc1") == (2,) and as_numbers("x") == ()


def test_two_builds_of_the_library_are_pointed_out(tmp_path: Path) -> None:
    library(tmp_path, f"{STOCK}\n{NEWER}")
    assert "several builds" in of(check_host(host(tmp_path)), "libedgetpu", "warning")[0].what


def test_a_missing_library_is_an_error_with_a_device_only(tmp_path: Path) -> None:
    assert of(check_host(host(tmp_path)), "libedgetpu")[0].level == "ok"
    usb(tmp_path)
    assert of(check_host(host(tmp_path)), "libedgetpu")[0].level == "error"


@pytest.mark.parametrize(
    ("versions", "level", "said"),
    [
        ({}, "ok", "not installed"),
        ({"pycoral": "0.2.0"}, "error", "PyPI's package"),
        ({"pycoral": "2.0.0"}, "error", "without tflite-runtime"),
        ({"pycoral": "2.0.0", "tflite-runtime": "2.5.0.post1"}, "ok", "with tflite-runtime 2.5.0.post1"),
    ],
)
def test_pycoral(tmp_path: Path, versions: dict[str, str], level: str, said: str) -> None:
    (finding,) = of(check_host(host(tmp_path, versions=versions)), "pycoral")
    assert finding.level == level and said in finding.what


def test_an_old_interpreter_and_none_at_all(tmp_path: Path) -> None:
    findings = check_host(host(tmp_path, versions={"tflite-runtime": "2.5.0.post1"}))
    assert "corrupt" in of(findings, "interpreter", "warning")[0].what
    assert "pip install" in of(check_host(host(tmp_path, versions={})), "interpreter", "warning")[0].way_out


@pytest.mark.parametrize(
    ("python", "level", "said"),
    [((3, 8, 1), "error", "3.8"), ((3, 9, 2), "ok", "pycoral"), ((3, 12, 0), "ok", "litert")],
)
def test_python(tmp_path: Path, python: tuple[int, ...], level: str, said: str) -> None:
    (finding,) = of(check_host(host(tmp_path, python=python)), "host python")
    assert finding.level == level and said in finding.what


def test_the_compiler_tells_its_version_or_why_not(tmp_path: Path) -> None:
    def broken() -> None:
        raise CompilerFailedError("edgetpu_compiler --version tells no version")

    compiler = Compiler(Path("/usr/bin/edgetpu_compiler"), "16.0.384591198")
    assert (
        "16.0.384591198"
        in of(check_host(host(tmp_path, find_compiler=lambda: compiler)), "edgetpu_compiler", "ok")[0].what
    )
    assert of(check_host(host(tmp_path, find_compiler=broken)), "edgetpu_compiler", "error")
    assert of(check_host(host(tmp_path)), "edgetpu_compiler", "warning")


# -- the self-test of links -------------------------------------------------------------------------------------------


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A made-up host whose `ai_edge_litert` cannot be imported, so that the double's interpreter is used."""
    (tmp_path / "host").mkdir()
    (tmp_path / "state").mkdir()
    path = coral_double.install(tmp_path / "host")
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("RESPECT_RUNTIME", "tflite-runtime")
    monkeypatch.setenv("CORAL_DOUBLE_STATE", str(tmp_path / "state"))

    def behave(**settings: Any) -> None:
        monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb", "usb"], **settings}))

    behave()
    return behave


@pytest.fixture
def model(tmp_path: Path) -> Path:
    from tests.hardware_runners.jobs import skipping_model
    from tests.tflite_models import write_model

    path = tmp_path / "net_edgetpu.tflite"
    path.write_bytes(write_model(skipping_model()))
    return path


def test_every_device_is_opened_and_runs_the_model(double: Any, model: Path) -> None:
    findings = list(check_links(2, model))
    tested = of(findings, "link self-test", "ok")
    assert [f"device ':{k}' opened" in finding.what for k, finding in enumerate(tested)] == [True, True]
    assert all("net_edgetpu.tflite" in finding.what and "48 bytes" in finding.what for finding in tested)
    assert "ms an inference" not in next(iter(check_links(1, None))).what


def test_a_device_that_cannot_be_opened_or_brings_the_process_down(double: Any, model: Path) -> None:
    double(fail={"device": ":1", "after": 3, "how": "segv"})
    fine, broken = check_links(2, model)
    assert (fine.level, broken.level) == ("ok", "error")
    assert "brought down" in broken.what and "TensorFlow generation" in broken.way_out
    double(fail={"device": ":0", "after": 3, "how": "hang"})
    (slow,) = check_links(1, model, timeout_s=2)
    assert slow.level == "error" and "no answer within 2 s" in slow.what


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    (finding,) = check_links(2, tmp_path / "gone.tflite")
    assert finding.level == "error" and "gone.tflite" in finding.what and finding.way_out


def test_unknown_devices_have_the_kernels_name() -> None:
    assert EdgeTpu("usb", "1-1", None, None).text == "usb"
