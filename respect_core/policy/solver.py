"""The learned solver: greedy decodes by the pointer network and the optimal contiguous split of their orders."""

from __future__ import annotations

from pathlib import Path

from respect_core.policy.checkpoint import Checkpoint, read_checkpoint
from respect_core.policy.decode import PointerDecoder
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.split import Splitter

_NO_SPLIT = "no contiguous split of the policy's orders obeys the constraints; the solvers exact and ilp search further"


class PolicySolver:
    """Schedules with a trained policy, under any objective and constraints; it needs no torch."""

    name = "policy"

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.version = checkpoint.version
        self._decoder = PointerDecoder(checkpoint.config, checkpoint.weights)

    @classmethod
    def from_checkpoint(cls, path: str | Path) -> PolicySolver:
        """Open a checkpoint file.

        Raises:
            InputFileError: It cannot be used as one; the message says why.
        """
        return cls(read_checkpoint(path))

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the policy's best schedule: `feasible`, or `timeout` where no contiguous split of its orders is legal.

        The seconds run from the graph's features to the schedule. All orders are decoded whatever the time limit: that
        takes a fraction of a second on the largest networks.
        """
        watch = Stopwatch(options.time_limit_s)
        splitter = Splitter(problem)
        splits = [splitter.split(order) for order in self._decoder.orders(problem.graph, problem.num_stages)]
        legal = [stages for stages in splits if stages is not None]
        stage_of = min(legal, key=lambda stages: problem.value(problem.evaluate(stages)), default=None)
        return result_of(
            self,
            problem,
            stage_of,
            status="timeout" if stage_of is None else "feasible",
            solve_seconds=watch.seconds,
            message=_NO_SPLIT if stage_of is None else "",
        )
