"""What became of a segment in the compiler: its facts as columns of a table, and one sentence for the user."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Optional

from hardware_runners.compiling.log import FAILURES, MAPPED, CompilerFacts
from hardware_runners.compiling.process import Attempt


@dataclass(frozen=True)
class CompiledSegment:
    """What became of one segment."""

    stage: int
    segment: Path
    """The file that was compiled."""
    status: str
    """`compiled`, or a key of `FAILURES`."""
    message: str
    """Which segment failed, why and the way out; for a compiled one what to know about it, often empty."""
    seconds: float
    """All tries together."""
    tries: int
    """How often the compiler was run, 0 where an earlier result was taken over."""
    facts: CompilerFacts = field(repr=False)
    """What the compiler printed at the last try."""
    output: Optional[Path]
    """`X_edgetpu.tflite`, None where it failed."""
    log: Path
    """`X_edgetpu.log`: all that the compiler printed at the last try, its operation log included."""

    @property
    def ok(self) -> bool:
        """Whether the segment was compiled."""
        return self.status == "compiled"

    @property
    def other_cuts_help(self) -> bool:
        """Whether the model may compile when it is cut elsewhere."""
        return not self.ok and FAILURES[self.status].other_cuts_help

    def columns(self, version: str) -> Dict[str, Any]:
        """Return the columns of the table `segments` that the compiler fills; `version` is `Compiler.version`."""
        facts = self.facts
        return {
            "compiler_status": self.status,
            "compiler_version": version,
            "compile_seconds": self.seconds,
            "on_chip_bytes": facts.on_chip_bytes,
            "on_chip_remaining_bytes": facts.on_chip_remaining_bytes,
            "off_chip_bytes": facts.off_chip_bytes,
            "edge_tpu_ops": facts.edge_tpu_ops,
            "cpu_ops": facts.cpu_ops,
            "edge_tpu_subgraphs": facts.num_subgraphs,
            "message": self.message,
        }


def outcome_text(stage: int, segment: Path, attempt: Attempt, tries: int, log: Path) -> str:
    """Say which segment failed, why and the way out; of a compiled one what to know about it, often nothing."""
    if attempt.status == "compiled":
        return compiled_text(stage, segment, attempt.facts)
    failure = FAILURES[attempt.status]
    said = f" ({attempt.detail[:200]})" if attempt.detail else ""
    often = f", {tries} times in a row" if tries > 1 else ""
    return (
        f"segment {stage} ({segment.name}) was not compiled: {failure.why}{said}{often}; {failure.way_out} "
        f"(its log is {log.name})"
    )


def compiled_text(stage: int, segment: Path, facts: CompilerFacts) -> str:
    """Say what to know about a segment that was compiled, often nothing."""
    notes = []
    if facts.edge_tpu_ops == 0:
        notes.append("none of its ops runs on the Edge TPU")
    elif facts.cpu_ops:
        notes.append(f"{facts.cpu_ops} of its ops stay on the CPU{_reasons(facts)}")
    if facts.num_subgraphs is not None and facts.num_subgraphs > 1:
        notes.append(f"the Edge TPU is entered {facts.num_subgraphs} times an inference")
    return f"segment {stage} ({segment.name}): {'; '.join(notes)}" if notes else ""


def _reasons(facts: CompilerFacts) -> str:
    rows = [f"{row.count} x {row.kind}: {row.status}" for row in facts.operators if row.status != MAPPED]
    return f" ({'; '.join(rows[:3])}{'; ...' if len(rows) > 3 else ''})" if rows else ""
