"""How wrong the device model is: folds over published measurements, and ResNet-152 over 1 to 8 TPUs.

    python -m tests.benchmarks.device_model --measurements ../shared/data/measurements.csv [--docs docs]

Prints every error table beside a baseline that knows parameter bytes only. With --docs it also renews the figures and
the tables of `device_model.md`; they are the same, byte for byte, for the same measurements and versions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.calibration.facts import facts_of_graph
from respect_core.calibration.fit import fit_constants
from respect_core.calibration.model import latency_ms, period_ms
from respect_core.calibration.observations import Link, Measurements
from respect_core.calibration.profile_file import error_table, fitted_profile, report_of, table_lines
from respect_core.calibration.published import read_measurements
from respect_core.calibration.validation import FOLDS, Prediction, Validation, cross_validate
from respect_core.device_constants import KnownProfile, load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.solve.protocol import Problem
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks
from respect_core.sources.catalog import load_model

RESNET152_FPS = (6.9, 15.3, 25.9, 38.9, 51.8, 79.9, 129.9, 141.3)
RESNET152_LATENCY_MS = (144.6, 127.7, 110.6, 93.5, 77.7, 60.1, 42.8, 36.4)
"""Measured over N = 1..8 TPUs on PCIe, compiler's segments, driven by Python threads [sparta-edgetpu]."""

COLOURS = {"synthetic CONV": "C0", "synthetic FC": "C1", "real nets": "C3"}


def main() -> None:
    args = _arguments()
    measurements = read_measurements(args.measurements)
    priors: dict[Link, KnownProfile] = {"pcie": load_known_profile("pcie"), "usb3": load_known_profile("usb3")}
    fit = fit_constants(measurements.used, priors)
    validation = cross_validate(measurements.used, priors, fit)
    constants = fitted_profile(fit, validation, "pcie", priors["pcie"])
    report = report_of("pcie", constants, validation, measurements, args.measurements.name)
    usb = fitted_profile(fit, validation, "usb3", priors["usb3"])["streaming_ms_per_mib"]
    print("errors: median / 90th percentile / largest, of the measured time")
    print("\n".join(table_lines(report["errors"])))
    blind = _blind(measurements, priors)
    print("\nthe same with priors in the middle of the plausible ranges")
    print("\n".join(table_lines(blind)))
    resnet = resnet152()
    print("\nResNet-152 over N TPUs on PCIe, predicted by the profile pcie, cut by the parameter-count rule")
    for row in resnet:
        print(
            f"N = {row['n']}: period {row['period_ms']:7.2f} ms, measured {row['measured_period_ms']:7.2f}, "
            f"error {row['period_error']:+.1%}; latency {row['latency_ms']:7.2f} ms, measured "
            f"{row['measured_latency_ms']:6.1f}, error {row['latency_error']:+.1%}"
        )
    for what in ("period", "latency"):
        errors = [abs(row[f"{what}_error"]) for row in resnet[:6]]
        print(f"{what}, N = 1..6: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}")
    if args.docs:
        _write_docs(args.docs, report, blind, usb.value, resnet, validation)


def _blind(measurements: Measurements, priors: dict[Link, KnownProfile]) -> dict[str, dict[str, Any]]:
    """Return the errors of fits whose priors are the middles of the ranges: these know less of the rows."""
    neutral = {link: known.neutral() for link, known in priors.items()}
    fit = fit_constants(measurements.used, neutral)
    return error_table(cross_validate(measurements.used, neutral, fit).predictions)


def resnet152() -> list[dict[str, Any]]:
    """Predict ResNet-152 over 1 to 8 TPUs from its op graph with the finer model."""
    known = load_known_profile("pcie")
    constants, graph = known.values(), load_model("ResNet152-int8")
    scenarios = Scenarios.of(draw_scenarios(known, 200, 0))
    rows = []
    for n in range(1, 9):
        stage_of = compiler_segments(graph, n)
        stages = facts_of_graph(graph, stage_of, n)
        measured, latency = 1000 / RESNET152_FPS[n - 1], RESNET152_LATENCY_MS[n - 1]
        period = period_ms(stages, constants, host_threads=True)
        modelled = latency_ms(stages, constants)
        problem = Problem.of(graph, n, "throughput", device="pcie")
        low, high = np.percentile(bottlenecks(problem, stage_of, scenarios), [5, 95]).tolist()
        rows.append(
            {
                "n": n, "period_ms": period, "measured_period_ms": measured, "period_error": period / measured - 1,
                "latency_ms": modelled, "measured_latency_ms": latency, "latency_error": modelled / latency - 1,
                "smooth_ms": problem.evaluate(stage_of).bottleneck_ns / 1e6, "range_ms": [low, high],
            }
        )  # fmt: skip
    return rows


