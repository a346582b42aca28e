"""`respect doctor` tells of devices and their software too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.host.findings import Finding
from respect_core.policy.solver import pretrained_path

CHECKS = {"host python", "edgetpu_compiler", "pycoral", "interpreter", "libedgetpu", "device"}


def test_devices_and_their_software_are_among_the_findings(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path / "home"), "--json"])
    findings = json.loads(result.stdout)["findings"]
    assert {finding["check"] for finding in findings} >= CHECKS
    for finding in findings:
        assert finding["level"] == "ok" or finding["way_out"]


def test_the_policy_in_use_is_among_the_findings_whatever_its_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def policy() -> dict[str, str]:
        result = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path), "--json"])
        found = json.loads(result.stdout)["findings"]
        (finding,) = (finding for finding in found if finding["check"] == "policy")
        return dict(finding)

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    finding = policy()
    assert finding["level"] == "ok" and "weights that come with the program are used" in finding["what"]
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").touch()
    champion = tmp_path / "champion.safetensors"
    champion.write_bytes(pretrained_path().read_bytes())
    finding = policy()
    assert finding["level"] == "ok" and finding["what"].startswith("champion messages-")
    champion.write_bytes(champion.read_bytes()[:1000])
    finding = policy()
    assert finding["level"] == "error" and "truncated" in finding["what"] and str(champion) in finding["way_out"]


def test_an_error_of_the_host_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def broken(link_test: Path | None) -> list[Finding]:
        asked.append(link_test)
        return [Finding("device", "error", "':0' (usb [red]2-1) is held by process 7 (frigate)", "end it: kill 7")]

    monkeypatch.setattr("flows.doctor_checks.check_host", broken)
    given = ["doctor", "--home", str(tmp_path / "home"), "--link-test", "m_edgetpu.tflite"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert "held by process 7" in " ".join(result.stdout.split()) and "kill 7" in result.stdout
    assert "[red]2-1" in result.stdout, "what a device is called is no markup"
    assert asked == [Path("m_edgetpu.tflite")]
