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
        real("train_cost", "Mean cost (1 - cosine) of the sampled orders."),
        real("baseline_cost", "Mean cost of the baseline on the same graphs."),
        real("validation_cost", "Mean cost of the greedy orders on the validation graphs."),
        real("validation_gap", "Mean gap of the split greedy orders to the optimal peak memory.", minimum=0),
        real("gradient_norm", "Mean norm of the gradient before clipping."),
        flag("baseline_replaced", "True where the policy became its own new baseline after this epoch."),
        real("epoch_seconds", "Wall time of the epoch.", unit="s"),
    ),
)
