"""What `edgetpu_compiler` prints, read as facts: sizes, where ops run, and the reasons for which it fails.

Its output is for people and differs between versions, so every line is optional; a fact that was not printed is None.
Sizes are printed with two decimals: 6.02MiB stands for any number of bytes within 0.005 MiB of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Dict, List, Optional, Tuple

UNITS: Dict[str, int] = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Bytes of the units that the compiler prints."""

MAPPED = "Mapped to Edge TPU"
"""Status of ops that run on the device, in the compiler's table of ops."""


@dataclass(frozen=True)
class OperatorCount:
    """One line of the compiler's table of ops: ops of one kind and one fate."""

    kind: str
    """Builtin operator, e.g. `CONV_2D`."""
    count: int
    status: str
    """`MAPPED`, or why these ops stay on the CPU."""


@dataclass(frozen=True)
class CompilerFacts:
    """What the compiler said about one model; None where it said nothing."""

    version: Optional[str] = None
    success: bool = False
    """It says that the model was compiled."""
    compile_ms: Optional[int] = None
    input_model: Optional[str] = None
    input_bytes: Optional[int] = None
    output_model: Optional[str] = None
    output_bytes: Optional[int] = None
    on_chip_bytes: Optional[int] = None
    """Parameters kept in the device's memory."""
    on_chip_remaining_bytes: Optional[int] = None
    """Room left for more parameters."""
    off_chip_bytes: Optional[int] = None
    """Parameters streamed to the device on every inference."""
    num_subgraphs: Optional[int] = None
    num_ops: Optional[int] = None
    edge_tpu_ops: Optional[int] = None
    cpu_ops: Optional[int] = None
    operators: Tuple[OperatorCount, ...] = ()
    failure: Optional[str] = None
    """A key of `FAILURES`, None where no reason was recognised."""
    failure_line: str = ""
    """The line that gives the reason."""


@dataclass(frozen=True)
class Failure:
    """A way in which the compiler fails."""

    pattern: str
    """Regular expression of what it, or the shell around it, prints; empty for what it does not say."""
    why: str
    """What that means, to follow "was not compiled: "."""
    way_out: str
    other_cuts_help: bool
    """Whether the same model cut elsewhere may compile."""
    is_fleeting: bool = False
    """Whether users saw it vanish when they tried again."""


_OTHER_CUTS = "cut the model elsewhere (--retry-cuts), or into more stages"

FAILURES: Dict[str, Failure] = {
    "large_activations": Failure(
        pattern=r"large activation tensors",
        why="its activation tensors do not fit the device",
        way_out=_OTHER_CUTS + ", or use a smaller input image",
        other_cuts_help=True,
    ),
    "unusable_model": Failure(
        pattern=r"failed in tflite interpreter|invalid model|model not quantized|could not be (?:parsed|loaded)"
        r"|unresolved custom op|already compiled",
        why="the compiler cannot load it",
        way_out="only fully int8 models of builtin ops compile: run the segment in the LiteRT interpreter first",
        other_cuts_help=False,
    ),
    "timed_out": Failure(
        pattern=r"(?:compil\w*|child process)[^\n]*(?:timed out|timeout (?:expired|exceeded|reached))",
        why="the compiler did not end in time and was stopped",
        way_out="allow more time, or " + _OTHER_CUTS,
        other_cuts_help=True,
    ),
    "internal_error": Failure(
        pattern=r"internal (?:compiler )?error",
        why="the compiler had an internal error, which it does not explain",
        way_out=_OTHER_CUTS,
        other_cuts_help=True,
        is_fleeting=True,
    ),
    "crashed": Failure(
        pattern=r"segmentation fault|core dumped|^aborted\b",
        why="the compiler crashed",
        way_out=_OTHER_CUTS,
        other_cuts_help=True,
        is_fleeting=True,
    ),
    "delegate_failed": Failure(
        pattern=r"restored original execution plan after delegate application failure",
        why="the compiler could not map its ops to the device",
        way_out=_OTHER_CUTS,
        other_cuts_help=True,
    ),
    "compilation_failed": Failure(
        pattern=r"compilation failed|compiler failed",
        why="the compiler refused it",
        way_out=_OTHER_CUTS,
        other_cuts_help=True,
    ),
    "no_output": Failure(
        pattern="",
        why="the compiler ended without writing a model and without saying why",
        way_out=_OTHER_CUTS,
        other_cuts_help=True,
        is_fleeting=True,
    ),
    "damaged_output": Failure(
        pattern="",
        why="what the compiler wrote is no whole TFLite file",
        way_out="check the free space of the disk and try again",
        other_cuts_help=False,
        is_fleeting=True,
    ),
}
"""Every way to fail by its name; of those that a log speaks of, the first one listed is the most telling."""

STATUSES: Tuple[str, ...] = ("not_run", "compiled", *FAILURES)
"""What may have become of a segment."""

_LONGEST_LINE = 1000
"""Characters of a line that are looked at: lists of tensors make lines of any length, and say nothing here."""

_SIZE = r"([0-9]+(?:\.[0-9]+)?)\s*(GiB|MiB|KiB|B)\b"
_TIMER = re.compile(r"compilation timeout timer|within timeout period", re.IGNORECASE)
_TABLE_ROW = re.compile(r"^([A-Z][A-Za-z0-9_.:-]*)\s+([0-9]+)\s+(\S.*?)\s*$", re.MULTILINE)
_TABLE_HEAD = re.compile(r"^Operator\s+Count\s+Status\s*$", re.MULTILINE)


