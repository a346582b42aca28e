"""Table `segments`: one row a segment, the TFLite file of one stage of a split model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from respect_core.objective import OBJECTIVES
from respect_core.tables.table import Column, TableSchema, count, flag, items, real, size, text

NOT_RUN: Final = "not_run"
"""Compiler status of a segment that no compiler has seen."""

COMPILED: Final = "compiled"

COMPILER_STATUSES: Final = (
    NOT_RUN,
    COMPILED,
    "large_activations",
    "unusable_model",
    "timed_out",
    "internal_error",
    "crashed",
    "delegate_failed",
    "compilation_failed",
    "no_output",
    "damaged_output",
)
"""Those of `hardware_runners.compiling.log.STATUSES`, which must not be imported from here; a test compares the two."""


NOT_COMPILED: Final[Mapping[str, Any]] = {
    "compiler_status": NOT_RUN,
    "compiler_version": None,
    "compile_seconds": None,
    "on_chip_bytes": None,
    "on_chip_remaining_bytes": None,
    "off_chip_bytes": None,
    "edge_tpu_ops": None,
    "cpu_ops": None,
    "edge_tpu_subgraphs": None,
    "message": "",
}
"""Columns that the compiler fills, where it was not run; else `CompiledSegment.columns` gives them."""


def _names(name: str, doc: str) -> Column:
    return Column(name=name, type=pa.list_(pa.string()), doc=doc)


SEGMENTS: Final = TableSchema(
    name="segments",
    version=1,
    doc="One row per segment of a split model: its file, what it holds and receives, and what the compiler made of it.",
    key=("model", "num_stages", "objective", "device", "solver", "stage"),
    columns=(
        text("model", "Name of the model."),
        count("model_ops", "Ops of the whole model.", minimum=1),
        count("num_stages", "Segments of the split.", minimum=1),
        text("objective", "What the schedule minimised.", allowed=OBJECTIVES),
        text("device", "Profile of the device and its link."),
        text("solver", "Who made the schedule."),
        count("stage", "Stage of the segment, from 0 on."),
        text("file_name", "Name of the segment's file."),
        text("sha256", "SHA-256 of the file, in hexadecimal."),
        size("file_bytes", "Size of the file."),
        items("ops", pa.int32(), "Ops of the model in this segment, in the order of its file."),
        count("num_ops", "Ops in this segment.", minimum=1),
        count("unsupported_ops", "Ops that the Edge TPU does not support by its published rules."),
        size("param_bytes", "Constant inputs of the ops, counted once a use, as the compiler does."),
        size("storage_bytes", "Data of the constants, counted once a buffer of the file."),
        size("input_bytes", "Tensors that the segment receives."),
        size("output_bytes", "Tensors that the segment sends."),
        _names("input_names", "Names of the tensors that the segment receives, in the order of its file."),
        _names("output_names", "Names of the tensors that the segment sends, in the order of its file."),
        flag("fits_pycoral", "True where the split keeps to the dataflow that pycoral's pipeline runner needs."),
        flag("is_verified", "True where model and chained segments gave bit-identical outputs."),
        text("kernel_mode", "Kernels of the interpreter that verified it, null if none did.", nullable=True),
        text("compiler_status", "What the compiler made of it.", allowed=COMPILER_STATUSES),
        text("compiler_version", "Version of the compiler, null where it was not run.", nullable=True),
        real("compile_seconds", "Seconds the compiler took, all tries together.", unit="s", nullable=True),
        size("on_chip_bytes", "Parameters that the compiler keeps on the chip, as printed.", nullable=True),
        size("on_chip_remaining_bytes", "Room that it leaves there, as printed.", nullable=True),
        size("off_chip_bytes", "Parameters streamed on every inference, as printed.", nullable=True),
        count("edge_tpu_ops", "Ops that run on the Edge TPU, by the compiler's count.", nullable=True),
        count("cpu_ops", "Ops that stay on the CPU, by the compiler's count.", nullable=True),
        count("edge_tpu_subgraphs", "How often the Edge TPU is entered an inference.", nullable=True),
        size("peak_activation_bytes", "Largest sum of live activations in the file's order of ops.", nullable=True),
        text("order_method", "Who ordered the ops of the file, null for the model's own order.", nullable=True),
        text("message", "What to know about the segment, usually empty."),
    ),
)
