"""The folder that MLflow keeps of a registered policy: its code, its weights, its signature."""

from __future__ import annotations

import shutil
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import respect_core
from respect_core.policy.checkpoint import CHECKPOINT_NAME
from respect_core.sources.graph_json import graph_to_json
from tasks.tracking_store import known_warnings

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

    from respect_core.graph import DnnGraph

POLICY_MODEL: Final = "respect-policy"
"""Name of the registered model."""

CHECKPOINT_ARTIFACT: Final = "checkpoint"
"""Name under which the model's code finds its weights."""

REQUIREMENTS: Final = ("mlflow", "numba", "numpy", "pandas", "safetensors")
"""Everything the registered model imports; torch is not among it."""


@known_warnings()
def save_model(
    scratch: Path, checkpoint: Path, example: DnnGraph, num_stages: int, logged: LoggedModel, run_id: str
) -> Path:
    """Write the model folder that MLflow keeps."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, Schema

    code, weights, folder = scratch / "code" / "respect_core", scratch / CHECKPOINT_NAME, scratch / "model"
    shutil.copytree(
        Path(respect_core.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    )
    shutil.copyfile(checkpoint, weights)
    signature = ModelSignature(
        inputs=Schema(
            [
                ColSpec(DataType.string, "graph"),
                ColSpec(DataType.long, "num_stages"),
                ColSpec(DataType.string, "objective", required=False),
            ]
        ),
        outputs=Schema(
            [
                ColSpec(Array(DataType.long), "stage_of"),
                ColSpec(DataType.long, "peak_param_bytes"),
                ColSpec(DataType.long, "communication_bytes"),
            ]
        ),
    )
    mlflow.pyfunc.save_model(
        path=str(folder),
        mlflow_model=Model(
            artifact_path=logged.artifact_location,
            model_uuid=logged.model_id,
            model_id=logged.model_id,
            run_id=run_id,
        ),
        python_model=str(Path(__file__).with_name("policy_model.py")),
        code_paths=[str(code)],
        artifacts={CHECKPOINT_ARTIFACT: str(weights)},
        signature=signature,
        input_example=pd.DataFrame(
            {"graph": [graph_to_json(example)], "num_stages": [num_stages], "objective": ["peak-memory"]}
        ),
        pip_requirements=[f"{name}=={installed_version(name)}" for name in REQUIREMENTS],
    )
    for compiled in folder.rglob("__pycache__"):
        shutil.rmtree(compiled)
    return folder
