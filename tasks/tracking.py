"""MLflow: runs, datasets and the registry. With `tasks.policy_model`, which it logs, the only code that knows it.

Everything goes through `MlflowClient` with explicit ids: MLflow's active run and tracking address are never touched, so
tasks in several threads do not disturb each other.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import respect_core
from respect_core.errors import BadInputError, RespectError, UnwritableError
from respect_core.policy.checkpoint import CHECKPOINT_NAME, read_checkpoint
from respect_core.sources.graph_json import graph_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

    from respect_core.graph import DnnGraph
    from respect_core.policy.train import EpochResult

POLICY_MODEL: Final = "respect-policy"
"""Name of the registered model."""

EXPERIMENT: Final = "respect"

CHAMPION_NAME: Final = "champion.safetensors"
"""Copy of the champion's checkpoint below the home folder."""

CHECKPOINT_ARTIFACT: Final = "checkpoint"
"""Name under which the model's code finds its weights."""

REQUIREMENTS: Final = ("mlflow", "numba", "numpy", "pandas", "safetensors")
"""Everything the registered model imports; torch is not among it."""


_KNOWN_WARNINGS: Final = (
    "The ``noload`` loader strategy is deprecated",
    "Operation with range is deprecated",
    ".*Any type hint is inferred as AnyType",
)
"""What MLflow is warned for (by SQLAlchemy, by pandas) or warns of on its own import."""


@contextmanager
def _known_warnings() -> Iterator[None]:
    """Hide the warnings whose causes lie inside MLflow, and no others."""
    with warnings.catch_warnings():
        for message in _KNOWN_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        yield


class NoChampionError(BadInputError, LookupError):
    """No policy is registered under the alias that was asked for."""


class TrackingUnavailableError(RespectError, ConnectionError):
    """The MLflow server does not answer."""


