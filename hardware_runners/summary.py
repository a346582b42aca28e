"""A result in words."""

from __future__ import annotations

from typing import List, Optional

from hardware_runners.protocol import energy_text
from hardware_runners.results import Result


def result_lines(result: Result) -> List[str]:
    """Return a result as lines for a terminal: latency, throughput, the uncut model, stages, energy and notes."""
    timings = result.timings
    by = "simulated" if timings.is_simulated else f"measured by {timings.runner}"
    how = f"{by} on {timings.device}"
    lines = [f"{result.model} over {result.num_stages} stages ({result.solver}), {how}"]
    if result.failure is not None:
        lines.append(f"PARTIAL, {result.missing}: {result.failure.message}")
    if timings.mean_latency_us is not None:
        lines.append(f"latency     {_ms(timings.mean_latency_us)}, one item at a time")
    if timings.mean_stage_us:
        lines.append(f"stages      {', '.join(_ms(us) for us in timings.mean_stage_us)}")
    if timings.period_us is not None:
        lines.append(f"throughput  {_rate(timings.period_us)}, one item every {_ms(timings.period_us)}")
    if timings.mean_whole_us is not None:
        lines.append(
            f"uncut model {_rate(timings.mean_whole_us)}, one item every {_ms(timings.mean_whole_us)}, on one device"
        )
    speed_up = speed_up_of(result)
    if speed_up is not None:
        lines.append(f"speed-up    {speed_up:.2f}x over the uncut model")
    if timings.energy is not None:
        energy = timings.energy
        lines.append(
            f"energy      {energy.uj_per_inference / 1000:.3f} mJ an item over {energy.window_us / 1e6:.2f} s "
            f"({energy_text(energy)})"
        )
    lines += [f"versions    {'; '.join(f'{name} {version}' for name, version in timings.versions.items())}"]
    return lines + [f"note: {note}" for note in timings.notes]


def speed_up_of(result: Result) -> Optional[float]:
    """Return how many times faster the full pipeline is than the uncut model, None where one was not run."""
    whole, period = result.timings.mean_whole_us, result.timings.period_us
    return whole / period if whole is not None and period else None


def _ms(us: float) -> str:
    return f"{us / 1000:.2f} ms"


def _rate(us: float) -> str:
    return f"{1e6 / us:.1f} items/s" if us else "no time at all"
