"""The schedule that a view shows: read from the JSON that `respect schedule --json` prints, and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from respect_core.errors import BadInputError, InputFileError
from respect_core.graph import DnnGraph
from respect_core.json_text import distinct, shown
from respect_core.schedule import first_violation

_LARGEST_FILE: Final = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class ShownSchedule:
    """A legal schedule, with what is known about where it comes from (empty where it is not)."""

    num_stages: int
    stage_of: tuple[int, ...]
    """Stage of every op. Shape (n,)."""
    model: str = ""
    objective: str = ""
    device: str = ""
    solver: str = ""
    status: str = ""
    gap: float | None = None


def read_schedule(path: str | Path, graph: DnnGraph) -> ShownSchedule:
    """Read a schedule of ``graph``: what `respect schedule --json` prints; of a folder, its `schedule.json`.

    Raises:
        InputFileError: The file cannot be read, is not such an object, or its schedule is not legal for the graph; the
            first violation is named.
    """
    path = Path(path)
    if path.is_dir():
        path /= "schedule.json"
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InputFileError(path, f"it has more than {_LARGEST_FILE} bytes, so it is not a schedule")
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=distinct)
    except InputFileError:
        raise
    except BadInputError as error:
        raise InputFileError(path, str(error)) from error
    except OSError as error:
        raise InputFileError(path, f"the schedule cannot be read ({error.strerror})") from error
    except (RecursionError, ValueError) as error:
        raise InputFileError(path, f"the schedule is not JSON ({error})") from error
    try:
        return schedule_of_row(content, graph)
    except BadInputError as error:
        raise InputFileError(path, str(error)) from error


def schedule_of_row(row: object, graph: DnnGraph) -> ShownSchedule:
    """Check an object with the keys of `respect schedule --json`; `num_stages` and `stage_of` are needed.

    Raises:
        BadInputError: A key is missing or of the wrong type, or the schedule is not legal.
    """
    if not isinstance(row, Mapping):
        raise BadInputError(f"the schedule is {shown(row)}, expected the object that `respect schedule --json` prints")
    for key in ("num_stages", "stage_of"):
        if key not in row:
            raise BadInputError(
                f"the schedule lacks {key!r}, expected the object that `respect schedule --json` prints"
            )
    num_stages, stages = row["num_stages"], row["stage_of"]
    if not _is_whole(num_stages):
        raise BadInputError(f"num_stages is {shown(num_stages)}, expected a whole number")
    if stages is None:
        raise BadInputError(f"it holds no schedule (status {shown(row.get('status'))}): solve again with more time")
    if not isinstance(stages, list):
        raise BadInputError(f"stage_of is {shown(stages)}, expected a list with the stage of every op")
    wrong = next((v for v, stage in enumerate(stages) if not _is_whole(stage) or abs(stage) > 2**31), None)
    if wrong is not None:
        raise BadInputError(f"stage_of[{wrong}] is {shown(stages[wrong])}, expected a stage in 0..{num_stages - 1}")
    if len(stages) != graph.num_ops:
        of = f" (it is a schedule of {shown(row['model'])})" if isinstance(row.get("model"), str) else ""
        raise BadInputError(
            f"stage_of has {len(stages)} stages, model {graph.name!r} has {graph.num_ops} ops{of}: "
            "give the schedule of this model"
        )
    why = first_violation(graph, stages, num_stages)
    if why is not None:
        raise BadInputError(f"the schedule is not legal for {graph.name!r}: {why}")
    gap = row.get("gap")
    return ShownSchedule(
        num_stages=num_stages,
        stage_of=tuple(stages),
        gap=float(gap) if isinstance(gap, int | float) and not isinstance(gap, bool) else None,
        **{key: _text(row, key) for key in ("model", "objective", "device", "solver", "status")},
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""
