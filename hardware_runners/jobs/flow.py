"""Whether the segments of a job chain, and suit pycoral's pipeline where the job says so."""

from __future__ import annotations

from typing import Dict, Optional

from hardware_runners.errors import InvalidJobError
from hardware_runners.jobs.format import Job, TensorSpec


def check_flow(job: Job) -> None:
    """Check that every tensor a segment reads is given to the model or made by an earlier segment, as it is read.

    Where the job claims to suit pycoral's pipeline, also what that needs: every input of the model that is read at all
    is read by the first segment, everything that another segment than the last makes is read later on, and the last
    one makes all outputs. An output that nobody takes would abort the process.

    Args:
        job: A job with a whole model and segments.

    Raises:
        InvalidJobError: They do not; stage and tensor are named.
    """
    if job.whole is None:
        return
    known: Dict[str, TensorSpec] = {spec.name: spec for spec in job.whole.inputs}
    given = set(known)
    made_in: Dict[str, int] = {}
    for stage, segment in enumerate(job.segments):
        for spec in segment.inputs:
            _check_same(job, stage, known.get(spec.name), spec, "reads")
        passed_on = given & {spec.name for spec in segment.inputs}
        for spec in segment.outputs:
            if spec.name in passed_on:
                _check_same(job, stage, known[spec.name], spec, "passes on")
            elif spec.name in known:
                maker = f"stage {made_in[spec.name]} makes too" if spec.name in made_in else "is an input of the model"
                raise InvalidJobError(job.folder, f"it makes tensor {spec.name!r}, which {maker}", stage)
            known[spec.name] = spec
            made_in[spec.name] = stage
    for spec in job.whole.outputs:
        _check_same(job, None, known.get(spec.name), spec, "gives")
    if job.suits_pipeline:
        _check_pipeline(job, made_in)


def _check_same(job: Job, stage: Optional[int], known: Optional[TensorSpec], spec: TensorSpec, verb: str) -> None:
    who = "it" if stage is not None else "the model"
    if known is None:
        by = "no earlier segment" if stage is not None else "no segment"
        raise InvalidJobError(
            job.folder, f"{who} {verb} tensor {spec.name!r}, which {by} makes and is no input of the model", stage
        )
    if known != spec:
        raise InvalidJobError(
            job.folder,
            f"{who} {verb} tensor {spec.name!r} as {spec.dtype} {list(spec.shape)}, "
            f"made as {known.dtype} {list(known.shape)}",
            stage,
        )


def _check_pipeline(job: Job, made_in: Dict[str, int]) -> None:
    last = job.num_stages - 1
    first_inputs = {spec.name for spec in job.segments[0].inputs}
    read_in = {spec.name: stage for stage, segment in enumerate(job.segments) for spec in segment.inputs}
    for name, stage in read_in.items():
        if name not in made_in and name not in first_inputs:
            raise InvalidJobError(
                job.folder,
                f"it suits no pipeline: it reads the model's input {name!r}, which stage 0 does not read",
                stage,
            )
    outputs = {spec.name for spec in job.whole.outputs} if job.whole else set()
    model_inputs = {spec.name for spec in job.whole.inputs} if job.whole else set()
    for stage, segment in enumerate(job.segments):
        if not segment.outputs:
            raise InvalidJobError(job.folder, "it suits no pipeline: it has no outputs", stage)
    for name, stage in made_in.items():
        if stage == last or name in model_inputs:
            continue
        if name in outputs:
            raise InvalidJobError(
                job.folder,
                f"it suits no pipeline: it makes the model's output {name!r}, which stage {last} must make",
                stage,
            )
        if read_in.get(name, -1) <= stage:
            raise InvalidJobError(
                job.folder, f"it suits no pipeline: no later segment reads its output {name!r}", stage
            )
