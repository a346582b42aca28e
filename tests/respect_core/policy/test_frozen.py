"""The frozen validation sets: their optima are optimal, nobody trains on them, damage is named."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.policy.checkpoint import read_checkpoint
from respect_core.policy.chunks import ChunksInMemory, chunk_of, hold_out
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.frozen import (
    FROZEN_SEEDS,
    IMAGENET,
    STAGES,
    SYNTHETIC,
    SyntheticSet,
    WatchedSource,
    frozen_tables,
    load_frozen_sets,
    optima_path,
)
from respect_core.policy.frozen_optima import prove_peaks
from respect_core.policy.imitation import train_imitation
from respect_core.policy.judge import HELD_OUT, Judge
from respect_core.policy.pretrain import FIRST_SEED
from respect_core.policy.scoring import Scorer
from respect_core.policy.solver import PolicySolver, pretrained_path
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import get_solver
from respect_core.sources.catalog import IMAGENET_MODELS, load_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from respect_core.tables.graph_rows import tables_to_graphs
from tasks.sizes import EVALUATION_SEED

SMALL = NetworkConfig(width=8, rounds=2)


@cache
def frozen():
    return load_frozen_sets()


def one(name):
    return next(found for found in frozen().sets if found.name == name)


@cache
def frozen_labels():
    """Labels of a few graphs of the set `local-30`."""
    graphs = replace(SYNTHETIC[0], num_graphs=3).tables()
    return chunk_of(graphs, label_small_graphs(graphs, STAGES, "1", time_limit_s=9.0).labels)


@cache
def other_labels():
    graphs = SyntheticSet(family="local", num_ops=30, num_graphs=6, seed=5).tables()
    return chunk_of(graphs, label_small_graphs(graphs, STAGES, "1", time_limit_s=9.0).labels)


def test_the_sets_are_those_that_are_asked_for():
    assert [found.name for found in frozen().sets] == ["local-30", "local-50", "local-200", "wide-30", IMAGENET]
    assert set(one(IMAGENET).chunk.ids) == set(IMAGENET_MODELS)
    for found in frozen().sets:
        assert set(found.chunk.num_stages.tolist()) <= set(STAGES)
        assert len(found) >= 0.75 * len(STAGES) * len(found.chunk.ids), "a quarter may lack a proof, no more"
    assert len({found.digest for found in frozen().sets}) == 5
    assert load_frozen_sets().digest == frozen().digest


def test_no_seed_of_a_training_or_evaluation_is_frozen():
    assert len(FROZEN_SEEDS) == len(SYNTHETIC)
    assert EVALUATION_SEED not in FROZEN_SEEDS
    assert not FROZEN_SEEDS & set(range(FIRST_SEED - 1000, FIRST_SEED + 1_000_000))


@pytest.mark.parametrize("at", [0, 7, 31])
@pytest.mark.parametrize("name", ["local-30", "wide-30", "local-50"])
def test_kept_peaks_are_those_of_a_fresh_proof(name, at):
    found = one(name)
    entry = next(entry for entry in SYNTHETIC if entry.name == name)
    graph = generate_graph(
        SyntheticSpec(family=entry.family, num_ops=entry.num_ops, seed=entry.seed), at % entry.num_graphs
    )
    chunk = found.chunk
    of_graph = np.flatnonzero(chunk.graph_of == chunk.ids.index(graph.name))
    kept = dict(zip(chunk.num_stages[of_graph].tolist(), chunk.peaks[of_graph].tolist(), strict=True))
    assert list(kept.values()) == prove_peaks([graph], 60)[graph.name]


def test_the_peaks_of_the_ten_models_are_those_of_a_fresh_proof():
    chunk = one(IMAGENET).chunk
    for name in ("Xception", "ResNet50"):
        of_graph = np.flatnonzero(chunk.graph_of == chunk.ids.index(name))
        for at in of_graph.tolist():
            found = get_solver("exact").solve(
                Problem.of(load_model(name), int(chunk.num_stages[at])), SolveOptions(time_limit_s=60)
            )
            assert found.status == "optimal" and found.numbers.peak_param_bytes == chunk.peaks[at]


@pytest.mark.parametrize("name", ["local-200", "wide-30", IMAGENET])
def test_no_schedule_beats_a_kept_peak_and_the_gaps_are_those_of_the_bare_policy(name):
    found, solver = one(name), PolicySolver.pretrained().bare()
    graphs = {graph.name: graph for graph in tables_to_graphs(frozen_tables()[name])}
    checkpoint = read_checkpoint(pretrained_path())
    gaps = found.gaps(Scorer(checkpoint.config, checkpoint.weights))
    assert (gaps >= 0).all()
    for at in range(0, len(found), 7):
        graph = graphs[found.chunk.ids[found.chunk.graph_of[at]]]
        peak = solver.solve(Problem.of(graph, int(found.chunk.num_stages[at])), SolveOptions()).numbers.peak_param_bytes
        assert gaps[at] == pytest.approx(peak / found.chunk.peaks[at] - 1)


def test_a_training_on_a_frozen_graph_is_refused_whatever_its_name(tmp_path):
    renamed = replace(frozen_labels(), ids=("a", "b", "c"))
    source = ChunksInMemory(chunks=(other_labels(), renamed))
    with pytest.raises(BadInputError, match=r"graph 'a' is graph local-30-s4100030-0000000 of the frozen set local-30"):
        WatchedSource(source, frozen()).chunk(1)
    with pytest.raises(BadInputError, match="frozen set local-30"):
        train_imitation(
            source,
            other_labels(),
            folder=tmp_path,
            config=ImitationConfig(epochs=1),
            network=SMALL,
            frozen=frozen(),
        )
    only_others = WatchedSource(ChunksInMemory(chunks=(other_labels(),)), frozen())
    assert only_others.chunk(0) is other_labels()


def test_a_training_is_judged_by_all_problems_alike_and_each_set_is_told(tmp_path):
    train, held = hold_out(other_labels(), 0.5, 9, seed=0)
    few = replace(frozen(), sets=(one("local-30"), one("local-50")))
    outcome = train_imitation(
        ChunksInMemory(chunks=(train,)),
        held,
        folder=tmp_path,
        config=ImitationConfig(epochs=2, batch_size=8, best_of_steps=3),
        network=SMALL,
        frozen=few,
    )
    checkpoint = read_checkpoint(outcome.checkpoint)
    gap, sets = Judge(SMALL, held, few)(checkpoint.weights)
    assert outcome.best_gap == gap and outcome.best_set_gaps == sets == checkpoint.training["set_gaps"]
    scorer = Scorer(checkpoint.config, checkpoint.weights)
    everything = np.concatenate([found.gaps(scorer) for found in few.sets])
    total = sets[HELD_OUT] * len(held) + everything.sum()
    assert gap == pytest.approx(total / (len(held) + everything.size))
    for point in (*outcome.epochs, *outcome.refinement):
        assert list(point.set_gaps) == [HELD_OUT, "local-30", "local-50"]
    assert [point.step for point in outcome.refinement] == [3]


@pytest.mark.parametrize(
    "damage", ["not json", "another format", "of other graphs", "without graphs", "without a peak", "gone"]
)
def test_damaged_optima_are_named(tmp_path, damage):
    path = tmp_path / "optima.json"
    content = json.loads(optima_path().read_text(encoding="utf-8"))
    if damage == "another format":
        content["format"] = 99
    elif damage == "of other graphs":
        content["sets"][1]["graphs"] = "0" * 64
    elif damage == "without graphs":
        del content["sets"][1]["graphs"]
    elif damage == "without a peak":
        content["sets"][1]["peaks"].popitem()
    if damage != "gone":
        path.write_text("{" if damage == "not json" else json.dumps(content), encoding="utf-8")
    with pytest.raises(CorruptDatasetError, match=r"optima\.json"):
        load_frozen_sets(path)
