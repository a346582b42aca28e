"""What all tests share: the import path, hypothesis profiles and the markers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
FLOWS = ROOT / "tests" / "flows"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the flows last, and skip what is marked `shared` where the folder beside the checkout is missing.

    The flows' servers leave threads that draw random numbers, which hypothesis would take for the tests' own.
    """
    items.sort(key=lambda item: FLOWS in item.path.parents)
    if SHARED.is_dir():
        return
    skip = pytest.mark.skip(reason=f"needs the folder {SHARED}")
    for item in items:
        if "shared" in item.keywords:
            item.add_marker(skip)
