"""Runs the label factory over and over in processes that are killed at random moments, then once to its end.

Called as ``python tests/flows/killed_factory.py HOME SEED KILLS``; prints the digests of what was published, and for
every kill whether a shard that had been finished was written again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from respect_core.solve.labelling import LabelConfig
from respect_core.sources.synthetic import SyntheticSpec
from tasks import publishing
from tasks.generate import GRAPH_SCHEMAS, GraphSet, graphs_published, make_graphs
from tasks.home import Home
from tasks.label import LABEL_SCHEMAS, LabelSet, labels_published, make_labels
from tasks.shards import accept, publish_shards

GRAPHS = GraphSet(spec=SyntheticSpec(family="paper", num_ops=30, seed=4), num_graphs=90, shard_graphs=40)
LABELS = LabelSet(graphs=GRAPHS, config=LabelConfig(num_stages=(4, 5)))


def work(home: Home) -> None:
    """Do what the flow's tasks do, in their order."""
    if not graphs_published(home, GRAPHS):
        for shard in range(GRAPHS.num_shards):
            if not GRAPHS.sharded.is_finished(home, shard):
                accept(GRAPHS.sharded, make_graphs(home, GRAPHS, shard))
        publish_shards(home, GRAPHS.sharded, dict(GRAPHS.facts), GRAPHS.rows(GRAPHS.num_graphs))
    if not labels_published(home, LABELS):
        for shard in range(GRAPHS.num_shards):
            if not LABELS.sharded.is_finished(home, shard):
                accept(LABELS.sharded, make_labels(home, LABELS, shard))
        publish_shards(home, LABELS.sharded, LABELS.facts, {"label_timings": LABELS.solves(GRAPHS.num_graphs)})


def finished(home: Home) -> dict[str, tuple[int, int]]:
    """Return the files of finished shards, with what changes when one is written again."""
    paths = (home.path / "staging").glob("*/*-shards/part-*.parquet")
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}


def main(folder: str, seed: str, kills: str) -> None:
    publishing.create_markdown_artifact = lambda *_, **__: None  # type: ignore[assignment]  # there is no flow run here
    import great_expectations  # noqa: F401  # so that the processes below need not import it

    home, rng = Home(path=Path(folder)), random.Random(int(seed))
    done_again, killed = [], 0
    before = finished(home)
    for _ in range(int(kills)):
        process = os.fork()
        if process == 0:
            work(home)
            os._exit(0)
        time.sleep(rng.uniform(0.05, 3.0))
        os.kill(process, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(process, 0)[1])
        after = finished(home)
        done_again += [path for path, stamp in before.items() if after.get(path, stamp) != stamp]
        for schema in (*GRAPH_SCHEMAS, *LABEL_SCHEMAS):
            home.dataset(schema).verify()  # what a reader may see is whole after every kill
        before = after
    process = os.fork()
    if process == 0:
        work(home)
        os._exit(0)
    if os.waitpid(process, 0)[1]:
        sys.exit("the last run failed")
    digests = {s.name: home.dataset(s).partition(GRAPHS.partition).digest for s in GRAPH_SCHEMAS}
    digests["labels"] = home.dataset(LABEL_SCHEMAS[1]).partition(LABELS.partition).digest
    left = [str(path) for path in (home.path / "staging").glob("*/*")]
    print(json.dumps({"digests": digests, "killed": killed, "done_again": done_again, "left": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
