"""The home folder: where all state lives, and the environment that platform libraries need before their import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from respect_core.tables.dataset import Dataset
from respect_core.tables.files import check_writable
from respect_core.tables.table import TableSchema

HOME_VARIABLE = "RESPECT_HOME"


@dataclass(frozen=True, kw_only=True)
class Home:
    """All state below one folder: datasets, tracking store, Prefect's database, jobs, checkpoints, reports."""

    path: Path

    @classmethod
    def at(cls, path: str | Path | None = None) -> Home:
        """Use ``path``, else `RESPECT_HOME`, else `.respect` in the user's home folder."""
        chosen = path or os.environ.get(HOME_VARIABLE) or Path.home() / ".respect"
        return cls(path=Path(chosen).expanduser().absolute())

    def check_writable(self) -> None:
        """Raise `UnwritableError` before any work starts if the folder cannot be written."""
        check_writable(self.path)

    def dataset(self, schema: TableSchema) -> Dataset:
        """Return the dataset of a table."""
        return Dataset(self.path, schema)

    @property
    def checkpoints(self) -> Path:
        """Folder of training checkpoints."""
        return self.path / "checkpoints"

    @property
    def jobs(self) -> Path:
        """Folder of benchmark job folders."""
        return self.path / "jobs"

    @property
    def reports(self) -> Path:
        """Folder of HTML reports."""
        return self.path / "reports"

    def prepare_environment(self) -> None:
        """Set defaults for Prefect, MLflow and Great Expectations; what the user has set stays.

        Telemetry is off, Prefect's embedded server keeps its database below this home and does not print its own
        log. Call it before Prefect is imported.

        Raises:
            UnwritableError: The home cannot be created or written.
        """
        self.check_writable()
        defaults = {
            HOME_VARIABLE: str(self.path),
            "PREFECT_HOME": str(self.path / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
            **TELEMETRY_OFF,
        }
        for variable, value in defaults.items():
            os.environ.setdefault(variable, value)


TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GX_ANALYTICS_ENABLED": "false",
}
