"""Results of job folders, from here or from another host, into the table `benchmarks`: checked, then published."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hardware_runners.errors import InvalidResultError
from hardware_runners.results import Result, result_facts
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.domain_checks import benchmark_checks
from respect_core.tables.fingerprint import fingerprint
from tasks.home import Home
from tasks.publishing import Published, audit_set, publish_staged, published, refuse


def check_complete(path: str, result: Result) -> None:
    """Refuse a result that is not whole: what an error left over is no measurement of the plan.

    Raises:
        InvalidResultError: It is partial; what it lacks and why is said.
    """
    if result.failure is not None:
        raise InvalidResultError(
            path,
            f"it is partial and does not enter the table: {result.missing}, because of {result.failure.message}",
            result.failure.stage,
            result.failure.device,
        )


def publish_results(home: Home, results: Sequence[Result]) -> Published:
    """Check the rows of complete results and publish them as one partition, or nothing of them.

    Args:
        home: The home folder.
        results: One or more results of one runner; publishing the same ones again changes nothing.

    Raises:
        QualityError: A rule is broken; the rows are kept aside.
        BadInputError: A value that the table cannot hold.
        CorruptDatasetError: The dataset holds a changed or foreign file; nothing is overwritten.
    """
    facts = result_set_facts(results)
    digest = fingerprint(**facts, schema=BENCHMARKS.version)
    started = re.sub(r"\D+", "-", min(result.started for result in results)).strip("-")
    partition = f"run={results[0].timings.runner}-{started}-{digest[:8]}"
    done = published(home, BENCHMARKS, partition)
    if done is not None:
        return done
    table = BENCHMARKS.table([row for result in results for row in result.timings.rows(result)])
    staging = home.dataset(BENCHMARKS).stage(partition, digest)
    staging.write(0, table)
    checks = {BENCHMARKS.name: lambda tables: benchmark_checks(tables[BENCHMARKS.name])}
    reports = audit_set((BENCHMARKS,), {BENCHMARKS.name: table}, checks)
    if not all(report.passed for report in reports):
        refuse(reports, [str(home.dataset(BENCHMARKS).reject(staging))])
    return publish_staged(home, (BENCHMARKS,), partition, digest, facts)[0]


def result_set_facts(results: Sequence[Result]) -> dict[str, Any]:
    """Return what is known of a set of results, for the manifest."""
    return {
        "results": [
            {
                "model": result.model,
                "num_stages": result.num_stages,
                "solver": result.solver,
                "runner": result.timings.runner,
                "device": result.timings.device,
                "job_sha256": result.job_sha256,
                "started": result.started,
                "plan": asdict(result.plan),
                "content": fingerprint(result=result_facts(result)),
            }
            for result in results
        ]
    }
