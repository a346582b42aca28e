"""The gate between a freshly trained policy and the one in use; the weights that come along are the first champion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from respect_core.errors import InputFileError
from respect_core.policy.evaluate import EvaluationCase, PolicyScore, evaluation_digest, score_solver
from respect_core.policy.solver import PolicySolver, pretrained_path
from respect_core.tables.files import sha256_of
from tasks.tracking import NoChampionError, Tracking

if TYPE_CHECKING:
    from respect_core.graph import DnnGraph


@dataclass(frozen=True, kw_only=True)
class GateDecision:
    """What the gate decided about a candidate."""

    promoted: bool
    """Whether the candidate is the champion now."""
    reason: str
    candidate_version: str
    champion_version: str
    """The champion it was compared with."""
    candidate: PolicyScore
    champion: PolicyScore
    evaluation_digest: str
    decided_at: str
    """UTC, ISO 8601."""


DECISION_TAG: Final = "gate.decision"
ILLEGAL_TAG: Final = "gate.illegal"

SHIPPED_TAG: Final = "shipped_sha256"
"""Tag of the version that holds the weights that come with the program: the digest of their file."""


def ensure_champion(tracking: Tracking, example: DnnGraph, num_stages: int) -> str:
    """Return the champion's version; where no training has made one, that of the weights that come with the program.

    So services that look the alias up find the policy that `--solver policy` uses anyway, and a first training has to
    be as good as these weights to replace them. As long as none is, the champion follows the program: other weights
    that come along with a newer one take its place.

    Args:
        tracking: The store with the registry.
        example: A graph for the model's input example, if it is registered.
        num_stages: K of the example.

    Raises:
        InputFileError: The weights that come with the program cannot be used.
    """
    champion = tracking.version_of("champion")
    if champion is not None:
        shipped = tracking.tags_of(champion).get(SHIPPED_TAG)
        if shipped is None or shipped == sha256_of(pretrained_path()):
            return champion
    return _crown_shipped(tracking, example, num_stages, champion)


def _crown_shipped(tracking: Tracking, example: DnnGraph, num_stages: int, replaced: str | None) -> str:
    """Make the weights that come with the program champion, in place of a version that cannot be used any more."""
    path = pretrained_path()
    digest = sha256_of(path)
    known = tracking.find_version(SHIPPED_TAG, digest)
    if known is not None and known.version != replaced:
        version = known.version
    else:
        tracking.end_abandoned_runs(SHIPPED_TAG, digest)
        with tracking.run("shipped-policy", {"checkpoint": path.name}, {SHIPPED_TAG: digest}) as run_id:
            version = tracking.register_policy(run_id, path, example, num_stages, alias=None)
        tracking.tag_version(version, {SHIPPED_TAG: digest})
    tracking.promote(version, replaced)
    return version


def promote_if_better(
    tracking: Tracking, cases: Sequence[EvaluationCase], candidate: str | None = None
) -> GateDecision:
    """Compare the candidate with the champion on the same problems and promote it where it is no worse.

    A candidate with an illegal schedule is never promoted. One without is, where the champion has some, or where its
    mean gap is no larger. The first champion is what comes with the program (`ensure_champion`), which also takes the
    place of a champion whose file cannot be read any more. Both aliases are resolved to versions once, and the decision
    is kept as tags of the candidate's version.

    Networks are judged by themselves: with the local search on top, nearly all would be equally good.

    Args:
        tracking: The store with the registry.
        cases: The frozen evaluation set.
        candidate: Version to judge; the one with the alias `candidate` if None.

    Raises:
        NoChampionError: There is no candidate.
        BadInputError: The evaluation set is empty.
        InputFileError: The candidate, or the weights that come with the program, cannot be used.
    """
    candidate = candidate or tracking.version_of("candidate")
    if candidate is None:
        raise NoChampionError(f"no policy has the alias candidate in {tracking.uri}: train one first (`respect train`)")
    mine, lost = _score(tracking, candidate, cases), ""
    example = cases[0].problem
    champion = ensure_champion(tracking, example.graph, example.num_stages)
    try:
        theirs = _score(tracking, champion, cases)
    except (InputFileError, OSError) as error:
        lost = f" (champion {champion} cannot be used any more: {error})"
        champion = _crown_shipped(tracking, example.graph, example.num_stages, champion)
        theirs = _score(tracking, champion, cases)
    whose = "the weights that come with the program" if SHIPPED_TAG in tracking.tags_of(champion) else "the champion"
    promoted, reason = _judge(mine, theirs, f"{whose} (version {champion})")
    decision = GateDecision(
        promoted=promoted,
        reason=reason + lost,
        candidate_version=candidate,
        champion_version=champion,
        candidate=mine,
        champion=theirs,
        evaluation_digest=evaluation_digest(cases),
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if promoted:
        tracking.promote(candidate, champion)
    tracking.tag_version(candidate, _tags(decision))  # last: what is judged is not judged again
    return decision


def _score(tracking: Tracking, version: str, cases: Sequence[EvaluationCase]) -> PolicyScore:
    return score_solver(PolicySolver.from_checkpoint(tracking.checkpoint_of(version)).bare(), cases)


def _judge(candidate: PolicyScore, champion: PolicyScore, whose: str) -> tuple[bool, str]:
    """Apply the gate's rule and say why."""
    if candidate.illegal:
        return False, f"{candidate.illegal} of {candidate.cases} problems got no legal schedule"
    if champion.illegal:
        return True, f"{champion.illegal} of {champion.cases} problems got no legal schedule from {whose}"
    compared = f"its mean gap of {candidate.mean_gap:.4%} against the {champion.mean_gap:.4%} of {whose}"
    if candidate.mean_gap <= champion.mean_gap:
        return True, f"no worse: {compared}"
    return False, f"worse: {compared}"


def _tags(decision: GateDecision) -> dict[str, str]:
    return {
        DECISION_TAG: "promoted" if decision.promoted else "rejected",
        "gate.reason": decision.reason,
        "gate.mean_gap": repr(decision.candidate.mean_gap),
        ILLEGAL_TAG: str(decision.candidate.illegal),
        "gate.cases": str(decision.candidate.cases),
        "gate.champion_version": decision.champion_version,
        "gate.champion_mean_gap": repr(decision.champion.mean_gap),
        "gate.champion_illegal": str(decision.champion.illegal),
        "gate.evaluation_digest": decision.evaluation_digest,
        "gate.decided_at": decision.decided_at,
    }
