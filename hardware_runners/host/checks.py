"""What can be wrong with a host of Edge TPUs: every check returns findings, every finding comes with the way out.

Everything is read below a root folder, so that the checks can be tried on a made-up host.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, Dict, FrozenSet, Iterator, List, Optional, Tuple

from hardware_runners.compiler import Compiler, CompilerFailedError, find_compiler
from hardware_runners.devices.edgetpus import EdgeTpu, find_edge_tpus
from hardware_runners.host.findings import Finding
from hardware_runners.host.link_check import check_links
from hardware_runners.host.software import check_software, package_versions

UDEV_RULE = 'SUBSYSTEM=="apex", MODE="0660", GROUP="apex"'
HOTTEST_MILLIDEGREE = 85_000
"""Above this temperature PCIe devices slow down."""

_RULES = ("etc/udev/rules.d", "lib/udev/rules.d", "usr/lib/udev/rules.d")


def _ids() -> Tuple[int, FrozenSet[int]]:
    if platform.system() == "Windows":
        return 0, frozenset()
    return os.geteuid(), frozenset({os.getegid(), *os.getgroups()})


@dataclass(frozen=True)
class Host:
    """What is looked at."""

    root: Path = Path("/")
    """Folder with `sys`, `dev`, `proc`, `etc`, `usr` and `var`."""
    versions: Dict[str, str] = field(default_factory=package_versions)
    """Versions of installed Python packages that matter here."""
    ids: Tuple[int, FrozenSet[int]] = field(default_factory=_ids)
    """User, and all groups."""
    python: Tuple[int, ...] = tuple(sys.version_info[:3])
    find_compiler: Callable[[], Optional[Compiler]] = find_compiler

    @property
    def is_this(self) -> bool:
        """Whether it is this machine, so that its devices can be opened."""
        return self.root == Path("/")


def check_host(host: Optional[Host] = None, link_test: Optional[Path] = None) -> List[Finding]:
    """Run every check; nothing is changed. Devices are opened one by one where nobody holds them.

    Args:
        host: What to look at, None for this machine.
        link_test: A model compiled for the Edge TPU to run on every device, None to open the devices only.
    """
    host = host or Host()
    attached = find_edge_tpus(host.root)
    found = [*_python(host), *_compiler(host), *check_software(host.root, host.versions, bool(attached))]
    found += _devices(host, attached)
    is_free = not any(finding.level == "error" and finding.check in ("device", "permissions") for finding in found)
    if attached and host.is_this and is_free:
        found += check_links(len(attached), link_test)
    return found


def _python(host: Host) -> Iterator[Finding]:
    version = ".".join(map(str, host.python))
    if host.python < (3, 9):
        yield Finding("host python", "error", f"Python {version}", "3.9 is the oldest that runners work with")
    elif host.python < (3, 10):
        yield Finding("host python", "ok", f"Python {version}: pycoral 2.0 and tflite-runtime, no ai-edge-litert")
    else:
        yield Finding("host python", "ok", f"Python {version}: ai-edge-litert; pycoral 2.0 has wheels up to 3.9")
    if host.is_this and find_spec("numpy") is None:
        yield Finding("numpy", "error", "NumPy is not installed", "pip install numpy (below 2 for tflite-runtime)")


def _compiler(host: Host) -> Iterator[Finding]:
    try:
        compiler = host.find_compiler()
    except CompilerFailedError as error:
        yield Finding("edgetpu_compiler", "error", str(error), "install it again from Coral's package archive")
        return
    if compiler is None:
        yield Finding(
            "edgetpu_compiler",
            "warning",
            "not on the PATH",
            "only needed to compile segments (x86-64 Linux); everything else works without it",
        )
    else:
        yield Finding("edgetpu_compiler", "ok", f"version {compiler.version} at {compiler.path}")


# -- devices ----------------------------------------------------------------------------------------------------------


def _devices(host: Host, attached: Tuple[EdgeTpu, ...]) -> Iterator[Finding]:
    if not attached:
        yield Finding("device", "ok", "no Edge TPU is attached; only the runner coral needs one")
        return
    holders = _holders(host, attached)
    for number, device in enumerate(attached):
        name = f"':{number}' ({device.link} {device.name})"
        yield from _link(name, device)
        if device.node is None:
            yield Finding(
                "device",
                "error",
                f"{name} has no file below /dev: its kernel driver is not loaded",
                "install gasket-dkms for this kernel, `modprobe apex`, and look into dmesg",
            )
            continue
        yield from _permissions(host, name, device)
        for pid, command in holders.get(device.node, ()):
            yield Finding(
                "device",
                "error",
                f"{name} is held by process {pid} ({command})",
                f"end it: kill {pid}; a device serves one",
            )
        yield from _temperature(host, name, device)


def _link(name: str, device: EdgeTpu) -> Iterator[Finding]:
    if not device.is_slow:
        yield Finding("device", "ok", f"{name}: {device.text}")
    elif device.link == "usb":
        yield Finding(
            "device",
            "warning",
            f"{name}: {device.text}, a link of USB 2, over which large tensors and streamed parameters take ten times "
            "as long",
            "use a USB 3 port and a USB 3 cable, without a hub of USB 2",
        )
    else:
        yield Finding("device", "warning", f"{name}: {device.text}, slower than its 5 GT/s", "try another slot")


def _permissions(host: Host, name: str, device: EdgeTpu) -> Iterator[Finding]:
    node = Path(str(device.node))
    try:
        status = node.stat()
    except OSError as error:
        yield Finding("device", "error", f"{name}: {node} cannot be looked at ({error.strerror})", "attach it again")
        return
    if _may_open(status, host.ids):
        return
    rule = _rule_file(host, device)
    who = f"owner {status.st_uid}, group {status.st_gid}, mode {stat.S_IMODE(status.st_mode):o}"
    if device.link == "pcie":
        group, how = (
            "apex",
            f"write {UDEV_RULE} into /etc/udev/rules.d/65-apex.rules, `udevadm control --reload`, reboot",
        )
    else:
        group, how = "plugdev", "install libedgetpu1-std, whose package brings the rule, and attach the device again"
    way_out = f"usermod --append --groups {group} USER and log in again" if rule else how
    known = f"although {rule} is there" if rule else "and no udev rule speaks of it"
    yield Finding("permissions", "error", f"{name}: this user may not open {node} ({who}), {known}", way_out)


def _may_open(status: os.stat_result, ids: Tuple[int, FrozenSet[int]]) -> bool:
    """Tell from mode, owner and group whether a user may read and write a file."""
    user, groups = ids
    if user == 0:
        return True
    shift = 6 if status.st_uid == user else 3 if status.st_gid in groups else 0
    return (status.st_mode >> shift) & 6 == 6


def _rule_file(host: Host, device: EdgeTpu) -> Optional[str]:
    """Return the udev rule that speaks of a device of this kind."""
    words = ("apex",) if device.link == "pcie" else ("1a6e", "18d1")
    for folder in _RULES:
        for path in sorted((host.root / folder).glob("*.rules")):
            with suppress(OSError):
                text = path.read_text(encoding="utf-8", errors="replace")
                if any(word in text for word in words):
                    return "/" + str(path.relative_to(host.root))
    return None


def _holders(host: Host, attached: Tuple[EdgeTpu, ...]) -> Dict[Path, List[Tuple[int, str]]]:
    """Return the processes that have a device's file open; those of other users show for root only."""
    nodes = {device.node: device.node for device in attached if device.node is not None}
    plain = {Path("/") / node.relative_to(host.root): node for node in nodes.values()}
    found: Dict[Path, List[Tuple[int, str]]] = {}
    for folder in sorted((host.root / "proc").glob("[0-9]*")):
        if host.is_this and int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            opened = {link.readlink() for link in (folder / "fd").iterdir()}
            for path, node in plain.items():
                if path in opened or node in opened:
                    command = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                    found.setdefault(node, []).append((int(folder.name), command))
    return found


def _temperature(host: Host, name: str, device: EdgeTpu) -> Iterator[Finding]:
    if device.link != "pcie" or device.node is None:
        return
    with suppress(OSError, ValueError):
        temperature = int((host.root / "sys/class/apex" / device.node.name / "temp").read_text(encoding="ascii"))
        if temperature > HOTTEST_MILLIDEGREE:
            yield Finding(
                "device", "warning", f"{name} has {temperature / 1000:.0f} degrees and slows down", "cool it better"
            )
