"""`respect split` over every real model that is valid, at each feasible number of stages, with its default solver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.job import read_job
from respect_core.segments.interpreter import Array
from respect_core.segments.verify import ChainPart, Verification, WholeModel, verify_segments
from tests.real_models import MODELS, RUNNABLE

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify here: a process for each of fifty splits takes longer than all the rest."""

    def verify(
        _limit_s: float,
        _function: object,
        _bytes: int,
        whole: WholeModel,
        parts: Sequence[ChainPart],
        items: list[Array],
    ) -> Verification:
        return verify_segments(whole, parts, items)

    monkeypatch.setattr("tasks.split.run_in_child", verify)


@pytest.mark.parametrize(("name", "most"), RUNNABLE.items())
def test_the_command_splits_it(name: str, most: int, tmp_path: Path, in_this_process: None) -> None:
    for num_stages in range(2, most + 1):
        out = tmp_path / str(num_stages)
        args = ["split", str(MODELS / name), "-k", str(num_stages), "-o", str(out), "--no-compile", "--json"]
        result = CliRunner().invoke(app, [*args, "--items", "1"])
        assert result.exit_code == 0, result.stderr
        facts = json.loads(result.stdout)
        assert (
            facts["status"] in ("optimal", "feasible")
            and facts["verification"]["identical"]
            and facts["suits_pipeline"]
        )
        assert len(read_job(out).segments) == num_stages
