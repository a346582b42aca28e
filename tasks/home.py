"""The home folder: where all state lives, and the environment that platform libraries need before their import."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from respect_core.errors import UnwritableError
from respect_core.tables.files import check_writable

if TYPE_CHECKING:
    from respect_core.tables.dataset import Dataset
    from respect_core.tables.table import TableSchema

HOME_VARIABLE = "RESPECT_HOME"
LEAST_FREE_BYTES = 64 * 2**20


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
        """Raise `UnwritableError` before any work starts if the folder cannot be written or its disk is full."""
        check_writable(self.path)
        free = shutil.disk_usage(self.path).free
        if free < LEAST_FREE_BYTES:
            raise UnwritableError(
                f"{self.path} has {free / 2**20:.0f} MiB free, at least {LEAST_FREE_BYTES / 2**20:.0f} MiB are needed: "
                "free space or choose --home"
            )

    @contextmanager
    def one_run(self, say: Callable[[str], None]) -> Iterator[None]:
        """Keep other runs off this home for a ``with`` block; a flow inside another one's block goes on at once.

        Two runs would stage into the same folders and register each other's policies. The lock is the operating
        system's: it goes with the process, however that ends.

        Args:
            say: Told once, before waiting, that another run is at work.

        Raises:
            UnwritableError: The home cannot be written.
        """
        from filelock import FileLock, Timeout

        self.check_writable()
        lock = FileLock(self.path / "run.lock", is_singleton=True, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another run is at work in {self.path}: waiting until it is done")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def dataset(self, schema: TableSchema) -> Dataset:
        """Return the dataset of a table."""
        from respect_core.tables.dataset import Dataset

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
    def models(self) -> Path:
        """Folder of built TFLite models."""
        return self.path / "models"

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
