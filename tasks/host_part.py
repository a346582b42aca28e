"""The part of `hardware_runners` that a Coral host needs, as a folder to copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import hardware_runners
from respect_core.errors import UnwritableError

NOT_FOR_HOSTS: Final = ("simulated.py",)
"""What needs the rest of the project."""

_FOLDER: Final = Path(hardware_runners.__file__).parent


def host_files() -> list[Path]:
    """Return the modules that a Coral host needs."""
    return sorted(path for path in _FOLDER.rglob("*.py") if path.name not in NOT_FOR_HOSTS)


def export_host(folder: Path) -> list[str]:
    """Write these modules to ``folder/hardware_runners``, replacing those that are there.

    Returns:
        The paths that were written, relative to ``folder``.

    Raises:
        UnwritableError: It cannot be written.
    """
    target = folder / "hardware_runners"
    files = host_files()
    copies = [target / path.relative_to(_FOLDER) for path in files]
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path, copy in zip(files, copies, strict=True):
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
    except OSError as error:
        raise UnwritableError(f"{target} cannot be written ({error.strerror or error})") from error
    return [path.relative_to(folder).as_posix() for path in copies]
