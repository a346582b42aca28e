"""Reading a table of published measurements (CSV), and finding out what each row was measured on."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from respect_core.calibration.facts import StageFacts, facts_of_graph
from respect_core.calibration.networks import SIDE, network_of
from respect_core.calibration.observations import Link, Measured, Measurements, Observation, Skipped
from respect_core.calibration.synthetic_nets import SYNTHETIC, cut_layers, synthetic_layers
from respect_core.errors import InputFileError, RespectError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.sources.catalog import known_models, resolve_model

COLUMNS: Final = ("row_id", "source", "model", "host_link", "method", "metric", "n_stages", "latency_ms")
"""Columns that a table of measurements must have; `measurements.md` describes them and the optional ones."""

_RULE: Final = "edgetpu_compiler"
_BATCH: Final = re.compile(r"batch (\d+)")
_UNSTATED: Final[Link] = "pcie"
"""Link where none is stated: rows of this kind stream 2.7 ms a MiB, which is what PCIe does and USB does not."""


def read_measurements(path: Path, graphs: Path | None = None, link: Link | None = None) -> Measurements:
    """Read every timing row of a table; what cannot be used is listed with the reason.

    Facts about a row's stages come from, in this order: a graph in the folder ``graphs`` named after the model
    (`.tflite` or `.json`), the layers that a synthetic model's name describes, a published network of
    `respect_core.calibration.networks`, a known model or a file that ``model`` names.

    Args:
        path: The table, with the columns `COLUMNS`; rows whose `role` is not `timing` are ignored.
        graphs: Folder of op graphs by model name.
        link: Link of all rows, whatever they say.

    Raises:
        InputFileError: It is not such a table; the offending row and column are named.
    """
    used: list[Observation] = []
    skipped: list[Skipped] = []
    for number, row in _rows(path):
        name = row["row_id"] or f"line {number}"
        if row.get("role", "timing") != "timing":
            continue
        try:
            used += _observations(path, name, row, graphs, link)
        except InputFileError:
            raise
        except (RespectError, _UnusableError) as error:
            skipped.append(Skipped(row=name, why=str(error)))
    return Measurements(used=tuple(used), skipped=tuple(skipped))


class _UnusableError(Exception):
    """A row lacks something that the model needs."""


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
            if missing:
                raise InputFileError(path, f"it lacks the column {missing[0]!r}, needed are {', '.join(COLUMNS)}")
            for row in reader:
                if None in row or None in row.values():
                    raise InputFileError(path, f"line {reader.line_num} does not have as many fields as the heading")
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise InputFileError(path, f"it is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise InputFileError(path, f"it is not CSV ({error})") from error
    except OSError as error:
        raise InputFileError(path, f"it cannot be read ({error.strerror})") from error


def _observations(
    path: Path, name: str, row: dict[str, str], graphs: Path | None, link: Link | None
) -> list[Observation]:
    stated = _link_of(row["host_link"])
    metric = row["metric"]
    if "cold" in metric or "compiled bytes" in metric:
        raise _UnusableError(f"its metric is {metric!r}, which is no steady time")
    num_stages = int(_number(path, name, row, "n_stages") or 0)
    if num_stages < 1:
        raise _UnusableError("n_stages is not given")
    stages, facts_from = _stages(row, num_stages, graphs)
    batch = _BATCH.search(metric)
    times: list[tuple[Measured, float | None]] = [
        ("period" if batch else "latency", _number(path, name, row, "latency_ms"))
    ]
    fps = _number(path, name, row, "throughput_fps")
    if fps and not batch and num_stages > 1:
        times.append(("period", 1000 / fps))
    threads = "threads" in metric or "python" in row.get("note", "").lower()
    model = SYNTHETIC.fullmatch(row["model"])
    base = Observation(
        row=name,
        source=row["source"].split(" ")[0],
        model=row["model"],
        family=f"synthetic {model.group(1)}" if model else row["model"],
        link=link or stated or _UNSTATED,
        is_link_stated=link is not None or stated is not None,
        measured="latency",
        batch=int(batch.group(1)) if batch else None,
        host_threads=threads and num_stages > 1,
        time_ms=1.0,
        stages=stages,
        facts_from=facts_from,
        reported_spill_mib=_spills(row, num_stages),
    )
    found = [replace(base, measured=kind, time_ms=ms) for kind, ms in times if ms is not None]
    if not found:
        raise _UnusableError("it has neither latency_ms nor throughput_fps")
    return found


def _number(path: Path, name: str, row: dict[str, str], column: str) -> float | None:
    text = row.get(column, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputFileError(path, f"row {name}: {column} is {text!r}, expected a positive number")
    return value


def _link_of(text: str) -> Link | None:
    has_usb, has_pcie = "usb" in text.lower(), "pcie" in text.lower()
    if has_usb == has_pcie:
        return None
    return "usb3" if has_usb else "pcie"


def _spills(row: dict[str, str], num_stages: int) -> tuple[float, ...] | None:
    values = _list_of(row.get("seg_off_chip_MiB", ""))
    return tuple(values) if values is not None and len(values) == num_stages else None


def _list_of(text: str) -> list[float] | None:
    """Parse ``[1, 2]``, ``1;2`` or ``1``."""
    try:
        return [float(part) for part in re.split(r"[;,]", text.strip().strip("[]"))]
    except ValueError:
        return None


# -- what a row was measured on ----------------------------------------------------------------------------------------


def _stages(row: dict[str, str], num_stages: int, graphs: Path | None) -> tuple[tuple[StageFacts, ...], str]:
    graph, origin = _graph_in(graphs, row["model"]), "graph given by the user"
    if graph is None:
        synthetic = SYNTHETIC.fullmatch(row["model"])
        if synthetic:
            layers = synthetic_layers(synthetic.group(1), int(synthetic.group(2)))
            return cut_layers(
                layers, row.get("seg_cuts_layers", ""), num_stages
            ), "layers from the model's name, cuts from the row"
        graph, origin = _named_graph(row)
    if num_stages > 1 and not row["method"].startswith(_RULE):
        raise _UnusableError(f"where {row['method']!r} cuts the op graph is not known")
    return facts_of_graph(graph, compiler_segments(graph, num_stages), num_stages), origin


def _graph_in(folder: Path | None, model: str) -> DnnGraph | None:
    for ending in (".tflite", ".lite", ".json"):
        if folder is not None and (folder / (model + ending)).is_file():
            return resolve_model(str(folder / (model + ending)))
    return None


def _named_graph(row: dict[str, str]) -> tuple[DnnGraph, str]:
    side = re.match(r"\d+", row.get("input", ""))
    try:
        return network_of(row["model"], int(side.group()) if side else SIDE), "op graph of the published network"
    except UnknownNameError as error:
        known = _known_model(row["model"])
        if known is None:
            raise _UnusableError(
                f"no op graph of {row['model']!r}: give a folder with {row['model']}.tflite or .json by --graphs"
            ) from error
        graph = resolve_model(known)
        if side and not _takes(graph, int(side.group())):
            raise _UnusableError(
                f"{known} does not take images of {side.group()} pixels: give a folder with {row['model']}.tflite or "
                ".json by --graphs"
            ) from error
        note = "layer graph of a known model: its sizes are approximate" if graph.source == "keras" else "op graph"
        return graph, f"{note} ({known})"


def _takes(graph: DnnGraph, side: int) -> bool:
    """Tell whether an input of a graph is an image of so many pixels a side, one or three channels."""
    inputs = graph.tensor_producer == UNKNOWN
    inputs |= np.isin(graph.tensor_producer, graph.input_ops)
    return bool(np.isin(graph.tensor_bytes[inputs], [side * side, 3 * side * side]).any())


def _known_model(name: str) -> str | None:
    """Return the known model that a benchmark means, its op graph before its layer graph; or the file it names."""
    if Path(name).suffix.lower() in (".tflite", ".lite", ".json"):
        return name
    plain = _plain(name)
    by_plain = {_plain(known): known for known in known_models()}
    return by_plain.get(plain + "int8", by_plain.get(plain))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))
