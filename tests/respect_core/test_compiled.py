"""Compiled functions survive whatever lies in their cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

MODULE = """
from typing import NamedTuple
from respect_core.compiled import compiled

class {name}(NamedTuple):
    a: int

@compiled
def twice(x):
    return 2 * x.a

def main():
    print(twice({name}(21)), sum(twice.stats.cache_hits.values()))
"""


def run(folder: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", "import cached_module; cached_module.main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "cached_module.py"
    path.write_text(MODULE.format(name="First"))
    assert run(tmp_path) == ["42", "0"]
    return path


def test_a_cache_that_speaks_of_a_type_that_is_gone_is_made_anew(module: Path) -> None:
    status = module.stat()
    module.write_text(MODULE.format(name="Other"))
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))  # else Python's own cache hides the change
    assert run(module.parent) == ["42", "0"]
    assert run(module.parent) == ["42", "1"]


@pytest.mark.parametrize(("ending", "content"), [("nbi", b"nonsense"), ("nbi", b""), ("nbc", b"\x80\x04")])
def test_a_damaged_cache_is_made_anew(module: Path, ending: str, content: bytes) -> None:
    damaged = list((module.parent / "cache").rglob(f"*.{ending}"))
    assert damaged
    for path in damaged:
        path.write_bytes(content)
    assert run(module.parent) == ["42", "0"]
    assert run(module.parent) == ["42", "1"]


def test_scipy_is_not_loaded_but_serves_linear_algebra_that_others_compile() -> None:
    code = """
import sys
import respect_core.compiled
assert "scipy" not in sys.modules
import numba
import numpy as np
print(numba.njit(lambda a: np.dot(a, a))(np.full((2, 2), 3.0))[0, 0], "scipy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["18.0", "True"], done.stderr