def tracking_uri(home: Path) -> str:
    """Return where runs are kept: `MLFLOW_TRACKING_URI` if set, else an SQLite database below ``home``."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(home / 'mlflow' / 'mlflow.db').resolve()}"


@dataclass(frozen=True, kw_only=True)
class RegisteredVersion:
    """A version of the policy in the registry."""

    version: str
    run_id: str
    tags: dict[str, str]


class Tracking:
    """One MLflow tracking server or database, and what the pipeline does with it."""

    def __init__(self, home: Path) -> None:
        """Open the store; the first time on a machine its tables are made, which takes some seconds.

        Args:
            home: The folder with all state of the project. Database and artifacts go below it unless
                `MLFLOW_TRACKING_URI` names another store.

        Raises:
            UnwritableError: The folder cannot be written.
            TrackingUnavailableError: `MLFLOW_TRACKING_URI` names a server that does not answer.
        """
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        from mlflow import MlflowClient

        self.uri, self._home = tracking_uri(home), home
        _check_reachable(self.uri)
        self._artifacts: str | None = None
        if self.uri.startswith("sqlite:"):
            folder = home / "mlflow"
            try:
                (folder / "artifacts").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UnwritableError(f"{folder}: the MLflow store cannot be written ({error.strerror})") from error
            self._artifacts = (folder / "artifacts").resolve().as_uri()
        with _known_warnings():
            self.client: MlflowClient = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            self.experiment_id = self._experiment()

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        return str(self.client.create_experiment(EXPERIMENT, artifact_location=self._artifacts))

    # -- runs ------------------------------------------------------------------------------------------------------

    def start_run(self, name: str, params: Mapping[str, object], tags: Mapping[str, str] | None = None) -> str:
        """Start a run with its parameters and return its id; end it with `end_run`."""
        from mlflow.entities import Param

        run = self.client.create_run(self.experiment_id, run_name=name, tags=dict(tags or {}))
        run_id = str(run.info.run_id)
        self.client.log_batch(run_id, params=[Param(key, str(value)) for key, value in params.items()])
        return run_id

    @contextmanager
    def run(self, name: str, params: Mapping[str, object], tags: Mapping[str, str] | None = None) -> Iterator[str]:
        """Start a run for a ``with`` block; it ends as finished, or as failed where the block raises."""
        run_id = self.start_run(name, params, tags)
        try:
            yield run_id
        except BaseException:
            self.end_run(run_id, "FAILED")
            raise
        self.end_run(run_id)

    def end_abandoned_runs(self, tag: str, value: str) -> int:
        """End runs with this tag that a killed process left running; returns how many there were."""
        left = self.client.search_runs(
            [self.experiment_id], f"tags.{tag} = '{value}' and attributes.status = 'RUNNING'"
        )
        for run in left:
            self.end_run(run.info.run_id, "KILLED")
        return len(left)

    def end_run(self, run_id: str, status: Literal["FINISHED", "FAILED", "KILLED"] = "FINISHED") -> None:
        """End a run."""
        self.client.set_terminated(run_id, status)

    def log_dataset(self, run_id: str, name: str, digest: str, source: str, context: str = "training") -> None:
        """Say which dataset a run used.

        Args:
            run_id: The run.
            name: The table's name.
            digest: Digest of its manifest; MLflow keeps the first 36 characters, a tag keeps all.
            source: Where the dataset lies.
            context: What it was used for.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag

        facts = json.dumps({"uri": source})
        dataset = Dataset(name=name, digest=digest[:36], source_type="local", source=facts)
        used_for = InputTag("mlflow.data.context", context)
        self.client.log_inputs(run_id, datasets=[DatasetInput(dataset, [used_for])])
        self.client.set_tag(run_id, f"dataset.{name}.digest", digest)

    def log_epoch(self, run_id: str, result: EpochResult) -> None:
        """Log one epoch's metrics in one call."""
        self.log_metrics(
            run_id, {key: float(value) for key, value in asdict(result).items() if key != "epoch"}, step=result.epoch
        )

    def log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log several metrics of one step in one call."""
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        self.client.log_batch(run_id, metrics=[Metric(key, value, now_ms, step) for key, value in metrics.items()])

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        """Copy a file (a report, say) to a run's artifacts."""
        self.client.log_artifact(run_id, str(path), folder)

    # -- the registry ----------------------------------------------------------------------------------------------

    def register_policy(self, run_id: str, checkpoint: Path, example: DnnGraph, num_stages: int) -> str:
        """Log a checkpoint as a model of the run and register it as the new `candidate`.

        The model is a pyfunc from code: `tasks/policy_model.py`, a copy of `respect_core`, and the safetensors file. It
        needs what `REQUIREMENTS` names and nothing of this checkout.

        Args:
            run_id: The run that trained it.
            checkpoint: The checkpoint file.
            example: A graph for the model's input example.
            num_stages: K of the example.

        Returns:
            The new version of `POLICY_MODEL`.

        Raises:
            InputFileError: The checkpoint cannot be used.
        """
        from mlflow.entities import LoggedModelOutput, LoggedModelStatus
        from mlflow.exceptions import MlflowException

        opened = read_checkpoint(checkpoint)
        logged = self.client.create_logged_model(self.experiment_id, name=POLICY_MODEL, source_run_id=run_id)
        with tempfile.TemporaryDirectory() as scratch:
            folder = _save_model(Path(scratch), checkpoint, example, num_stages, logged, run_id)
            self.client.log_model_artifacts(logged.model_id, str(folder))
        self.client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
        self.client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, 0)])
        try:
            self.client.create_registered_model(
                POLICY_MODEL, description="Pipeline schedules for graphs of any size, learned from exact labels."
            )
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        made = self.client.create_model_version(
            POLICY_MODEL,
            source=f"models:/{logged.model_id}" if self.uri.startswith("http") else logged.artifact_location,
            run_id=run_id,
            model_id=logged.model_id,
            tags={"checkpoint": opened.version, "checkpoint_sha256": opened.digest},
        )
        self.client.set_registered_model_alias(POLICY_MODEL, "candidate", str(made.version))
        return str(made.version)

    def version_of(self, alias: str) -> str | None:
        """Resolve an alias to a version of the policy, None where it is not set."""
        from mlflow.exceptions import MlflowException

        try:
            return str(self.client.get_model_version_by_alias(POLICY_MODEL, alias).version)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise

    def find_version(self, tag: str, value: str) -> RegisteredVersion | None:
        """Return the newest version with this value of a tag."""
        made = self.client.search_model_versions(f"name='{POLICY_MODEL}'")
        found = [v for v in made if v.tags.get(tag) == value]
        newest = max(found, key=lambda v: int(v.version), default=None)
        if newest is None:
            return None
        return RegisteredVersion(version=str(newest.version), run_id=str(newest.run_id), tags=dict(newest.tags))

    def checkpoint_of(self, version: str) -> Path:
        """Return the checkpoint file of a version, fetched to this machine if it lies elsewhere."""
        with _known_warnings():
            import mlflow.artifacts

        where = self.client.get_model_version_download_uri(POLICY_MODEL, version)
        fetched = mlflow.artifacts.download_artifacts(
            artifact_uri=f"{where}/artifacts/{CHECKPOINT_NAME}", tracking_uri=self.uri
        )
        return Path(fetched)

    def champion_checkpoint(self) -> Path:
        """Return the checkpoint of the policy in use.

        Raises:
            NoChampionError: There is none yet.
        """
        version = self.version_of("champion")
        if version is None:
            raise NoChampionError(_no_champion(self.uri))
        return self.checkpoint_of(version)

    def promote(self, version: str, champion: str | None) -> None:
        """Make a version the `champion`; the champion so far, if there is one, becomes `previous`."""
        if champion == version:
            return
        if champion is not None:
            self.client.set_registered_model_alias(POLICY_MODEL, "previous", champion)
        self.client.set_registered_model_alias(POLICY_MODEL, "champion", version)
        self._remember(version)

    def _remember(self, version: str) -> None:
        """Copy the champion's checkpoint to where it is found without opening the store; see `champion_checkpoint`."""
        if self._artifacts is None:
            return
        target = self._home / CHAMPION_NAME
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            shutil.copyfile(self.checkpoint_of(version), temporary)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise UnwritableError(f"{target}: the champion cannot be written ({error.strerror})") from error

    def tag_version(self, version: str, tags: Mapping[str, str]) -> None:
        """Set tags of a version."""
        for key, value in tags.items():
            self.client.set_model_version_tag(POLICY_MODEL, version, key, value)


