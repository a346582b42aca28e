"""The registered policy as MLflow serves it, logged from this file's code.

MLflow copies the file into the model and runs it there, beside a copy of `respect_core`: it must import nothing else of
the project. It is run by MLflow only and is not imported by the other modules.
"""

from __future__ import annotations

from typing import Any

import mlflow.models
import pandas as pd
from mlflow.pyfunc.model import PythonModel

from respect_core.errors import BadInputError
from respect_core.objective import check_objective
from respect_core.policy.solver import PolicySolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.graph_json import graph_from_json

DEFAULT_OBJECTIVE = "peak-memory"
"""Objective of rows that name none: what the policy was trained for."""


class PolicyModel(PythonModel):
    """Schedules one graph a row."""

    def load_context(self, context: Any) -> None:
        """Open the safetensors checkpoint that was logged as the artifact `checkpoint`."""
        self._solver = PolicySolver.from_checkpoint(context.artifacts["checkpoint"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Schedule every row.

        Args:
            context: Not used.
            model_input: Columns `graph` (a graph as JSON text), `num_stages`, and optionally `objective`.
            params: Not used.

        Returns:
            A row for each row: `stage_of` (the stage of every op, in the graph's order), `peak_param_bytes` and
            `communication_bytes`.

        Raises:
            BadInputError: A row cannot be used; the message names the row, counted from 0, and what is wrong.
        """
        columns = ["stage_of", "peak_param_bytes", "communication_bytes"]
        rows = [self._schedule(i, row) for i, (_, row) in enumerate(model_input.iterrows())]
        return pd.DataFrame(rows, columns=columns, index=model_input.index)

    def _schedule(self, i: int, row: pd.Series[Any]) -> dict[str, Any]:
        text, num_stages, objective = row.get("graph"), row.get("num_stages"), row.get("objective")
        try:
            if not isinstance(text, str):
                raise BadInputError(f"graph is {text!r}, expected the JSON text of a graph")
            if num_stages is None or pd.isna(num_stages) or int(num_stages) != num_stages:
                raise BadInputError(f"num_stages is {num_stages!r}, expected a whole number")
            chosen = DEFAULT_OBJECTIVE if objective is None or pd.isna(objective) else str(objective)
            problem = Problem.of(graph_from_json(text), int(num_stages), check_objective(chosen))
            found = self._solver.solve(problem, SolveOptions())
        except BadInputError as error:
            raise BadInputError(f"row {i}: {error}") from error
        if found.numbers is None or found.stage_of is None:
            raise BadInputError(f"row {i}: {found.message}")
        return {
            "stage_of": list(found.stage_of),
            "peak_param_bytes": found.numbers.peak_param_bytes,
            "communication_bytes": found.numbers.communication_bytes,
        }


mlflow.models.set_model(PolicyModel())
