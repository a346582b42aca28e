"""Rules of the table `schedules`: legal, with right numbers, and no proof contradicted by another solver's row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa

from respect_core.constraints import NO_CONSTRAINTS, Constraints
from respect_core.device import DeviceProfile, load_profile
from respect_core.errors import RespectError
from respect_core.graph import DnnGraph
from respect_core.objective import Numbers, evaluate
from respect_core.schedule import first_violation
from respect_core.solve.protocol import gap_of
from respect_core.tables.domain_checks.columns import DomainColumns, complaints

Row = dict[str, Any]
_GAP_TOLERANCE: Final = 1e-9
_NS_PER_US: Final = 1000
_NUMBERS: Final = (
    "param_bytes",
    "boundary_bytes",
    "input_bytes",
    "output_bytes",
    "time_us",
    "peak_param_bytes",
    "communication_bytes",
    "bottleneck_us",
    "latency_us",
    "crossings",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judged:
    """One row with what can be recomputed of it."""

    row: Row
    illegal: str | None
    """What is wrong with the schedule; None for a legal one and where there is none."""
    numbers: Numbers | None
    value: tuple[int, ...] | None
    """Components of the objective in bytes or ns, None without a legal schedule."""
    bound: int | None
    """The row's lower bound in bytes or ns."""

    @property
    def group(self) -> tuple[Any, ...]:
        """Rows of one group solve the same problem."""
        return tuple(self.row[name] for name in ("model", "num_stages", "objective", "device"))


def schedule_checks(
    schedules: pa.Table,
    graphs: Mapping[str, DnnGraph],
    *,
    constraints: Constraints = NO_CONSTRAINTS,
    ratio: int = 100,
    profiles: Mapping[str, DeviceProfile] | None = None,
) -> DomainColumns:
    """Check every schedule against its graph and against the other rows of its problem.

    Args:
        schedules: Rows of `schedules`.
        graphs: The graphs by name.
        constraints: What all schedules must obey.
        ratio: Weight of a byte in the `weighted` objective.
        profiles: Device profiles by name, where they are not built in.

    Returns:
        One column of texts a rule; a text names what is wrong in that row.
    """

    @cache
    def profile_of(name: str) -> DeviceProfile:
        return profiles[name] if profiles and name in profiles else load_profile(name)

    judged = [_judge(row, graphs, constraints, ratio, profile_of) for row in schedules.to_pylist()]
    groups: dict[tuple[Any, ...], list[_Judged]] = {}
    for one in judged:
        groups.setdefault(one.group, []).append(one)
    rules: dict[str, Callable[[_Judged], str | None]] = {
        "legal": lambda one: one.illegal,
        "schedule_where_status_says": _status_contradiction,
        "numbers_recomputed": _wrong_number,
        "bound_not_above_value": _bound_above_value,
        "gap_follows_from_bound": _wrong_gap,
        "optimal_is_proven": _unproven,
        "gap_to_best_recomputed": lambda one: _wrong_gap_to_best(one, groups[one.group]),
        "optimal_not_beaten": lambda one: _beaten(one, groups[one.group]),
        "not_below_proven_bound": lambda one: _below_bound(one, groups[one.group]),
        "infeasible_not_contradicted": lambda one: _feasible_after_all(one, groups[one.group]),
        "canonical_agrees": lambda one: _other_canonical(one, groups[one.group]),
    }
    return DomainColumns(columns={name: complaints([rule(one) for one in judged]) for name, rule in rules.items()})


def _judge(
    row: Row,
    graphs: Mapping[str, DnnGraph],
    constraints: Constraints,
    ratio: int,
    profile_of: Callable[[str], DeviceProfile],
) -> _Judged:
    graph, stage_of, bound = graphs.get(row["model"]), row["stage_of"], row["lower_bound"]
    if bound is not None and row["objective"] == "throughput":
        bound = round(bound * _NS_PER_US)
    illegal, numbers = None, None
    try:
        if graph is None:
            illegal = f"there is no graph {row['model']!r}"
        elif row["num_ops"] != graph.num_ops:
            illegal = f"num_ops is {row['num_ops']}, graph {graph.name!r} has {graph.num_ops}"
        elif stage_of is not None:
            illegal = first_violation(graph, stage_of, row["num_stages"], constraints)
            if illegal is None:
                numbers = evaluate(graph, stage_of, row["num_stages"], profile_of(row["device"]), constraints)
    except RespectError as error:
        illegal = str(error)
    return _Judged(
        row=row,
        illegal=illegal,
        numbers=numbers,
        value=numbers.value(row["objective"], ratio) if numbers else None,
        bound=bound,
    )


