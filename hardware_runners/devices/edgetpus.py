"""Edge TPUs attached to this host and their links, as the kernel shows them; nothing is opened.

USB sticks show as 1a6e:089a until their firmware is loaded by the first use and as 18d1:9302 from then on; PCIe cards
as 1ac1:089a. PCIe devices are numbered before USB ones, and the order may change over reboots.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

USB_IDS = (("1a6e", "089a"), ("18d1", "9302"))
PCI_ID = ("0x1ac1", "0x089a")

USB3_MBIT = 5000
PCIE_GT = 5.0

_DEVICE = re.compile(r"(?:|(?:|usb|pci):\d{1,4}|usb|pci)")


@dataclass(frozen=True)
class EdgeTpu:
    """One attached device."""

    link: str
    """`usb` or `pcie`."""
    name: str
    """The kernel's name of it: a USB port, or a PCI address."""
    node: Optional[Path]
    """File below /dev by which it is opened; None for a PCIe card without its driver."""
    speed: Optional[float]
    """Negotiated: Mbit/s of USB, GT/s of PCIe; None where the kernel does not say."""
    lanes: Optional[int] = None
    """PCIe lanes in use."""

    @property
    def text(self) -> str:
        """Link and speed in words."""
        if self.speed is None:
            return self.link
        if self.link == "usb":
            return f"usb {self.speed:g} Mbit/s"
        return f"pcie {self.speed:g} GT/s" + ("" if self.lanes is None else f" x{self.lanes}")

    @property
    def is_slow(self) -> bool:
        """Whether the link is slower than the device allows: USB 2, or PCIe of the first generation."""
        return self.speed is not None and self.speed < (USB3_MBIT if self.link == "usb" else PCIE_GT)


def find_edge_tpus(root: Path = Path("/")) -> Tuple[EdgeTpu, ...]:
    """Return the attached Edge TPUs, PCIe before USB.

    Args:
        root: Folder with `sys` and `dev`.
    """
    return (*_pcie(root), *_usb(root))


def is_device_text(device: str) -> bool:
    """Tell whether libedgetpu understands this: empty (any), `:N`, `usb`, `usb:N`, `pci` or `pci:N`."""
    return _DEVICE.fullmatch(device) is not None


def of_device(device: str, attached: Sequence[EdgeTpu]) -> Optional[EdgeTpu]:
    """Return the attached device that a device text with a number means, None where it means none or any."""
    kind, _, number = device.partition(":")
    wanted = {"usb": "usb", "pci": "pcie"}.get(kind)
    of_kind = [one for one in attached if wanted is None or one.link == wanted]
    if not number or int(number) >= len(of_kind):
        return None
    return of_kind[int(number)]


def devices_text(devices: Sequence[str], seen: Optional[Sequence[Tuple[str, str]]], root: Path = Path("/")) -> str:
    """Describe the devices of a pipeline and their links, e.g. `3 Edge TPUs, usb 5000 Mbit/s`.

    Args:
        devices: Device texts, one a stage.
        seen: Link and path of the devices that the library sees.
        root: Folder with `sys` and `dev`.
    """
    kernel = find_edge_tpus(root)
    links = []
    for k, device in enumerate(devices):
        known = of_device(device, kernel) if len(kernel) >= len(devices) else None
        if known is not None:
            links.append(known.text)
        elif device.startswith(("usb", "pci")):
            links.append("usb" if device.startswith("usb") else "pcie")
        elif seen is not None and k < len(seen):
            links.append(seen[k][0])
        else:
            links.append("unknown link")
    return f"{len(devices)} Edge TPU{'s' if len(devices) > 1 else ''}, {', '.join(dict.fromkeys(links))}"


def _usb(root: Path) -> List[EdgeTpu]:
    found = []
    for folder in _folders(root / "sys/bus/usb/devices"):
        if (_text(folder / "idVendor"), _text(folder / "idProduct")) not in USB_IDS:
            continue
        bus, number = _text(folder / "busnum"), _text(folder / "devnum")
        known = bus is not None and number is not None and bus.isdecimal() and number.isdecimal()
        node = root / f"dev/bus/usb/{int(str(bus)):03d}/{int(str(number)):03d}" if known else None
        found.append(EdgeTpu("usb", folder.name, node, _number(_text(folder / "speed"))))
    return found


def _pcie(root: Path) -> List[EdgeTpu]:
    nodes = {}
    for folder in _folders(root / "sys/class/apex"):
        with suppress(OSError):
            nodes[(folder / "device").resolve().name] = root / "dev" / folder.name
    found = []
    for folder in _folders(root / "sys/bus/pci/devices"):
        if (_text(folder / "vendor"), _text(folder / "device")) != PCI_ID:
            continue
        lanes = _number(_text(folder / "current_link_width"))
        found.append(
            EdgeTpu(
                link="pcie",
                name=folder.name,
                node=nodes.get(folder.name),
                speed=_number(_text(folder / "current_link_speed")),
                lanes=None if lanes is None else int(lanes),
            )
        )
    return sorted(found, key=lambda one: (one.node is None, str(one.node)))


def _folders(path: Path) -> List[Path]:
    with suppress(OSError):
        return sorted(path.iterdir())
    return []


def _text(path: Path) -> Optional[str]:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="ascii").strip()
    return None


def _number(text: Optional[str]) -> Optional[float]:
    found = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(found.group()) if found else None
