"""The report's interactive figures, as plain Plotly specifications (``data`` and ``layout``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from respect_core.device import MIB
from respect_core.report.data import ON_CHIP_BYTES, Case, Row, Setting, Throughput
from respect_core.report.dots import Spec, Value, base_layout, dot_panel, label, marker, panel_height
from respect_core.report.html_parts import seconds_text
from respect_core.report.palette import LIMIT, Style

_SHORTEST_S: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure with what the page says around it."""

    title: str
    description: str
    """What it shows, for those who do not see it."""
    spec: Spec
    height_px: int


def gap_charts(setting: Setting, styles: Mapping[str, Style]) -> list[Chart]:
    """One panel a number of stages: the gap to the best proven bound by model and solver."""

    def percent(case: Case, solver: str) -> float | None:
        gap = setting.value(case, solver, "gap_to_best")
        return None if gap is None else 100 * gap

    return _panels(setting, styles, percent, "Gap to the best proven bound", "gap (%)", "%{x:.2f} %")


def memory_charts(setting: Setting, styles: Mapping[str, Style]) -> list[Chart]:
    """One panel a number of stages: peak parameter memory against the memory of an Edge TPU."""

    def mebibytes(case: Case, solver: str) -> float | None:
        size = setting.value(case, solver, "peak_param_bytes")
        return None if size is None else size / MIB

    return _panels(
        setting, styles, mebibytes, "Peak memory", "peak memory (MiB)", "%{x:.3f} MiB",
        line=ON_CHIP_BYTES / MIB, line_text="8 MiB on chip",
    )  # fmt: skip


def _panels(
    setting: Setting, styles: Mapping[str, Style], value: Value, title: str, axis: str, shown: str, **line: Any
) -> list[Chart]:
    return [
        Chart(
            title=f"{title}, K = {k}",
            description=f"{title} of every model and solver for pipelines of {k} stages; the table has the numbers.",
            spec=dot_panel(setting.models, k, setting.solvers, styles, value, axis=axis, shown=shown, **line),
            height_px=panel_height(len(setting.models)),
        )
        for k in setting.stage_counts
    ]


def time_chart(setting: Setting, styles: Mapping[str, Style]) -> Chart:
    """Solving time on a logarithmic scale by number of ops."""
    traces = []
    for solver in setting.solvers:
        rows = setting.of_solver(solver)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(solver),
                "x": [setting.num_ops[case.model] for case, _ in rows],
                "y": [max(float(row["solve_seconds"]), _SHORTEST_S) for _, row in rows],
                "text": [
                    f"<b>{label(case.model)}</b>, K = {case.num_stages}, {row['status']}<br>"
                    f"{label(solver)}: {label(seconds_text(row['solve_seconds']))} s"
                    for case, row in rows
                ],
                "marker": marker(styles[solver]),
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    layout = base_layout(
        {"title": "ops of the graph"},
        {"title": "solving time (s), 0.001 or less at the bottom", "type": "log", "dtick": 1},
    )
    return Chart(
        title="Solving time by size of the graph",
        description="Seconds every solver took, on a logarithmic scale, by the number of ops of the graph.",
        spec={"data": traces, "layout": layout},
        height_px=420,
    )


def speedup_charts(throughput: Throughput, styles: Mapping[str, Style], num_ops: Mapping[str, int]) -> list[Chart]:
    """One panel a number of stages: throughput over that of the compiler's rule."""
    models = sorted({case.model for case, _ in throughput.speedup}, key=lambda model: (num_ops.get(model, 0), model))
    how = "Simulated" if throughput.is_simulated else "Measured"
    return [
        Chart(
            title=f"{how} throughput over the compiler’s rule, K = {k}",
            description=f"{how} speed-up of every model and solver over the compiler's rule for {k} stages.",
            spec=dot_panel(
                models,
                k,
                throughput.contenders,
                styles,
                lambda case, solver: throughput.speedup.get((case, solver)),
                axis=f"{how.lower()} speed-up",
                shown="%{x:.2f}×",
                line=1.0,
                line_text="the rule",
                from_zero=False,
            ),
            height_px=panel_height(len(models)),
        )
        for k in sorted({case.num_stages for case, _ in throughput.speedup})
    ]


_CURVES: Final = (
    ("train_cost", "while learning", "#0072B2", "solid"),
    ("baseline_cost", "baseline", "#222222", "dot"),
    ("validation_cost", "validation graphs", "#D55E00", "solid"),
)


def training_charts(rows: Sequence[Row]) -> list[Chart]:
    """Cost, and gap on the validation graphs, by epoch; none without rows."""
    if not rows:
        return []
    runs: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (str(row["run_id"]), int(row["epoch"]))):
        runs.setdefault(str(row["run_id"]), []).append(row)
    cost, gap = [], []
    for run, epochs in runs.items():
        suffix = f", run {label(run[:8])}" if len(runs) > 1 else ""
        x = [int(row["epoch"]) for row in epochs]
        for column, name, colour, dash in _CURVES:
            cost.append(_curve(x, [row[column] for row in epochs], name + suffix, colour, dash))
        percent = [None if row["validation_gap"] is None else 100 * row["validation_gap"] for row in epochs]
        gap.append(_curve(x, percent, "validation gap" + suffix, "#D55E00", "solid"))
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    margin = {"l": 8, "r": 14, "t": 40, "b": 8}
    epochs_axis = {"title": "epoch", "dtick": 1 if max(len(e) for e in runs.values()) <= 12 else None}
    return [
        Chart(
            title="Cost by epoch",
            description="Mean cost while learning, of the baseline, and on the validation graphs.",
            spec={
                "data": cost,
                "layout": base_layout(
                    epochs_axis, {"title": "mean cost"}, showlegend=True, legend=legend, margin=margin
                ),
            },
            height_px=360,
        ),
        Chart(
            title="Validation gap by epoch",
            description="Mean gap of the policy's schedules to the optimal peak memory on the validation graphs.",
            spec={
                "data": gap,
                "layout": base_layout(
                    epochs_axis, {"title": "gap to the optimum (%)", "rangemode": "tozero"}, margin=margin
                ),
            },
            height_px=360,
        ),
    ]


def _curve(x: Sequence[int], y: Sequence[float | None], name: str, colour: str, dash: str) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 40 else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"size": 6},
        "hovertemplate": f"epoch %{{x}}<br>{name}: %{{y:.4g}}<extra></extra>",
    }


def load_layouts() -> dict[str, Spec]:
    """Layouts of the two bar charts of stage loads; the page fills in the bars of the chosen schedules."""
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    shared = {"barmode": "group", "bargap": 0.25, "showlegend": True, "legend": legend}
    shared["margin"] = {"l": 8, "r": 14, "t": 44, "b": 8}
    stage = {"title": "stage", "dtick": 1, "showgrid": False}
    limit = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": ON_CHIP_BYTES / MIB, "y1": ON_CHIP_BYTES / MIB,
        "line": {"color": LIMIT, "width": 1.5, "dash": "dash"},
    }  # fmt: skip
    return {
        "memory": base_layout(stage, {"title": "parameters (MiB)", "rangemode": "tozero"}, shapes=[limit], **shared),
        "time": base_layout(stage, {"title": "modelled stage time (ms)", "rangemode": "tozero"}, **shared),
    }
