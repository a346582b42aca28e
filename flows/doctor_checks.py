"""What `respect doctor` looks at: each check returns findings, each finding comes with the way out.

The checks of devices and their software are `hardware_runners.host.checks`, which a Coral host has too.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from hardware_runners.host.checks import check_host
from hardware_runners.host.findings import Finding
from respect_core.errors import RespectError
from tasks.home import TELEMETRY_OFF, Home

Level = Literal["ok", "warning", "error"]

NEEDED: Final = (
    "prefect",
    "mlflow",
    "great-expectations",
    "pandas",
    "pyarrow",
    "numpy",
    "networkx",
    "numba",
    "ortools",
    "torch",
)
FREE_SPACE_BYTES: Final = 2 * 2**30


def run_checks(home: Home, link_test: Path | None = None) -> list[Finding]:
    """Run every check; none of them starts work or changes anything but a probe file in the home folder.

    Args:
        home: The home folder.
        link_test: A compiled model to run on every attached Edge TPU, None to open the devices only.
    """
    checks: tuple[Callable[[Home], Iterator[Finding]], ...] = (
        _python,
        _packages,
        _home,
        _models,
        _datasets,
        _stores,
        _telemetry,
    )
    return [*(finding for check in checks for finding in check(home)), *check_host(link_test=link_test)]


def _python(home: Home) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    tested = sys.version_info[:2] == (3, 11)
    level: Level = "ok" if tested else "warning"
    yield Finding(check="python", level=level, what=f"Python {version}", way_out="" if tested else "3.11 is tested")


def _packages(home: Home) -> Iterator[Finding]:
    found, missing = [], []
    for name in NEEDED:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Finding(check="packages", level="ok", what=", ".join(found))
    if missing:
        way_out = "run `make install`, or pip install them with --constraint constraints.txt"
        yield Finding(check="packages", level="error", what=f"missing: {', '.join(missing)}", way_out=way_out)


def _home(home: Home) -> Iterator[Finding]:
    try:
        home.check_writable()
    except RespectError as error:
        yield Finding(
            check="home", level="error", what=str(error), way_out="choose another with --home or RESPECT_HOME"
        )
        return
    free = shutil.disk_usage(home.path).free
    what = f"{home.path} can be written, {free / 2**30:.1f} GiB free"
    if free < FREE_SPACE_BYTES:
        yield Finding(check="home", level="warning", what=what, way_out="a nightly run wants 2 GiB: free some space")
    else:
        yield Finding(check="home", level="ok", what=what)


def _models(home: Home) -> Iterator[Finding]:
    from respect_core.sources.catalog import IMAGENET_MODELS, load_model

    try:
        ops = sum(load_model(name).num_ops for name in IMAGENET_MODELS)
    except RespectError as error:
        yield Finding(
            check="models", level="error", what=str(error), way_out="restore datasets/imagenet from the project"
        )
        return
    yield Finding(check="models", level="ok", what=f"{len(IMAGENET_MODELS)} committed models, {ops} ops")


def _datasets(home: Home) -> Iterator[Finding]:
    from respect_core.tables.catalogue import TABLES

    rows = []
    for schema in TABLES.values():
        dataset = home.dataset(schema)
        try:
            dataset.verify()
            partitions = dataset.partitions()
        except RespectError as error:
            yield Finding(
                check="datasets", level="error", what=str(error), way_out="see the message; nothing is overwritten"
            )
            continue
        if partitions:
            rows.append(f"{schema.name} {sum(p.rows for p in partitions.values())} rows")
    yield Finding(check="datasets", level="ok", what=", ".join(rows) or "nothing published yet")


def _stores(home: Home) -> Iterator[Finding]:
    from respect_core.policy.checkpoint import read_checkpoint
    from tasks.tracking import CHAMPION_NAME, NoChampionError, champion_checkpoint

    yield _prefect(os.environ.get("PREFECT_API_URL"))
    try:
        champion = read_checkpoint(champion_checkpoint(home.path))
    except NoChampionError:
        what = "no champion is registered: the weights that come with the program are used"
        yield Finding(check="policy", level="ok", what=what)
    except RespectError as error:
        way_out = f"remove {home.path / CHAMPION_NAME} if it is that file: the registry has another copy"
        yield Finding(check="policy", level="error", what=str(error), way_out=way_out)
    else:
        yield Finding(check="policy", level="ok", what=f"champion {champion.version}")


def _prefect(server: str | None) -> Finding:
    if not server:
        return Finding(check="prefect", level="ok", what="embedded server, started by each run")
    try:
        with urllib.request.urlopen(f"{server.rstrip('/')}/health", timeout=5):
            return Finding(check="prefect", level="ok", what=f"server {server} answers")
    except (OSError, ValueError) as error:
        way_out = "start it (`prefect server start`), or unset PREFECT_API_URL to use the embedded one"
        return Finding(check="prefect", level="error", what=f"server {server}: {error}", way_out=way_out)


def _telemetry(home: Home) -> Iterator[Finding]:
    on = [name for name, off in TELEMETRY_OFF.items() if os.environ.get(name, off) != off]
    if on:
        yield Finding(check="telemetry", level="warning", what=f"switched on by {', '.join(on)}", way_out="unset them")
    else:
        yield Finding(check="telemetry", level="ok", what="off")
