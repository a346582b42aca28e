"""Making the weights that come along: both phases from nothing, one command, and again without solving or training."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from respect_core.errors import BadInputError
from respect_core.policy import pretrain
from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint
from respect_core.policy.config import NetworkConfig, PointerConfig
from respect_core.policy.decode import weight_shapes
from respect_core.policy.side_by_side import SetGaps, set_gaps, table_of
from respect_core.policy.solver import pretrained_path


def test_both_phases_make_a_checkpoint_and_the_comparison_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretrain, "HELD_GRAPHS", 4)
    monkeypatch.setattr(pretrain, "set_gaps", lambda checkpoint: {"local-30": SetGaps(0.01, 0.0, 3)})
    few = {"chunks": 1, "timed-chunks": 1, "repeats": 1, "graphs": 12, "epochs": 1, "best-of-steps": 3}
    sizes = [part for name, value in few.items() for part in (f"--{name}", str(value))]
    files = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.safetensors"
        monkeypatch.setattr(sys, "argv", ["pretrain", str(out), *sizes, "--folder", str(tmp_path / "state")])
        pretrain.main()
        files.append(out)
    trained = read_checkpoint(files[0])
    assert trained.config == NetworkConfig() and trained.training["best_of"]["steps"] == 3
    again = read_checkpoint(files[1])
    assert all(np.array_equal(trained.weights[name], again.weights[name]) for name in trained.weights)
    assert "local-30 (3 problems)" in capsys.readouterr().out
    monkeypatch.setattr(pretrain, "train", lambda *args: pytest.fail("trained"))
    monkeypatch.setattr(sys, "argv", ["pretrain", str(files[0]), "--compare"])
    pretrain.main()
    assert "new, alone" in capsys.readouterr().out


def test_the_weights_that_come_along_are_those_of_the_default_command(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pretrain", "out.safetensors"])
    args = pretrain._arguments()
    training = read_checkpoint(pretrained_path()).training
    assert training["config"]["epochs"] == args.epochs and training["best_of"]["steps"] == args.best_of_steps
    source = pretrain.DrawnLabels(plain=args.chunks, timed=args.timed_chunks, repeats=args.repeats, graphs=args.graphs)
    assert training["labels"] == source.digest


def test_the_table_shows_every_set_for_all_weights():
    text = table_of({"now": {"wide-30": SetGaps(0.02, 0.0004, 9)}, "new": {"wide-30": SetGaps(0.01, 0.0002, 9)}})
    assert text.splitlines()[1].split() == ["wide-30", "(9", "problems)", "2.000%", "0.0400%", "1.000%", "0.0200%"]


def test_other_architectures_are_refused(tmp_path):
    config, path = PointerConfig(embed_size=4, hidden_size=4), tmp_path / "pointer.safetensors"
    write_checkpoint(path, config, {k: np.zeros(s, np.float32) for k, s in weight_shapes(config).items()}, {})
    with pytest.raises(BadInputError, match="another architecture"):
        set_gaps(read_checkpoint(path))