def _status_contradiction(one: _Judged) -> str | None:
    wants = one.row["status"] in ("optimal", "feasible")
    for name in ("stage_of", *_NUMBERS):
        if (one.row[name] is not None) != wants:
            return f"status is {one.row['status']} and {name} is {'null' if wants else 'not null'}"
    return None


def _wrong_number(one: _Judged) -> str | None:
    if one.numbers is None:
        return None
    numbers = one.numbers
    right = {
        "param_bytes": numbers.param_bytes.tolist(),
        "boundary_bytes": numbers.boundary_bytes.tolist(),
        "input_bytes": numbers.input_bytes.tolist(),
        "output_bytes": numbers.output_bytes.tolist(),
        "time_us": [ns / _NS_PER_US for ns in numbers.time_ns.tolist()],
        "peak_param_bytes": numbers.peak_param_bytes,
        "communication_bytes": numbers.communication_bytes,
        "bottleneck_us": numbers.bottleneck_ns / _NS_PER_US,
        "latency_us": numbers.latency_ns / _NS_PER_US,
        "crossings": numbers.crossings,
    }
    for name in _NUMBERS:
        if one.row[name] != right[name]:
            return f"{name} is {one.row[name]}, the schedule gives {right[name]}"
    return None


def _bound_above_value(one: _Judged) -> str | None:
    if one.value is None or one.bound is None or one.bound <= one.value[0]:
        return None
    return f"bound {one.bound} is above the value {one.value[0]}"


def _wrong_gap(one: _Judged) -> str | None:
    return _gap_mistake("gap", one, one.bound)


def _wrong_gap_to_best(one: _Judged, group: list[_Judged]) -> str | None:
    bounds = [other.bound for other in group if other.bound is not None]
    return _gap_mistake("gap_to_best", one, max(bounds, default=None))


def _gap_mistake(name: str, one: _Judged, bound: int | None) -> str | None:
    if one.illegal is not None:
        return None
    right = None if one.value is None else gap_of(one.value[0], bound)
    stored = one.row[name]
    if stored is None or right is None:
        return None if stored is right else f"{name} is {stored}, it should be {right}"
    return None if abs(stored - right) <= _GAP_TOLERANCE else f"{name} is {stored}, it should be {right}"


def _unproven(one: _Judged) -> str | None:
    optimal = one.row["status"] == "optimal"
    if one.row["canonical"] and not optimal:
        return f"canonical is true and the status is {one.row['status']}"
    if optimal and one.value is not None and one.bound != one.value[0]:
        return f"optimal with value {one.value[0]} and bound {one.bound}"
    return None


def _beaten(one: _Judged, group: list[_Judged]) -> str | None:
    if one.row["status"] != "optimal" or one.value is None:
        return None
    for other in group:
        if other.value is not None and other.value < one.value:
            return f"optimal with {one.value}, but {other.row['solver']} found {other.value}"
    return None


def _below_bound(one: _Judged, group: list[_Judged]) -> str | None:
    if one.value is None:
        return None
    for other in group:
        if other.bound is not None and one.value[0] < other.bound:
            return f"value {one.value[0]} is below the bound {other.bound} of {other.row['solver']}"
    return None


def _feasible_after_all(one: _Judged, group: list[_Judged]) -> str | None:
    if one.row["status"] != "infeasible":
        return None
    found = next((other for other in group if other.value is not None), None)
    return f"infeasible, but {found.row['solver']} found a schedule" if found else None


def _other_canonical(one: _Judged, group: list[_Judged]) -> str | None:
    if not one.row["canonical"]:
        return None
    for other in group:
        if other.row["canonical"] and other.row["stage_of"] != one.row["stage_of"]:
            return f"{other.row['solver']} calls another stage vector canonical"
    return None
