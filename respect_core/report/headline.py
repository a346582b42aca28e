"""The few numbers at the top of the report."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from respect_core.report.data import POLICY, RULE, Setting, Throughput
from respect_core.report.html_parts import esc, interval_text, seconds_text
from respect_core.report.pipelines import OPTIMUM, Pipelines
from respect_core.report.statistics import bootstrap_mean


def headline_cards(
    settings: Sequence[Setting], throughputs: Sequence[Throughput], pipelines: Sequence[Pipelines] = ()
) -> str:
    """Return the numbers as a list of cards; what is not known has no card."""
    cards = []
    if settings:
        cards += _schedule_cards(settings[0])
    for found in pipelines[:1]:
        cards += _pipeline_cards(found)
    for throughput in throughputs[: 0 if pipelines else 1]:
        best = _best_contender(throughput)
        if best is not None:
            how = "simulated" if throughput.is_simulated else "measured"
            estimate = bootstrap_mean(throughput.by_model(best), geometric=True)
            number, _, interval = interval_text(estimate, percent=False).partition(" ")
            what = f"{how} throughput of {best} over the compiler’s rule, geometric mean {interval}".rstrip()
            cards.append((number, what))
    items = "".join(
        f'<li><span class="number">{esc(number)}</span><span class="what">{esc(what)}</span></li>'
        for number, what in cards
    )
    return f'<ul class="cards">{items}</ul>' if cards else '<p class="absent">There are no schedules to report.</p>'


def _pipeline_cards(pipelines: Pipelines) -> list[tuple[str, str]]:
    speedup = pipelines.mean_speedup(OPTIMUM)
    if speedup is None or speedup.nominal is None:
        return []
    bounds = "" if speedup.low is None or speedup.high is None else f" [{speedup.low:.2f}, {speedup.high:.2f}]"
    what = f"simulated speed-up of the throughput optimum over the compiler’s rule, geometric mean{bounds}"
    return [(f"{speedup.nominal:.2f}×", f"{what}, n = {len(pipelines.cases)}")]


def _schedule_cards(setting: Setting) -> list[tuple[str, str]]:
    cases = len(setting.cases)
    stages = ", ".join(map(str, setting.stage_counts))
    models = f"{len(setting.models)} model" + ("s" if len(setting.models) != 1 else "")
    cards = [(f"{cases}", f"cases: {models} × K = {stages}, objective {setting.objective}")]
    if setting.prover:
        rows = setting.of_solver(setting.prover)
        proven = sum(row["status"] == "optimal" for _, row in rows)
        median = seconds_text(statistics.median(float(row["solve_seconds"]) for _, row in rows))
        cards.append((f"{proven} of {len(rows)}", f"proven optimal by {setting.prover}, median {median} s"))
    for solver in (POLICY, RULE):
        estimate = bootstrap_mean(setting.by_model(solver, "gap_to_best"))
        if estimate is not None:
            number = f"{100 * estimate.mean:.2f} %"
            interval = "" if estimate.low is None else f" [{100 * estimate.low:.2f}, {100 * (estimate.high or 0):.2f}]"
            cards.append((number, f"mean gap of {solver}{interval}, n = {estimate.num_values}"))
    return cards


def _best_contender(throughput: Throughput) -> str | None:
    """Return the contender with the largest geometric mean speed-up."""
    means = {name: bootstrap_mean(throughput.by_model(name), geometric=True) for name in throughput.contenders}
    known = {name: estimate.mean for name, estimate in means.items() if estimate is not None}
    return max(known, key=lambda name: known[name]) if known else None
