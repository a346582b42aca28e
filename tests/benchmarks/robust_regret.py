"""Speed-ups over the commercial compiler's rule and regrets, with their uncertainty. Every figure is simulated.

    python -m tests.benchmarks.robust_regret [--models ResNet152-int8 ...] [--stages 4 5 6] [--docs docs]

For each model and K: the compiler's rule, its profiling partitioner, balanced segmentation, the peak-memory optimum,
the throughput optimum of the nominal profile and two robust schedules, judged in scenarios that none was chosen by.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.device_constants import KnownProfile, load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.solve.comparison import open_solver
from respect_core.solve.exact import ExactSolver
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch
from respect_core.solve.robust import NUM_SCENARIOS, judge, nominal_schedule
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks
from respect_core.solve.robust_search import Reference
from respect_core.sources.catalog import IMAGENET_MODELS, load_model

RULE = "compiler-rule"
SCHEDULES = {
    RULE: (RULE, "throughput"),
    "profiling": ("profiling", "throughput"),
    "balanced": ("balanced", "throughput"),
    "peak-memory optimum": ("auto", "peak-memory"),
    "throughput optimum": ("auto", "throughput"),
    "robust max": ("robust-max", "throughput"),
    "robust p90": ("robust-p90", "throughput"),
}
"""Solver and objective of each."""


def main() -> None:
    args = _arguments()
    known = load_known_profile(args.device)
    other = Scenarios.of(draw_scenarios(known, NUM_SCENARIOS, args.seed + 1))
    rows: list[dict[str, Any]] = []
    print(
        f"simulated, profile {args.device}; judged in {NUM_SCENARIOS} scenarios of seed {args.seed + 1}; speed-up over"
    )
    print("the rule: nominal (5th .. 95th percentile); regret: largest, 90th percentile, median; seconds to solve")
    for name in args.models:
        for k in args.stages:
            rows += _compare(name, k, args, known, other)
    for line in _summary(rows):
        print(line)
    if args.check_reference:
        _check_reference(args, known)
    if args.docs:
        _write_docs(args.docs, rows, args)


def _compare(
    name: str, k: int, args: argparse.Namespace, known: KnownProfile, other: Scenarios
) -> list[dict[str, Any]]:
    graph = load_model(name)
    schedules, seconds = {}, {}
    for what, (solver, objective) in SCHEDULES.items():
        problem = Problem.of(graph, k, objective, device=args.device)  # type: ignore[arg-type]
        found = open_solver(solver).solve(problem, SolveOptions(time_limit_s=args.time_limit, seed=args.seed))
        if found.stage_of is not None:
            schedules[what], seconds[what] = np.array(found.stage_of, dtype=np.int64), found.solve_seconds
    problem = Problem.of(graph, k, "throughput", device=args.device)
    judged = judge(problem, known, schedules, seed=args.seed + 1)
    times = {what: bottlenecks(problem, stage_of, other) for what, stage_of in schedules.items()}
    rows = []
    for what, stage_of in schedules.items():
        ratio = times[RULE] / times[what]
        nominal = problem.evaluate(schedules[RULE]).bottleneck_ns / problem.evaluate(stage_of).bottleneck_ns
        low, high = np.percentile(ratio, [5, 95]).tolist()
        regret = judged[what]
        rows.append(
            {
                "model": name, "num_stages": k, "schedule": what, "is_simulated": True,
                "bottleneck_ms": problem.evaluate(stage_of).bottleneck_ns / 1e6, "speed_up": nominal,
                "speed_up_range": [low, high], "loses_to_rule": float(np.mean(ratio < 1 - 1e-9)),
                "regret_largest": regret.largest, "regret_p90": regret.percentile90, "regret_median": regret.median,
                "solve_seconds": seconds[what], "speed_ups": ratio.tolist(),
            }
        )  # fmt: skip
        regrets = " ".join(f"{x:6.1%}" for x in (regret.largest, regret.percentile90, regret.median))
        print(
            f"{name:>22} x{k} {what:>20}: {rows[-1]['bottleneck_ms']:7.2f} ms, speed-up {nominal:5.2f} "
            f"({low:5.2f} .. {high:5.2f}), regret {regrets}, {seconds[what]:6.2f} s",
            flush=True,
        )
    return rows


def _check_reference(args: argparse.Namespace, known: KnownProfile) -> None:
    """Compare the reference of regrets with the exact solver's optimum, in some scenarios of each problem."""
    drawn = draw_scenarios(known, args.check_reference, args.seed + 1)
    above, unproven, largest, total = 0, 0, 0.0, 0
    for name in args.models:
        for k in args.stages:
            problem = Problem.of(load_model(name), k, "throughput", device=args.device)
            nominal = nominal_schedule(problem, args.time_limit)
            if nominal is None:
                continue
            reference = Reference(problem, Scenarios.of(drawn), [nominal], Stopwatch(args.time_limit))
            for profile, found_ms in zip(drawn, reference.bottleneck_ms.tolist(), strict=True):
                exact = ExactSolver().solve(
                    replace(problem, profile=profile), SolveOptions(time_limit_s=args.time_limit)
                )
                best = found_ms if exact.value is None else exact.value[0] / 1e6
                excess = found_ms / best - 1
                total += 1
                above += excess > 1e-5  # terms are rounded to nanoseconds there
                unproven += exact.gap != 0 and excess <= 1e-5
                largest = max(largest, excess)
    print(
        f"reference of regrets against the exact solver: above the optimum in {above} of {total} scenarios, by at most "
        f"{largest:.2%}; without a proof in {unproven}"
    )


