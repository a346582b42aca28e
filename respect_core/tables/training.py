"""Table `training`: one row an epoch."""

from __future__ import annotations

from respect_core.tables.table import TableSchema, count, flag, real, text

TRAINING = TableSchema(
    name="training",
    version=1,
    doc="One row per epoch of one training run.",
    key=("run_id", "epoch"),
    columns=(
        text("run_id", "Run in the MLflow tracking store."),
        count("epoch", "Number of the epoch, from 1.", minimum=1),
        real(
            "train_cost",
            "Mean cost while learning: cross-entropy of the labels' choices (policy), 1 - cosine of samples (pointer).",
        ),
        real(
            "baseline_cost",
            "Mean cost of the baseline: of taking any allowed op (policy), of greedy rollouts (pointer).",
        ),
        real("validation_cost", "Mean cost on the validation graphs."),
        real(
            "validation_gap",
            "Mean gap to the optimal peak memory of the network's best greedy order, without local search.",
            minimum=0,
        ),
        real("gradient_norm", "Mean norm of the gradient before clipping."),
        flag("baseline_replaced", "True where the network became its own new baseline after this epoch (pointer)."),
        real("epoch_seconds", "Wall time of the epoch.", unit="s"),
    ),
)
