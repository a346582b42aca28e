"""Table `sweeps`: one row per variant, training seed and validation set of a sweep."""

from __future__ import annotations

from respect_core.tables.table import TableSchema, count, flag, real, text

SWEEPS = TableSchema(
    name="sweeps",
    version=1,
    doc="One row per variant, training seed and validation set of a sweep: how good each training's best network is.",
    key=("sweep", "variant", "training_seed", "set_name"),
    columns=(
        text("sweep", "Digest of labels, variants and seeds."),
        text("variant", "Name of the variant."),
        count("training_seed", "Seed of the weights, the batches and the orders that follow the labels."),
        text("set_name", "A frozen set, held-out, or all: every problem of the others."),
        count("problems", "Problems of the set with a proven optimal peak.", minimum=1),
        real(
            "mean_gap",
            "Mean gap to the optimal peak memory of the network's best of eight greedy orders, without local search.",
            minimum=0,
        ),
        count("num_epochs", "Epochs of imitation.", minimum=1),
        flag("is_refined", "True where the network is that of the second phase."),
        real("train_seconds", "Wall time of the epochs.", unit="s", minimum=0),
        text("run_id", "Run in the MLflow tracking store."),
    ),
)
