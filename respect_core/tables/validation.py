"""Table `validation`: one row per validation set and point of a training."""

from __future__ import annotations

from typing import Final

from respect_core.tables.table import TableSchema, count, real, text

PHASES: Final = ("imitation", "best-of")

VALIDATION = TableSchema(
    name="validation",
    version=1,
    doc="One row per validation set and point of one training run of the policy: after every epoch of imitation, and "
    "every so many steps of the second phase.",
    key=("run_id", "phase", "step", "set_name"),
    columns=(
        text("run_id", "Run in the MLflow tracking store."),
        text("phase", "Phase of the training.", allowed=PHASES),
        count("step", "Number of the epoch; in the second phase, of steps taken.", minimum=1),
        text("set_name", "A frozen set, or held-out: labels that this training set aside."),
        count("problems", "Problems of the set with a proven optimal peak.", minimum=1),
        real(
            "mean_gap",
            "Mean gap to the optimal peak memory of the network's best of eight greedy orders, without local search.",
            minimum=0,
        ),
    ),
)
