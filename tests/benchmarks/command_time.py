"""Seconds of whole `respect` commands on a ready graph, from the start of the process to its end.

    python -m tests.benchmarks.command_time [--model ResNet50] [--stages 4] [--repeats 9]

The baselines are processes that do nothing but import NumPy and numba, without which there are no compiled loops. All
commands take turns, after one round that is not counted, in which what is not yet compiled is. Modules are kept
compiled as in an installed program, whatever `PYTHONDONTWRITEBYTECODE` says. CPU seconds (user and system, all
threads) are what a command takes on a quiet machine; seconds on the clock include waiting for others.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from respect_core.policy.solver import pretrained_path
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_to_json

RESPECT = "from flows.cli import main; main()"
SOLVERS = ("policy", "exact", "auto", "local-search", "best-order")


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        home, graph = Path(folder) / "home", Path(folder) / "graph.json"
        graph.write_text(graph_to_json(load_model(args.model)), encoding="utf-8")
        _with_champion(home)
        environment = dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment |= {"PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"), "RESPECT_HOME": str(home)}
        times = measure(_commands(args.model, graph, args.stages), args.repeats, environment)
    print(f"{args.model} over {args.stages} stages, medians of {args.repeats} runs in seconds (least CPU in brackets)")
    for name, runs in times.items():
        cpu, clock = zip(*runs, strict=True)
        print(f"  {name:44} CPU {statistics.median(cpu):5.2f} ({min(cpu):4.2f})  clock {statistics.median(clock):5.2f}")


def measure(
    commands: Mapping[str, Sequence[str]], repeats: int, environment: Mapping[str, str]
) -> dict[str, list[tuple[float, float]]]:
    """Return the CPU seconds and the seconds on the clock of every run, by command."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(repeats + 1):
        for name, code in commands.items():
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", *code],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            if number:
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                times[name].append((cpu, clock))
    return times


def _commands(model: str, graph: Path, num_stages: int) -> dict[str, Sequence[str]]:
    commands: dict[str, Sequence[str]] = {
        "baseline: python -c pass": ["pass"],
        "baseline: python -c 'import numpy'": ["import numpy"],
        "baseline: python -c 'import numba, numpy'": ["import numba, numpy"],
        "respect --help": [RESPECT, "--help"],
    }
    for solver in SOLVERS:
        schedule = [RESPECT, "schedule", model, "-k", str(num_stages), "--solver", solver]
        commands[f"respect schedule {model} --solver {solver}"] = schedule
    schedule = [RESPECT, "schedule", str(graph), "-k", str(num_stages), "--solver", "policy", "--json"]
    commands["respect schedule GRAPH.json --solver policy --json"] = schedule
    commands["respect order GRAPH.json"] = [RESPECT, "order", str(graph)]
    return commands


def _with_champion(home: Path) -> None:
    """Make a home whose registered policy is the one that comes along."""
    (home / "mlflow").mkdir(parents=True)
    (home / "mlflow" / "mlflow.db").touch()
    shutil.copyfile(pretrained_path(), home / "champion.safetensors")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ResNet50")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    return parser.parse_args()


if __name__ == "__main__":
    main()
