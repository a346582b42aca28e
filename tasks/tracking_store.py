"""Where runs and policies are kept: an MLflow server, or an SQLite database below the home folder.

Everything goes through `MlflowClient` with explicit ids: MLflow's active run and tracking address are never touched, so
tasks in several threads do not disturb each other.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from respect_core.errors import RespectError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlflow import MlflowClient

EXPERIMENT: Final = "respect"

_KNOWN_WARNINGS: Final = (
    "The ``noload`` loader strategy is deprecated",
    "Operation with range is deprecated",
    ".*Any type hint is inferred as AnyType",
)
"""What MLflow is warned for (by SQLAlchemy, by pandas) or warns of on its own import."""


@contextmanager
def known_warnings() -> Iterator[None]:
    """Hide the warnings whose causes lie inside MLflow, and no others."""
    with warnings.catch_warnings():
        for message in _KNOWN_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        yield


class TrackingUnavailableError(RespectError, ConnectionError):
    """The MLflow server does not answer."""


def tracking_uri(home: Path) -> str:
    """Return where runs are kept: `MLFLOW_TRACKING_URI` if set, else an SQLite database below ``home``."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(home / 'mlflow' / 'mlflow.db').resolve()}"


class Store:
    """One MLflow tracking server or database."""

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

        self.uri, self.home = tracking_uri(home), home
        _check_reachable(self.uri)
        self.artifacts: str | None = None
        if self.uri.startswith("sqlite:"):
            folder = home / "mlflow"
            try:
                (folder / "artifacts").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UnwritableError(f"{folder}: the MLflow store cannot be written ({error.strerror})") from error
            self.artifacts = (folder / "artifacts").resolve().as_uri()
        with known_warnings():
            self.client: MlflowClient = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            self.experiment_id = self._experiment()

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        return str(self.client.create_experiment(EXPERIMENT, artifact_location=self.artifacts))


def _check_reachable(uri: str) -> None:
    """Ask a server whether it is up; MLflow itself would try again for minutes."""
    if not uri.startswith(("http://", "https://")):
        return
    import urllib.request

    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=10):
            return
    except urllib.error.HTTPError:
        return  # something answers: whether it lets us in, MLflow says
    except (OSError, ValueError) as error:
        raise TrackingUnavailableError(
            f"the MLflow server at {uri} does not answer ({error}): start it, or unset MLFLOW_TRACKING_URI"
        ) from error
