"""Runs in MLflow: parameters, datasets, metrics and files, and how a run ends."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tasks.tracking_store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respect_core.policy.epochs import EpochResult, RefinementPoint


class Runs(Store):
    """The runs of a store."""

    def start_run(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str] | None = None,
        parent: str | None = None,
    ) -> str:
        """Start a run with its parameters, as a child of another if one is given, and return its id; see `end_run`."""
        from mlflow.entities import Param

        below = {"mlflow.parentRunId": parent} if parent else {}
        run = self.client.create_run(self.experiment_id, run_name=name, tags={**(tags or {}), **below})
        run_id = str(run.info.run_id)
        self.client.log_batch(run_id, params=[Param(key, str(value)) for key, value in params.items()])
        return run_id

    @contextmanager
    def run(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str] | None = None,
        parent: str | None = None,
    ) -> Iterator[str]:
        """Start a run for a ``with`` block; it ends as finished, or as failed where the block raises."""
        run_id = self.start_run(name, params, tags, parent)
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

    def continue_run(self, tag: str, value: str) -> str | None:
        """Open the newest run with this tag again and return its id, None where there is none."""
        found = self.client.search_runs(
            [self.experiment_id], f"tags.{tag} = '{value}'", order_by=["attributes.start_time DESC"], max_results=1
        )
        if not found:
            return None
        run_id = str(found[0].info.run_id)
        self.client.update_run(run_id, status="RUNNING")
        return run_id

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
        """Log one epoch's metrics in one call, with a metric ``gap/SET`` for each validation set."""
        numbers = {key: float(value) for key, value in result.numbers.items() if key != "epoch"}
        gaps = {f"gap/{name}": gap for name, gap in result.set_gaps.items()}
        self.log_metrics(run_id, {**numbers, **gaps}, step=result.epoch)

    def log_point(self, run_id: str, point: RefinementPoint) -> None:
        """Log one point of the second phase's curve likewise, its metrics all begin with ``best_of``."""
        numbers = {
            "best_of/sampled_gap": point.sampled_gap,
            "best_of/best_gap": point.best_gap,
            "best_of/validation_gap": point.validation_gap,
        }
        gaps = {f"best_of/gap/{name}": gap for name, gap in point.set_gaps.items()}
        self.log_metrics(run_id, {**numbers, **gaps}, step=point.step)

    def log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log several metrics of one step in one call."""
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        self.client.log_batch(run_id, metrics=[Metric(key, value, now_ms, step) for key, value in metrics.items()])

    def log_text(self, run_id: str, text: str, file: str) -> None:
        """Keep a text as a file among a run's artifacts."""
        self.client.log_text(run_id, text, file)

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        """Copy a file (a report, say) to a run's artifacts."""
        self.client.log_artifact(run_id, str(path), folder)
