"""What a host with devices imports: Python 3.9 syntax, nothing but the standard library and NumPy."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.host_part import export_host, host_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "hardware_runners"
HOST_PART = tuple(path.relative_to(FOLDER).as_posix() for path in host_files())

USE_IT = """
import sys
from importlib.abc import MetaPathFinder

ALLOWED = set(sys.argv[1].split(",")) | {"numpy", "hardware_runners"}

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not to be had on a device host")

sys.meta_path.insert(0, Block())
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from hardware_runners.compiler import CompileOptions, find_compiler
from hardware_runners.errors import InvalidPlanError
from hardware_runners.events import simulate_line
from hardware_runners.job import JobSegment, TensorSpec, read_job, write_job
from hardware_runners.protocol import Inference, PipelineRunner, TimingPlan, Timings, host_text

folder = Path(sys.argv[3]) / "job"
job = write_job(folder, model="m", num_stages=2, objective="throughput", solver="s", stage_of=[0, 1],
                profile={"name": "p", "overlap": 0.5}, files={"graph.json": b"{}"})
assert read_job(folder) == job
a, b, c = (TensorSpec(name, "int8", (1, 4)) for name in "abc")
cut = write_job(folder.with_name("cut"), model="m", num_stages=2, objective="throughput", solver="s", stage_of=[0, 1],
                profile={"name": "p"}, files={"0": b"0", "1": b"1"}, plan=TimingPlan(items=5),
                suits_pipeline=True, whole=JobSegment(None, None, (a,), (c,)),
                segments=[JobSegment("0", None, (a,), (b,)), JobSegment("1", None, (b,), (c,))])
assert read_job(cut.folder) == cut and cut.suits_pipeline and not job.suits_pipeline
try:
    TimingPlan(repeats=-1)
except InvalidPlanError:
    pass
timings = Timings(runner="r", is_simulated=False, device="d", host=host_text(), versions={}, num_stages=2,
                  latency=(Inference(0, 3),), stage_ns=((1, 2),), pipelined=())
assert timings.rows(job)[0]["latency_us"] == 0.003
assert find_compiler("no-such-compiler") is None and CompileOptions().timeout_s == 180
assert simulate_line([1, 2], [1], 2).leave_ns[-1] == (2, 5)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"respect_core", "pandas", "pyarrow", "torch"}, loaded
print("fine", sys.version_info[:2])
"""


def _use_it(python: str, allowed: set[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-S", "-c", USE_IT, ",".join(sorted(allowed)), str(ROOT), str(folder)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_host_part_is_python_3_9_by_a_tool(tmp_path: Path) -> None:
    """Ruff parses for that version, and rejects syntax of a later one."""
    export_host(tmp_path)
    (tmp_path / "later.py").write_text("match 1:\n    case _:\n        pass\n")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--target-version",
        "py39",
        "--select",
        "E9,F821,YTT",
    ]
    fine = subprocess.run([*command, str(tmp_path / "hardware_runners")], capture_output=True, text=True, check=False)
    assert fine.returncode == 0, fine.stdout
    later = subprocess.run([*command, str(tmp_path / "later.py")], capture_output=True, text=True, check=False)
    assert later.returncode == 1 and "Python 3.9" in later.stdout, "the tool does not find later syntax"


@pytest.mark.parametrize("module", HOST_PART)
def test_the_host_part_is_python_3_9(module: str) -> None:
    source = (FOLDER / module).read_text(encoding="utf-8")
    tree = ast.parse(source, filename=module, feature_version=(3, 9))
    future = {a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    uses_types = any(isinstance(node, ast.AnnAssign | ast.FunctionDef) for node in ast.walk(tree))
    assert "annotations" in future or not uses_types
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Match), "match statements need Python 3.10"
        if isinstance(node, ast.Call):
            keywords = {keyword.arg for keyword in node.keywords}
            assert not keywords & {"kw_only", "slots", "strict"}, f"line {node.lineno} needs Python 3.10"


def test_the_host_part_runs_where_every_other_import_is_blocked(tmp_path: Path) -> None:
    done = _use_it(sys.executable, set(sys.stdlib_module_names), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fine")


def _a_python_3_9() -> str | None:
    named = shutil.which("python3.9")
    candidates = [*([named] if named else []), *map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python3.9"))]
    for candidate in candidates:
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def test_the_host_part_runs_on_a_real_python_3_9(tmp_path: Path) -> None:
    python = _a_python_3_9()
    if python is None:
        pytest.skip("there is no Python 3.9 here; the test with blocked imports stands in for it")
    done = _use_it(python, set(sys.stdlib_module_names), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(3, 9)" in done.stdout