def champion_checkpoint(home: Path) -> Path:
    """Return the checkpoint of the policy in use; never makes a store where there is none.

    In the database below ``home`` it was copied aside when it was promoted, so that MLflow need not be opened, which
    takes seconds. A server is always asked.

    Raises:
        NoChampionError: There is no policy yet.
    """
    uri = tracking_uri(home)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise NoChampionError(_no_champion(uri))
    remembered = home / CHAMPION_NAME
    if uri == f"sqlite:///{(home / 'mlflow' / 'mlflow.db').resolve()}" and remembered.exists():
        return remembered
    return Tracking(home).champion_checkpoint()


def _check_reachable(uri: str) -> None:
    """Ask a server whether it is up; MLflow itself would try again for minutes."""
    if not uri.startswith(("http://", "https://")):
        return
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=10):
            return
    except urllib.error.HTTPError:
        return  # something answers: whether it lets us in, MLflow says
    except (OSError, ValueError) as error:
        raise TrackingUnavailableError(
            f"the MLflow server at {uri} does not answer ({error}): start it, or unset MLFLOW_TRACKING_URI"
        ) from error


def _no_champion(uri: str) -> str:
    return (
        f"there is no trained policy in {uri} yet: `respect nightly` or `respect train` makes one, "
        "or choose another solver"
    )


@_known_warnings()
def _save_model(
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
