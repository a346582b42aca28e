"""The registry of policies in MLflow: versions, and the aliases `candidate`, `champion` and `previous`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from respect_core.errors import BadInputError, UnwritableError
from respect_core.policy.checkpoint import CHECKPOINT_NAME, read_checkpoint
from tasks.tracking_model import POLICY_MODEL, save_model
from tasks.tracking_store import Store, known_warnings

if TYPE_CHECKING:
    from respect_core.graph import DnnGraph

CHAMPION_NAME: Final = "champion.safetensors"
"""Copy of the champion's checkpoint below the home folder."""


class NoChampionError(BadInputError, LookupError):
    """No policy is registered under the alias that was asked for."""


@dataclass(frozen=True, kw_only=True)
class RegisteredVersion:
    """A version of the policy in the registry."""

    version: str
    run_id: str
    tags: dict[str, str]


class Registry(Store):
    """The registered policies of a store."""

    def register_policy(
        self, run_id: str, checkpoint: Path, example: DnnGraph, num_stages: int, alias: str | None = "candidate"
    ) -> str:
        """Log a checkpoint as a model of the run and register it.

        The model is a pyfunc from code: `tasks/policy_model.py`, a copy of `respect_core`, and the safetensors file. It
        needs what `REQUIREMENTS` names and nothing of this checkout.

        Args:
            run_id: The run that trained it.
            checkpoint: The checkpoint file.
            example: A graph for the model's input example.
            num_stages: K of the example.
            alias: What the version is from now on; None for no alias.

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
            folder = save_model(Path(scratch), checkpoint, example, num_stages, logged, run_id)
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
        if alias is not None:
            self.client.set_registered_model_alias(POLICY_MODEL, alias, str(made.version))
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

    def tags_of(self, version: str) -> dict[str, str]:
        """Return the tags of a version."""
        return dict(self.client.get_model_version(POLICY_MODEL, version).tags)

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
        with known_warnings():
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
            raise NoChampionError(no_champion(self.uri))
        return self.checkpoint_of(version)

    def promote(self, version: str, champion: str | None) -> None:
        """Make a version the `champion`; the champion so far, if there is one, becomes `previous`."""
        if champion == version:
            return
        self._remember(version)  # first: where it cannot be written, the champion stays
        if champion is not None:
            self.client.set_registered_model_alias(POLICY_MODEL, "previous", champion)
        self.client.set_registered_model_alias(POLICY_MODEL, "champion", version)

    def _remember(self, version: str) -> None:
        """Copy the champion's checkpoint to where it is found without opening the store; see `champion_checkpoint`."""
        if self.artifacts is None:
            return
        target = self.home / CHAMPION_NAME
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


def no_champion(uri: str) -> str:
    """Say that there is no policy, and how to get one."""
    return (
        f"there is no trained policy in {uri} yet: `respect nightly` or `respect train` makes one, "
        "or choose another solver"
    )