# -- the page ----------------------------------------------------------------------------------------------------------


def _write_docs(
    folder: Path,
    report: dict[str, Any],
    blind: dict[str, dict[str, Any]],
    usb_streaming: float,
    resnet: list[dict[str, Any]],
    validation: Validation,
) -> None:
    plots = _pyplot()
    _plot_fit(plots, validation.predictions, folder / "device_model_fit.svg")
    _plot_errors(plots, validation.predictions, folder / "device_model_errors.svg")
    _plot_resnet(plots, resnet, folder / "device_model_resnet152.svg")
    rows = json.dumps(_rounded(report["rows"]), separators=(",", ":")).replace("},{", "},\n{")
    (folder / "device_model_rows.json").write_text(rows + "\n", encoding="utf-8")
    page = folder / "device_model.md"
    text = page.read_text(encoding="utf-8")
    for name, lines in {
        "constants": _constants_table(report, usb_streaming),
        "errors": _errors_table(report["errors"]),
        "blind": _errors_table(blind),
        "resnet152": _resnet_table(resnet),
    }.items():
        mark = f"<!-- {name} -->"
        before, _, after = text.split(mark)
        text = before + "\n".join([mark, *lines, mark]) + after
    page.write_text(text, encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def _constants_table(report: dict[str, Any], usb_streaming: float) -> list[str]:
    lines = [
        "| constant | built in | fitted to these rows | range of the fit | unit | support |",
        "|---|---|---|---|---|---|",
    ]
    known = load_known_profile("pcie")
    for name, found in report["constants"].items():
        fitted = f"{found['value']:.4g}" if found["is_fitted"] else "-"
        limits = f"{found['range'][0]:.3g}..{found['range'][1]:.3g}"
        lines.append(
            f"| `{name}` | {known[name].value:g} | {fitted} | {limits} | {found['unit']} | {found['confidence']} |"
        )
    lines += ["", f"Streaming over USB 3 is fitted to {usb_streaming:.3g} ms per MiB."]
    return lines


def _errors_table(errors: dict[str, dict[str, Any]]) -> list[str]:
    columns = ["prior", "fitted", *(f"without its {name}" for name in FOLDS), "parameter bytes only, without its model"]
    heads = ["prior", *columns[1:]]
    lines = ["| rows | number | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for kind, row in errors.items():
        cells = [_cell(row[column]) for column in columns]
        lines.append(f"| {kind} | {row['rows']} | " + " | ".join(cells) + " |")
    return lines


def _cell(summary: dict[str, float] | None) -> str:
    if summary is None:
        return "-"
    if summary["count"] == 1:
        return f"{summary['bias']:+.1%}"
    return f"{summary['median']:.1%} / {summary['percentile90']:.0%} / {summary['largest']:.0%}"


def _resnet_table(resnet: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| N | measured ms an item | predicted | error | error of the smooth model | measured latency, ms | predicted "
        "| error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in resnet:
        smooth = row["smooth_ms"] / row["measured_period_ms"] - 1
        lines.append(
            f"| {row['n']} | {row['measured_period_ms']:.2f} | {row['period_ms']:.2f} | {row['period_error']:+.1%} "
            f"| {smooth:+.1%} "
            f"| {row['measured_latency_ms']:.1f} | {row['latency_ms']:.1f} | {row['latency_error']:+.1%} |"
        )
    for what in ("period", "latency"):
        errors = [abs(row[f"{what}_error"]) for row in resnet[:6]]
        lines += ["", f"N = 1..6, {what}: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}."]
    return lines


# -- figures -----------------------------------------------------------------------------------------------------------


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "device model"
    mpl.rcParams["font.size"] = 9
    return plt


def _kind(row: Prediction) -> str:
    family = row.observation.family
    return family if family.startswith("synthetic") else "real nets"


def _plot_fit(plt: Any, rows: Sequence[Prediction], path: Path) -> None:
    """Draw predicted against measured: fitted to all rows, and without the row's family."""
    figure, both = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
    limits = np.array([0.05, 500.0])
    for axes, title, predicted in (
        (both[0], "fitted to all rows", [row.fitted_ms for row in rows]),
        (both[1], "fitted without the row's family", [row.held_out_ms["family"] for row in rows]),
    ):
        for kind, colour in COLOURS.items():
            mine = [i for i, row in enumerate(rows) if _kind(row) == kind]
            x = [rows[i].observation.time_ms for i in mine]
            marker = "D" if kind == "real nets" else "."
            axes.plot(
                x, [predicted[i] for i in mine], marker, color=colour, label=f"{kind} ({len(mine)})", ms=4, alpha=0.7
            )
        axes.plot(limits, limits, color="black", lw=0.8)
        axes.fill_between(limits, limits * 0.8, limits * 1.2, color="black", alpha=0.08, label="within 20 %")
        axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits, xlabel="measured, ms", title=title)
        axes.grid(alpha=0.3)
    both[0].set_ylabel("predicted, ms")
    both[0].legend(fontsize="small")
    _save(plt, figure, path)


def _plot_errors(plt: Any, rows: Sequence[Prediction], path: Path) -> None:
    """Draw which part of the rows is predicted within which error, for every fold and the baseline."""
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    measured = np.array([row.observation.time_ms for row in rows])
    curves = {"fitted to all rows": ([row.fitted_ms for row in rows], "black", "-")}
    for number, name in enumerate(FOLDS):
        curves[f"without the row's {name}"] = ([row.held_out_ms[name] for row in rows], f"C{number}", "-")
        curves[f"parameter bytes only, without the row's {name}"] = (
            [row.baseline_ms[name] for row in rows], f"C{number}", ":",
        )  # fmt: skip
    for label, (predicted, colour, style) in curves.items():
        errors = np.sort(np.abs(np.array(predicted) / measured - 1))
        axes.plot(errors * 100, np.arange(1, errors.size + 1) / errors.size, style, color=colour, label=label, lw=1.3)
    axes.set(
        xscale="log", xlim=(0.5, 1000), ylim=(0, 1), xlabel="error, % of the measured time", ylabel="part of the rows",
        title=f"{len(rows)} published times of single Edge TPUs and pipelines",
    )  # fmt: skip
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left")
    _save(plt, figure, path)


def _plot_resnet(plt: Any, resnet: list[dict[str, Any]], path: Path) -> None:
    """Draw ResNet-152's throughput and latency over the number of TPUs."""
    figure, both = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    n = [row["n"] for row in resnet]
    low, high = ([1000 / row["range_ms"][end] for row in resnet] for end in (1, 0))
    both[0].fill_between(n, low, high, alpha=0.2, color="C0", label="90 % of plausible devices (smooth model)")
    both[0].plot(n, [1000 / row["period_ms"] for row in resnet], "o-", color="C0", ms=4, label="predicted")
    both[0].plot(n, RESNET152_FPS, "x", color="black", label="measured")
    both[0].set(xlabel="TPUs", ylabel="items per second", title="throughput, ResNet-152, PCIe", ylim=(0, 220))
    both[1].plot(n, [row["latency_ms"] for row in resnet], "o-", color="C0", ms=4, label="predicted")
    both[1].plot(n, RESNET152_LATENCY_MS, "x", color="black", label="measured")
    both[1].set(xlabel="TPUs", ylabel="latency, ms", title="latency, one item alone", ylim=(0, None))
    for axes in both:
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    _save(plt, figure, path)


def _save(plt: Any, figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=Path, required=True, help="table of measurements (CSV)")
    parser.add_argument("--docs", type=Path, help="folder of device_model.md, whose figures and tables are renewed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