def parse_log(text: str) -> CompilerFacts:
    """Read what the compiler printed about one model, its operation log included.

    Args:
        text: Standard output and error, and the content of `X_edgetpu.log` after them where there is one. Of lines
            that come twice the first one counts.

    Returns:
        The facts. Where the compiler names no ops on the CPU but a subgraph, all ops run on the device; it prints
        their number only if some do not.
    """
    text = "\n".join(line[:_LONGEST_LINE] for line in text.splitlines())
    used = _size(text, r"On-chip memory used for caching model parameters")
    remaining = _size(text, r"On-chip memory remaining for caching model parameters")
    available = _size(text, r"On-chip memory available for caching model parameters")
    if remaining is None and available is not None:  # versions before 2.1 print what there is, not what is left
        remaining = max(0, available - (used or 0))
    success = bool(re.search(r"model compiled successfully|model successfully compiled", text, re.IGNORECASE))
    failure, line = (None, "") if success else _failure(text)
    operators = _operators(text)
    num_ops = _count(text, "Total number of operations")
    num_subgraphs = _count(text, "Number of Edge TPU subgraphs")
    on_device, on_cpu = _where_ops_run(text, num_ops, num_subgraphs, operators)
    return CompilerFacts(
        version=_match(text, r"Edge TPU Compiler version\s+(\S+)"),
        success=success,
        compile_ms=_whole(_match(text, r"Model compiled successfully in\s+([0-9]+)\s*ms")),
        input_model=_match(text, r"^Input(?: model)?:[ \t]*(\S.*?)[ \t]*$"),
        input_bytes=_size(text, r"^Input size"),
        output_model=_match(text, r"^Output(?: model)?:[ \t]*(\S.*?)[ \t]*$"),
        output_bytes=_size(text, r"^Output size"),
        on_chip_bytes=used,
        on_chip_remaining_bytes=remaining,
        off_chip_bytes=_size(text, r"Off-chip memory used for streaming uncached model parameters"),
        num_subgraphs=num_subgraphs,
        num_ops=num_ops,
        edge_tpu_ops=on_device,
        cpu_ops=on_cpu,
        operators=operators,
        failure=failure,
        failure_line=line,
    )


def size_in_bytes(number: str, unit: str) -> int:
    """Return the bytes of a size as printed, rounded half-even: ``("1.5", "KiB")`` is 1536.

    Raises:
        KeyError: The unit is not one of `UNITS`.
    """
    return round(Fraction(number) * UNITS[unit])


def printed_tolerance(num_bytes: int) -> int:
    """Return by how many bytes a printed size may differ from the true one: one in the last of its two decimals."""
    unit = max(size for size in UNITS.values() if size <= max(1, num_bytes))
    return 0 if unit == 1 else unit // 100 + 1


def _match(text: str, pattern: str) -> Optional[str]:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else None


def _whole(text: Optional[str]) -> Optional[int]:
    return None if text is None else int(text)


def _count(text: str, label: str) -> Optional[int]:
    return _whole(_match(text, re.escape(label) + r":\s*([0-9]+)"))


def _size(text: str, label: str) -> Optional[int]:
    found = re.search(label + r":\s*" + _SIZE, text, re.MULTILINE)
    return size_in_bytes(*found.groups()) if found else None


def _failure(text: str) -> Tuple[Optional[str], str]:
    """Return the most telling failure that the text speaks of, and the line that does."""
    lines = [line.strip() for line in text.splitlines() if not _TIMER.search(line)]
    for name, failure in FAILURES.items():
        if not failure.pattern:
            continue
        for line in lines:
            if re.search(failure.pattern, line, re.IGNORECASE):
                return name, line
    return None, ""


def _operators(text: str) -> Tuple[OperatorCount, ...]:
    """Read the first table of ops; it ends with the first line that is neither empty nor one of its rows."""
    head = _TABLE_HEAD.search(text)
    if head is None:
        return ()
    rows: List[OperatorCount] = []
    for line in text[head.end() :].splitlines():
        row = _TABLE_ROW.match(line)
        if row:
            rows.append(OperatorCount(row.group(1), int(row.group(2)), row.group(3)))
        elif line.strip():
            break
    return tuple(rows)


def _where_ops_run(
    text: str, num_ops: Optional[int], num_subgraphs: Optional[int], operators: Tuple[OperatorCount, ...]
) -> Tuple[Optional[int], Optional[int]]:
    """Return how many ops run on the device and on the CPU, as far as it is said or follows."""
    on_device = _count(text, "Number of operations that will run on Edge TPU")
    on_cpu = _count(text, "Number of operations that will run on CPU")
    if on_device is None and on_cpu is None:
        if operators:
            on_device = sum(row.count for row in operators if row.status == MAPPED)
            on_cpu = sum(row.count for row in operators) - on_device
        elif num_ops is not None and num_subgraphs is not None:
            on_device, on_cpu = (num_ops, 0) if num_subgraphs else (0, num_ops)
    elif num_ops is not None:
        on_device = num_ops - on_cpu if on_device is None and on_cpu is not None else on_device
        on_cpu = num_ops - on_device if on_cpu is None and on_device is not None else on_cpu
    return on_device, on_cpu