def _summary(rows: list[dict[str, Any]]) -> list[str]:
    """Return a table of geometric means over all models and K."""
    lines = [
        "| schedule (simulated) | speed-up over the rule, nominal | in other scenarios (5th..95th percentile) "
        "| slower than the rule in | largest regret, mean | 90th percentile, mean | median, mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for what in SCHEDULES:
        mine = [row for row in rows if row["schedule"] == what]
        if not mine:
            continue
        nominal = _geometric([row["speed_up"] for row in mine])
        by_scenario = np.exp(np.log(np.array([row["speed_ups"] for row in mine])).mean(axis=0))
        low, middle, high = np.percentile(by_scenario, [5, 50, 95]).tolist()
        means = [np.mean([row[f"regret_{x}"] for row in mine]) for x in ("largest", "p90", "median")]
        loses = np.mean([row["loses_to_rule"] for row in mine])
        lines.append(
            f"| {what} | {nominal:.2f} | {middle:.2f} ({low:.2f}..{high:.2f}) | {loses:.1%} "
            f"| {means[0]:.1%} | {means[1]:.1%} | {means[2]:.1%} |"
        )
    return lines


def _geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _write_docs(folder: Path, rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Write every row as JSON, and two tables into `device_model.md`."""
    plain = [{key: value for key, value in row.items() if key not in ("speed_ups", "solve_seconds")} for row in rows]
    for row in plain:
        for key, value in row.items():
            if isinstance(value, float):
                row[key] = round(value, 4)
        row["speed_up_range"] = [round(x, 4) for x in row["speed_up_range"]]
    text = json.dumps(plain, separators=(",", ":")).replace("},{", "},\n{")
    (folder / "robust_regret.json").write_text(text + "\n", encoding="utf-8")
    page = folder / "device_model.md"
    content = page.read_text(encoding="utf-8")
    for name, lines in {"regret": _summary(rows), "speed-ups": _by_model(rows, args.stages)}.items():
        before, _, after = content.split(f"<!-- {name} -->")
        content = before + "\n".join([f"<!-- {name} -->", *lines, f"<!-- {name} -->"]) + after
    page.write_text(content, encoding="utf-8")


def _by_model(rows: list[dict[str, Any]], stages: list[int]) -> list[str]:
    """Return the throughput optimum's speed-ups over the rule and over the peak-memory optimum."""
    heads = [f"K = {k}: over the rule | over the peak-memory optimum" for k in stages]
    lines = ["| model (simulated) | " + " | ".join(heads) + " |", "|---|" + "---|---|" * len(stages)]
    for model in dict.fromkeys(row["model"] for row in rows):
        cells = []
        for k in stages:
            mine = {row["schedule"]: row for row in rows if row["model"] == model and row["num_stages"] == k}
            best, peak = mine["throughput optimum"], mine["peak-memory optimum"]
            cells.append(_cell(best["speed_up"], best["speed_ups"]))
            over = [a / b for a, b in zip(best["speed_ups"], peak["speed_ups"], strict=True)]
            cells.append(_cell(best["speed_up"] / peak["speed_up"], over))
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return lines


def _cell(nominal: float, in_scenarios: list[float]) -> str:
    low, high = np.percentile(in_scenarios, [5, 95]).tolist()
    return f"{nominal:.2f} ({low:.2f}..{high:.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[f"{name}-int8" for name in IMAGENET_MODELS])
    parser.add_argument("--stages", nargs="+", type=int, default=[4, 5, 6])
    parser.add_argument("--device", default="pcie")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds a solver")
    parser.add_argument("--check-reference", type=int, default=0, help="scenarios to solve exactly for each problem")
    parser.add_argument("--docs", type=Path, help="folder of device_model.md, whose tables are renewed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
