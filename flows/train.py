"""Flow `train`: train the policy, register it, and promote it if it is no worse."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow, get_run_logger

from flows.label import ensure_labels
from respect_core.errors import QualityError
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.policy_gate import GateDecision
from tasks.progress import task_runner
from tasks.sizes import SizeName
from tasks.tracking import Tracking
from tasks.train import TrainedPolicy, judge_policy, train_policy, trained_before


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What the flow returns."""

    policy: TrainedPolicy
    decision: GateDecision | None
    """None where the policy had been trained and judged before."""
    champion: str
    """Version of the policy in use: this one, or one that is better."""


@flow(flow_run_name="train-{size}-s{seed}", task_runner=task_runner())
def train(size: SizeName = "smoke", seed: int = 0, home: str | None = None) -> TrainResult:
    """Train the policy on exact labels, log and register it, and promote it to champion if it is no worse.

    The first champion is the policy that comes with the program: where training made a worse one, that stays in use.

    Args:
        size: How long to train: smoke, nightly or full.
        seed: Seed of the training graphs and of the training.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        plan = RunPlan.of(size, seed)
        training, evaluation = plan.training, plan.labels_of(plan.evaluation_graphs)
        known = trained_before(at, training)
        if known is not None:
            log.info("policy version %s: trained on the same labels with the same settings, reused", known.version)
        if known is not None and known.judged is not None:
            _refuse_illegal(known.version, known.illegal)
            return TrainResult(policy=known, decision=None, champion=_champion(at))
        for labels in (training.labels, evaluation):
            ensure_labels(at, labels)
        policy = known or train_policy(at.path, training)
        decision = judge_policy(at.path, evaluation, policy.version)
        log.info("version %s: %s", policy.version, decision.reason)
        _refuse_illegal(policy.version, decision.candidate.illegal)
        return TrainResult(policy=policy, decision=decision, champion=_champion(at))


def _champion(home: Home) -> str:
    version = Tracking(home.path).version_of("champion")
    assert version is not None  # the gate has made sure of one
    return version


def _refuse_illegal(version: str, illegal: int) -> None:
    if illegal:
        why = f"version {version} made no legal schedule for {illegal} evaluation problems and was not promoted"
        raise QualityError("policy", [why])
