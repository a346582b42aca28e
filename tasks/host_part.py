"""The part of `hardware_runners` that a Coral host needs, as a folder to copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import hardware_runners
from respect_core.errors import UnwritableError

NOT_FOR_HOSTS: Final = ("simulated.py",)
"""What needs the rest of the project."""


def host_files() -> list[Path]:
    """Return the modules that a Coral host needs."""
    folder = Path(hardware_runners.__file__).parent
    return sorted(path for path in folder.glob("*.py") if path.name not in NOT_FOR_HOSTS)


def export_host(folder: Path) -> list[str]:
    """Write these modules to ``folder/hardware_runners``, replacing those that are there.

    Returns:
        The paths that were written, relative to ``folder``.

    Raises:
        UnwritableError: It cannot be written.
    """
    target = folder / "hardware_runners"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in host_files():
            shutil.copyfile(path, target / path.name)
    except OSError as error:
        raise UnwritableError(f"{target} cannot be written ({error.strerror or error})") from error
    return [f"{target.name}/{path.name}" for path in host_files()]
