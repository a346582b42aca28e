"""The gate between a freshly trained policy and the one in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from respect_core.errors import InputFileError
from respect_core.policy.evaluate import EvaluationCase, PolicyScore, evaluation_digest, score_solver
from respect_core.policy.solver import PolicySolver
from tasks.tracking import NoChampionError, Tracking


@dataclass(frozen=True, kw_only=True)
class GateDecision:
    """What the gate decided about a candidate."""

    promoted: bool
    """Whether the candidate is the champion now."""
    reason: str
    candidate_version: str
    champion_version: str | None
    """The champion it was compared with, None where there was none."""
    candidate: PolicyScore
    champion: PolicyScore | None
    """None where there was no champion, or none that can still be read."""
    evaluation_digest: str
    decided_at: str
    """UTC, ISO 8601."""


DECISION_TAG: Final = "gate.decision"
ILLEGAL_TAG: Final = "gate.illegal"


def promote_if_better(
    tracking: Tracking, cases: Sequence[EvaluationCase], candidate: str | None = None
) -> GateDecision:
    """Compare the candidate with the champion on the same problems and promote it where it is no worse.

    A candidate with an illegal schedule is never promoted; the first one without becomes champion; later ones need a
    mean gap that is no larger. Both aliases are resolved to versions once, and the decision is kept as tags of the
    candidate's version.

    Networks are judged by themselves: with the local search on top, nearly all would be equally good.

    Args:
        tracking: The store with the registry.
        cases: The frozen evaluation set.
        candidate: Version to judge; the one with the alias `candidate` if None.

    Raises:
        NoChampionError: There is no candidate.
        BadInputError: The evaluation set is empty.
    """
    candidate, champion = candidate or tracking.version_of("candidate"), tracking.version_of("champion")
    if candidate is None:
        raise NoChampionError(f"no policy has the alias candidate in {tracking.uri}: train one first (`respect train`)")
    mine = score_solver(PolicySolver.from_checkpoint(tracking.checkpoint_of(candidate)).bare(), cases)
    theirs, unreadable = None, ""
    if champion is not None:
        try:
            theirs = score_solver(PolicySolver.from_checkpoint(tracking.checkpoint_of(champion)).bare(), cases)
        except (InputFileError, OSError) as error:
            unreadable = f" (champion {champion} cannot be used any more: {error})"
    promoted, reason = _judge(mine, theirs)
    decision = GateDecision(
        promoted=promoted,
        reason=reason + unreadable,
        candidate_version=candidate,
        champion_version=champion,
        candidate=mine,
        champion=theirs,
        evaluation_digest=evaluation_digest(cases),
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    tracking.tag_version(candidate, _tags(decision))
    if promoted:
        tracking.promote(candidate, champion)
    return decision


def _judge(candidate: PolicyScore, champion: PolicyScore | None) -> tuple[bool, str]:
    """Apply the gate's rule and say why."""
    if candidate.illegal:
        return False, f"{candidate.illegal} of {candidate.cases} problems got no legal schedule"
    if champion is None:
        return True, f"the first valid policy, with a mean gap of {candidate.mean_gap:.4%}"
    compared = f"its mean gap of {candidate.mean_gap:.4%} against the champion's {champion.mean_gap:.4%}"
    if candidate.mean_gap <= champion.mean_gap:
        return True, f"no worse: {compared}"
    return False, f"worse: {compared}"


def _tags(decision: GateDecision) -> dict[str, str]:
    champion = decision.champion
    return {
        DECISION_TAG: "promoted" if decision.promoted else "rejected",
        "gate.reason": decision.reason,
        "gate.mean_gap": repr(decision.candidate.mean_gap),
        ILLEGAL_TAG: str(decision.candidate.illegal),
        "gate.cases": str(decision.candidate.cases),
        "gate.champion_version": decision.champion_version or "",
        "gate.champion_mean_gap": repr(champion.mean_gap) if champion else "",
        "gate.champion_illegal": str(champion.illegal) if champion else "",
        "gate.evaluation_digest": decision.evaluation_digest,
        "gate.decided_at": decision.decided_at,
    }
