"""How fast labels are made: the whole factory at a number of graphs, and CP-SAT on the same graphs in the same run.

Run it as ``python tests/benchmarks/label_factory.py --graphs 1000000`` (minutes on two free cores). It prints wall and
CPU time of every phase, rates per second and per core, the memory of all processes together, the sizes of what was
published, and the rate of CP-SAT with one worker on graphs of the first shard, model building excluded.

Rates per core are items by CPU second, so they also mean something where other programs use the cores.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tasks.generate import GraphSet
    from tasks.label import LabelSet
    from tasks.shards import ShardReport

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

R = TypeVar("R")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=20_000, help="number of graphs, three labels each (20000)")
    parser.add_argument("--shard", type=int, default=None, help="graphs of a shard (as at the size `full`)")
    parser.add_argument("--family", default="paper", choices=("local", "wide", "paper"))
    parser.add_argument(
        "--baseline-graphs", type=int, default=20, help="graphs that CP-SAT labels too, 0 for none (20)"
    )
    parser.add_argument("--home", type=Path, default=None, help="keep the tables here (else in a temporary folder)")
    given = parser.parse_args()
    folder = (given.home or Path(tempfile.mkdtemp(prefix="label-factory-"))).absolute()

    from tasks.home import Home

    Home(path=folder).prepare_environment()
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s")
    try:
        run(folder, given.graphs, given.shard, given.family, given.baseline_graphs)
    finally:
        if given.home is None:
            shutil.rmtree(folder, ignore_errors=True)


def run(home: Path, num_graphs: int, shard: int | None, family: str, baseline_graphs: int) -> None:
    from respect_core.solve.labelling import LabelConfig
    from respect_core.sources.synthetic import SyntheticSpec
    from tasks.generate import GraphSet
    from tasks.label import LabelSet
    from tasks.sizes import STAGES, get_size

    graphs = GraphSet(
        spec=SyntheticSpec(family=family, num_ops=30, seed=0),
        num_graphs=num_graphs,
        shard_graphs=min(num_graphs, shard or get_size("full").shard_graphs),
    )
    labels = LabelSet(graphs=graphs, config=LabelConfig(num_stages=STAGES))
    print(f"{num_graphs} {family} graphs x K = {STAGES}, {graphs.num_shards} shards, {os.cpu_count()} cores")
    phases = produce(home, graphs, labels)
    report_phases(phases, num_graphs, labels.solves(num_graphs))
    report_tables(home, graphs, labels)
    if baseline_graphs:
        report_baseline(graphs, STAGES, min(baseline_graphs, graphs.shard_graphs))


def produce(home: Path, graphs: GraphSet, labels: LabelSet) -> dict[str, Phase]:
    """Run the factory's own tasks in a flow."""
    from prefect import flow

    from tasks.generate import generate_shard, publish_graphs
    from tasks.label import label_shard, publish_labels
    from tasks.progress import run_shards

    log = logging.getLogger("label_factory")
    log.setLevel(logging.INFO)
    phases: dict[str, Phase] = {}
    sizes = [len(graphs.indices(shard)) for shard in range(graphs.num_shards)]

    def shards(task: Any, what: str, unit: str, per_graph: int, **fixed: Any) -> Callable[[], list[ShardReport]]:
        calls = [{"home": home, **fixed, "shard": shard} for shard in range(graphs.num_shards)]
        return lambda: run_shards(task, calls, what, log, unit=unit, sizes=[per_graph * size for size in sizes])

    @flow(name="label-factory")
    def factory() -> None:
        per_graph = labels.solves(1)
        phases["generate"] = timed(shards(generate_shard, "graph shards", "graphs", 1, graphs=graphs))
        phases["publish graphs"] = timed(lambda: publish_graphs(home, graphs))
        phases["label"] = timed(shards(label_shard, "label shards", "labels", per_graph, labels=labels))
        phases["publish labels"] = timed(lambda: publish_labels(home, labels))

    factory()
    return phases


class Phase:
    """What a phase returned and cost."""

    def __init__(self, result: Any, wall_s: float, cpu_s: float, memory: Memory) -> None:
        self.result, self.wall_s, self.memory = result, wall_s, memory
        self.shards: list[ShardReport] = result if isinstance(result, list) else []
        self.cpu_s = cpu_s + sum(shard.cpu_s for shard in self.shards)


def timed(work: Callable[[], R]) -> Phase:
    start, cpu = time.perf_counter(), time.process_time()
    with Memory() as memory:
        result = work()
    return Phase(result, time.perf_counter() - start, time.process_time() - cpu, memory)


