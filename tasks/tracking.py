"""MLflow: runs, datasets and the registry, as everything else uses them.

The parts are `tasks.tracking_store`, `tasks.tracking_runs`, `tasks.tracking_registry` and `tasks.tracking_model`. With
`tasks.policy_model`, which is logged there, they are the only code that knows MLflow.
"""

from __future__ import annotations

from pathlib import Path

from tasks.tracking_model import POLICY_MODEL
from tasks.tracking_registry import CHAMPION_NAME, NoChampionError, RegisteredVersion, Registry, no_champion
from tasks.tracking_runs import Runs
from tasks.tracking_store import EXPERIMENT, TrackingUnavailableError, tracking_uri

__all__ = [
    "CHAMPION_NAME",
    "EXPERIMENT",
    "POLICY_MODEL",
    "NoChampionError",
    "RegisteredVersion",
    "Tracking",
    "TrackingUnavailableError",
    "champion_checkpoint",
    "tracking_uri",
]


class Tracking(Runs, Registry):
    """One MLflow tracking server or database, and what the pipeline does with it."""


def champion_checkpoint(home: Path) -> Path:
    """Return the checkpoint of the policy in use; never makes a store where there is none.

    In the database below ``home`` it was copied aside when it was promoted, so that MLflow need not be opened, which
    takes seconds. A server is always asked.

    Raises:
        NoChampionError: There is no policy yet.
    """
    uri = tracking_uri(home)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise NoChampionError(no_champion(uri))
    remembered = home / CHAMPION_NAME
    if uri == f"sqlite:///{(home / 'mlflow' / 'mlflow.db').resolve()}" and remembered.exists():
        return remembered
    return Tracking(home).champion_checkpoint()
