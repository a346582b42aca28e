"""Sets of schedules: what they hold, what they obey, and that their tables fit together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from respect_core.constraints import Constraints
from respect_core.sources.catalog import load_model
from respect_core.tables.domain_checks import robustness_checks, schedule_checks
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from tasks.plan import RunPlan
from tasks.schedule import ScheduleSet, schedule_model
from tests.respect_core.tables.table_data import broken

MODEL = "small-int8"
SMALL = ScheduleSet(
    models=(MODEL,),
    num_stages=(3, 4),
    solvers=("policy", "exact", "robust-p90", "balanced", "compiler-rule"),
    objective="throughput",
    constraints=("outputs_last", "inputs_first"),
    peak_memory_by=("exact",),
    num_scenarios=20,
)


def test_a_set_for_pipelines_has_legal_schedules_that_are_judged_and_pass_the_checks() -> None:
    tables = schedule_model(MODEL, SMALL, None)
    schedules, judged = SCHEDULES.table(tables["schedules"]), ROBUSTNESS.table(tables["robustness"])
    found = {(row["solver"], row["objective"], row["num_stages"]) for row in tables["schedules"]}
    wanted = [*((name, "throughput") for name in SMALL.solvers[1:]), ("exact", "peak-memory")]
    assert found == {(*who, num_stages) for who in wanted for num_stages in (3, 4)}, "no policy without weights"
    graphs, constraints = {MODEL: load_model(MODEL)}, Constraints.named(SMALL.constraints)
    checks = schedule_checks(schedules, graphs, constraints=constraints).columns
    checks |= robustness_checks(judged, schedules, graphs).columns
    assert {name: broken(column) for name, column in checks.items() if broken(column)} == {}
    assert judged.num_rows == sum(row["stage_of"] is not None for row in tables["schedules"])
    assert set(judged["scenario_seed"].to_pylist()) == {1}, "not the devices that robust schedules are chosen by"


def test_a_set_without_scenarios_is_of_one_table() -> None:
    plain = replace(SMALL, num_scenarios=0, solvers=("compiler-rule",), peak_memory_by=())
    assert plain.schemas == (SCHEDULES,)
    assert list(schedule_model(MODEL, plain, None)) == ["schedules"]


@pytest.mark.parametrize(
    "change",
    [
        {"num_scenarios": 30},
        {"constraints": ()},
        {"peak_memory_by": ()},
        {"solvers": ("exact",)},
        {"policy": "0" * 64},
        {"seed": 1},
    ],
)
def test_whatever_determines_the_schedules_changes_the_partition(change: dict[str, object]) -> None:
    assert replace(SMALL, **change).partition != SMALL.partition  # type: ignore[arg-type]


def test_the_plan_has_two_sets_of_the_same_models() -> None:
    plan = RunPlan.of("smoke")
    layers, ops = plan.schedules(None), plan.throughput_schedules(None)
    assert (layers.objective, ops.objective) == ("peak-memory", "throughput")
    assert ops.models == tuple(f"{model}-int8" for model in layers.models) and len(ops.models) == 10
    assert ops.constraints == ("outputs_last", "inputs_first") and layers.constraints == ()
    assert layers.num_stages == ops.num_stages == (4, 5, 6)
    assert "policy" not in ops.used_solvers and "policy" in plan.throughput_schedules("0" * 64).used_solvers