class Memory:
    """Samples the memory of this process and all below it; shared pages are counted once."""

    def __init__(self) -> None:
        self.together = self.largest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            sizes = [_proportional_bytes(pid) for pid in _family(os.getpid())]
            self.together = max(self.together, sum(sizes))
            self.largest = max(self.largest, *sizes)
            if self._stop.wait(0.25):
                return


def _family(root: int) -> list[int]:
    parent_of: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            parent_of[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parent_of.items() if parent == pid]
    return found


def _proportional_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def report_phases(phases: dict[str, Phase], num_graphs: int, num_labels: int) -> None:
    print(f"\n{'phase':16}{'wall s':>9}{'CPU s':>9}{'a second':>12}{'a core s':>12}{'all MB':>9}{'largest':>9}")
    for name, phase in phases.items():
        items = num_labels if "label" in name else num_graphs
        row = f"{name:16}{phase.wall_s:9.1f}{phase.cpu_s:9.1f}{items / phase.wall_s:12,.0f}{items / phase.cpu_s:12,.0f}"
        print(f"{row}{phase.memory.together / 1e6:9.0f}{phase.memory.largest / 1e6:9.0f}")
    wall, cpu = (sum(getattr(phase, name) for phase in phases.values()) for name in ("wall_s", "cpu_s"))
    together = max(phase.memory.together for phase in phases.values())
    largest = max(phase.memory.largest for phase in phases.values())
    print(
        f"{'all':16}{wall:9.1f}{cpu:9.1f}{num_labels / wall:12,.0f}{num_labels / cpu:12,.0f}"
        f"{together / 1e6:9.0f}{largest / 1e6:9.0f}"
    )
    for name, what in (("generate", "generating"), ("label", "labelling")):
        shards = phases[name].shards
        parts = {"make": what, "write": "writing", "audit": "auditing"}
        said = ", ".join(f"{text} {sum(getattr(s, f'{part}_s') for s in shards):.1f} s" for part, text in parts.items())
        peak = max((shard.peak_bytes for shard in shards), default=0)
        print(f"shards of {name}: {said}; largest resident process {peak / 1e6:.0f} MB")


def report_tables(home: Path, graphs: GraphSet, labels: LabelSet) -> None:
    import pyarrow.parquet as pq

    from tasks.generate import GRAPH_SCHEMAS
    from tasks.home import Home
    from tasks.label import LABEL_SCHEMAS

    print(f"\n{'table':16}{'rows':>12}{'files':>7}{'MB':>9}{'row group':>12}  digest")
    sets: list[tuple[Sequence[Any], str]] = [(GRAPH_SCHEMAS, graphs.partition), (LABEL_SCHEMAS, labels.partition)]
    for schemas, name in sets:
        for schema in schemas:
            dataset = Home(path=home).dataset(schema)
            partition = dataset.partition(name)
            size = sum(part.bytes for part in partition.parts)
            group = pq.read_metadata(dataset.paths(partition)[0]).row_group(0).num_rows
            print(
                f"{schema.name:16}{partition.rows:12,}{len(partition.parts):7}{size / 1e6:9.1f}{group:12,}"
                f"  {partition.digest[:16]}"
            )


def report_baseline(graphs: GraphSet, stages: Sequence[int], count: int) -> None:
    """Let both solvers label the same graphs, one worker each, and compare the answers."""
    from respect_core.solve.labelling import LabelConfig, label_tables
    from respect_core.sources.synthetic_batch import generate_tables

    def labelled(solver: str, num_graphs: int) -> tuple[Any, float, float]:
        config = LabelConfig(num_stages=tuple(stages), solver=solver)
        tables = generate_tables(graphs.spec, range(num_graphs))
        start = time.process_time()
        labels, timings = label_tables(tables, config)
        return labels, sum(timings["solve_seconds"].to_pylist()), time.process_time() - start

    labelled("exact", 1)  # compiled code is loaded once
    fast_count = max(count, min(graphs.num_graphs, 2000))
    fast, fast_s, fast_cpu = labelled("exact", fast_count)
    slow, slow_s, _ = labelled("ilp", count)
    same = ["graph_id", "num_stages", "peak_param_bytes", "communication_bytes", "stage_of"]
    equal = fast.select(same).slice(0, slow.num_rows).equals(slow.select(same))
    print(f"\nexact: {fast.num_rows / fast_s:,.0f} labels/s solving alone, one core ({fast.num_rows} labels)")
    print(f"exact: {fast.num_rows / fast_cpu:,.0f} labels a CPU second with baseline columns and rows of the table")
    print(
        f"CP-SAT: {slow.num_rows / slow_s:.1f} labels/s, one worker, model building excluded ({slow.num_rows} labels)"
    )
    print(f"exact is {fast.num_rows / fast_s * slow_s / slow.num_rows:,.0f} times as fast; answers are equal: {equal}")


if __name__ == "__main__":
    main()
