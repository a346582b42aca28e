"""`Finding`: one thing that a check of this machine looked at."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("ok", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    check: str
    level: str
    """One of `LEVELS`."""
    what: str
    way_out: str = ""
    """What to do about it; empty where all is well."""
