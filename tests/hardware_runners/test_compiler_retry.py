"""Segments of a real cut, a compiler that refuses one of them, and other cuts that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware_runners.compiler import CompiledSegment, CompileOptions, compile_segments, find_compiler
from respect_core.segments.model_file import open_model
from respect_core.segments.retry import retry_cuts
from respect_core.segments.slice import slice_model
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from tests.conftest import SHARED
from tests.hardware_runners.compiler_double import put_on_path

MODEL = SHARED / "data" / "models" / "mobilenet_v1_0.25_128_quant.tflite"


@pytest.mark.shared
def test_other_cuts_are_tried_until_every_segment_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    behave = put_on_path(monkeypatch, tmp_path / "bin")
    compiler = find_compiler()
    assert compiler is not None
    model = open_model(MODEL)
    problem = Problem.of(model.graph, 3, "throughput")
    stage_of = BestOrderSolver().solve(problem, SolveOptions()).stage_of
    assert stage_of is not None
    results: list[tuple[CompiledSegment, ...]] = []

    def compile_schedule(stages: tuple[int, ...]) -> list[int]:
        folder = tmp_path / f"try{len(results)}"
        folder.mkdir()
        paths = []
        for segment in slice_model(model, stages, 3):
            paths.append(folder / segment.file_name)
            paths[-1].write_bytes(segment.content)
        before = [one for done in results for one in done]
        options = CompileOptions(retries=0)
        results.append(compile_segments(paths, folder, compiler=compiler, options=options, reuse=before))
        return [one.stage for one in results[-1] if one.other_cuts_help]

    largest = max(range(3), key=stage_of.count)
    names = [name for name, stage in zip(model.graph.op_names, stage_of, strict=True) if stage == largest]
    behave(f"large_activations:has={names[len(names) // 4]} && {names[3 * len(names) // 4]}")
    outcome = retry_cuts(problem, stage_of, compile_schedule(stage_of), compile_schedule, 6)
    assert not all(one.ok for one in results[0])
    assert outcome.success
    assert all(one.ok for one in results[-1])
    assert len(results) == len(outcome.attempts) > 1
