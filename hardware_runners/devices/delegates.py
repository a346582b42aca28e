"""libedgetpu: opening the devices of a pipeline one by one, with patience, and asking what is attached.

Used in a process of its own only: the library may bring down the process that loads it.
"""

from __future__ import annotations

import ctypes
import platform
import time
from contextlib import suppress
from typing import Any, Callable, List, Optional, Sequence, Tuple

from hardware_runners.errors import DeviceUnavailableError

LIBRARIES = {"Linux": "libedgetpu.so.1", "Darwin": "libedgetpu.1.dylib", "Windows": "edgetpu.dll"}
"""Name of the library by operating system."""

RETRIES = 5
"""How often to try again to open a device: users see about one in five fail on USB."""

WAIT_S = 0.5
"""Time before the first new try; every further one waits so much longer."""


def library_name() -> str:
    """Return the name of libedgetpu on this system."""
    return LIBRARIES.get(platform.system(), LIBRARIES["Linux"])


def open_device(
    load: Callable[..., Any],
    library: str,
    stage: int,
    device: str,
    *,
    retries: int = RETRIES,
    wait_s: float = WAIT_S,
    note: Callable[[str], None] = lambda text: None,
) -> Any:
    """Open one device by loading its delegate, again if it fails.

    Args:
        load: The interpreter's `load_delegate`.
        library: Name or path of libedgetpu.
        stage: Stage that the device is for.
        device: Device text, empty for any.
        retries: How often to try again.
        wait_s: Time before the first new try.
        note: Told that tries were needed.

    Returns:
        The delegate; the device belongs to this process until it is deleted.

    Raises:
        DeviceUnavailableError: The library is missing, or the device cannot be opened; stage and device are named.
    """
    for tries in range(1, retries + 2):
        try:
            delegate = load(library, {"device": device} if device else {})
        except OSError as error:
            raise DeviceUnavailableError(
                f"{library} cannot be loaded ({error}): install the Edge TPU runtime (libedgetpu1-std)", stage, device
            ) from error
        except ValueError as error:  # one text for no device, a wrong number and a device that somebody else holds
            if tries > retries:
                raise DeviceUnavailableError(
                    f"the device cannot be opened in {tries} tries ({error}): is it attached, is it held by another "
                    "process, may this user open it? `respect doctor` tells",
                    stage,
                    device,
                ) from error
            time.sleep(wait_s * tries)
            continue
        if tries > 1:
            note(f"device {device!r} of stage {stage} opened at try {tries}")
        return delegate
    raise AssertionError("unreachable")


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("path", ctypes.c_char_p))


def attached(library: str) -> Optional[List[Tuple[str, str]]]:
    """Return link and path of every Edge TPU that libedgetpu sees, None where it cannot be asked."""
    with suppress(OSError, AttributeError):
        loaded = ctypes.CDLL(library)
        loaded.edgetpu_list_devices.restype = ctypes.POINTER(_Device)
        loaded.edgetpu_free_devices.argtypes = [ctypes.POINTER(_Device)]
        count = ctypes.c_size_t()
        devices = loaded.edgetpu_list_devices(ctypes.byref(count))
        found = [("pcie" if devices[i].type == 0 else "usb", devices[i].path.decode()) for i in range(count.value)]
        loaded.edgetpu_free_devices(devices)
        return found
    return None


def runtime_version(library: str) -> Optional[str]:
    """Return what libedgetpu says of itself, e.g. ``BuildLabel(...), RuntimeVersion(14)``; None if it does not."""
    with suppress(OSError, AttributeError):
        loaded = ctypes.CDLL(library)
        loaded.edgetpu_version.restype = ctypes.c_char_p
        said = loaded.edgetpu_version()
        return said.decode(errors="replace") if said else None
    return None


def check_count(devices: Sequence[str], num_attached: Optional[int], num_stages: int) -> None:
    """Refuse a pipeline of more stages than there are devices, before anything is opened.

    Args:
        devices: Device texts that were chosen.
        num_attached: Devices that are attached, None where nobody knows.
        num_stages: Stages of the pipeline.

    Raises:
        DeviceUnavailableError: The first stage without a device is named.
    """
    if len(devices) < num_stages:
        raise DeviceUnavailableError(
            f"{len(devices)} devices are given ({', '.join(map(repr, devices)) or 'none'}), the pipeline has "
            f"{num_stages} stages: give one a stage, or split into fewer stages",
            len(devices),
        )
    if num_attached is not None and num_attached < num_stages:
        raise DeviceUnavailableError(
            f"{num_attached} Edge TPUs are attached, the pipeline has {num_stages} stages: attach more, or split into "
            "fewer stages; `respect doctor` lists what is attached",
            num_attached,
            devices[num_attached],
        )
