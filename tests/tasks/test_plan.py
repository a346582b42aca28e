"""What a run consists of: nobody trains on the graphs that policies are judged by."""

from __future__ import annotations

import pytest

from respect_core.errors import BadInputError
from respect_core.policy.frozen import FROZEN_SEEDS
from tasks.plan import RESERVED_SEEDS, RunPlan
from tasks.sizes import EVALUATION_SEED


@pytest.mark.parametrize("seed", sorted(RESERVED_SEEDS))
def test_the_seeds_of_graphs_that_judge_are_refused(seed: int) -> None:
    with pytest.raises(BadInputError, match=rf"seed is {seed}.*which make the graphs that policies are judged by"):
        RunPlan.of("smoke", seed)


def test_training_and_evaluation_graphs_have_other_seeds_than_the_frozen_sets() -> None:
    assert EVALUATION_SEED in RESERVED_SEEDS and FROZEN_SEEDS < RESERVED_SEEDS
    for seed in (0, 1, 2**32 - 1):
        plan = RunPlan.of("nightly", seed)
        assert plan.training_graphs.spec.seed == seed
        assert plan.evaluation_graphs.spec.seed not in FROZEN_SEEDS


def test_a_training_depends_on_the_weights_it_starts_from(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    before = RunPlan.of("smoke").training.fingerprint
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"other weights")
    monkeypatch.setattr("tasks.train.pretrained_path", lambda: other)
    assert RunPlan.of("smoke").training.fingerprint != before
