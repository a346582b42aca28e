"""The learned solvers: a network's scores or orders, the optimal split, and the local search on top. No torch here."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from respect_core.errors import InputFileError
from respect_core.graph import FloatArray, IntArray
from respect_core.policy.checkpoint import Checkpoint, architecture_of, read_checkpoint
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import PointerDecoder
from respect_core.policy.scoring import GREEDY_BUDGETS, BudgetPath, Scorer, made_bytes_of, shared_out
from respect_core.solve.local_search_graph import turned_round
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.split import Splitter

PRETRAINED_NAME: Final = "pretrained.safetensors"
"""The weights that come with the program."""

POINTER_NAME: Final = "pointer.safetensors"
"""The pointer network's weights that come with the program."""

NUM_PLAIN: Final = 8
"""Starts from fit orders before the network is asked: its budgets then lie below a good incumbent."""

MOST_SAMPLES: Final = 96
"""Starts from orders that follow the scores; `samples_for` makes fewer on large graphs."""

TEMPERATURE: Final = 1.5
"""Weight of the noise in the scores."""

TINY: Final = 8

_NO_SPLIT = "no contiguous split of the policy's orders obeys the constraints; the solvers exact and ilp search further"


class PolicySolver:
    """Schedules with a trained network, under any objective and constraints.

    A message-passing network scores every op in one pass. Orders that follow the scores, greedily under eight budgets
    and sampled, are split optimally and improved by set moves; the best is kept, simple and fit orders among them. A
    pointer network decodes whole orders, whose best split is kept.

    Args:
        checkpoint: The network.
        num_samples: Starts from orders that follow the scores; `samples_for` the graph if None.
        temperature: Weight of the noise in the scores.
        bare: Schedule by the network alone: greedy orders, no simple ones, no local search.
    """

    name = "policy"

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        num_samples: int | None = None,
        temperature: float = TEMPERATURE,
        bare: bool = False,
    ) -> None:
        self.version = checkpoint.version
        self.checkpoint = checkpoint
        self._num_samples, self._temperature, self._bare = num_samples, temperature, bare
        config = checkpoint.config
        self._decoder = PointerDecoder(config, checkpoint.weights) if isinstance(config, PointerConfig) else None
        self._scorer = None if isinstance(config, PointerConfig) else Scorer(config, checkpoint.weights)

    @classmethod
    def from_checkpoint(cls, path: str | Path) -> PolicySolver:
        """Open a checkpoint file.

        Raises:
            InputFileError: It cannot be used as one; the message says why.
        """
        return cls(read_checkpoint(path))

    @classmethod
    def pretrained(cls) -> PolicySolver:
        """Open the weights that come with the program; the version says so."""
        solver = cls.from_checkpoint(cls._shipped())
        solver.version = f"{solver.version} (the weights that come with the program)"
        return solver

    @classmethod
    def _shipped(cls) -> Path:
        return pretrained_path()

    def bare(self) -> PolicySolver:
        """Return this policy as its network alone makes schedules: greedy orders, no simple ones, no local search."""
        return type(self)(self.checkpoint, bare=True)

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the best schedule: `feasible`, or `timeout` where no contiguous split of the orders is legal.

        The seconds run from the graph's features to the schedule. The first start is made whatever the time limit.
        """
        if problem.objective == "throughput":
            _ = problem.terms  # a part of the problem, not of solving it
        watch = Stopwatch(options.time_limit_s)
        stage_of = self._decoded(problem) if self._scorer is None else self._searched(problem, options, watch)
        return result_of(
            self,
            problem,
            stage_of,
            status="timeout" if stage_of is None else "feasible",
            solve_seconds=watch.seconds,
            message=_NO_SPLIT if stage_of is None else "",
        )

    def _searched(self, problem: Problem, options: SolveOptions, watch: Stopwatch) -> IntArray | None:
        assert self._scorer is not None
        search = LocalSearch(problem, options.seed)
        made, shares, path = made_bytes_of(problem.graph), profile_shares(search), BudgetPath(search.bound)
        if self._bare:
            counts = [1] * GREEDY_BUDGETS
        else:
            search.advance(Starts(fit=NUM_PLAIN), watch)
            n = problem.graph.num_ops
            counts = list(shared_out(self._num_samples or samples_for(n), passes_for(n)))
        for step, count in enumerate(counts):
            peak = search.peak
            done = watch.left == 0 or (peak is not None and peak <= search.bound)
            # Tiny graphs are solved before, but what is warmed up with one shall know the network's code too.
            if done and search.starts_made and (step or problem.graph.num_ops > TINY):
                break
            budget = path.next_greedy(step, peak) if self._bare else path.next(step, peak)
            backwards = step % 2 == 1
            arrays = turned_round(search.arrays) if backwards else search.arrays
            scores = self._scorer.scores(arrays, made, problem.num_stages, budget, shares)
            search.advance(
                Starts(
                    greedy=(budget,),
                    scored=count - 1,
                    scores=scores,
                    temperature=self._temperature,
                    backwards=backwards,
                    simple=False,
                    improve=not self._bare,
                ),
                watch,
            )
        return search.best(watch, polish=not self._bare)

    def _decoded(self, problem: Problem) -> IntArray | None:
        assert self._decoder is not None
        splitter = Splitter(problem)
        splits = [splitter.split(order) for order in self._decoder.orders(problem.graph, problem.num_stages)]
        legal = [stages for stages in splits if stages is not None]
        return min(legal, key=lambda stages: problem.value(problem.evaluate(stages)), default=None)


class PointerSolver(PolicySolver):
    """RESPECT's network: greedy orders, split optimally.

    Raises:
        InputFileError: A checkpoint of another architecture.
    """

    name = "pointer"

    def __init__(self, checkpoint: Checkpoint, *, bare: bool = False) -> None:
        super().__init__(checkpoint, bare=bare)
        if not isinstance(checkpoint.config, PointerConfig):
            raise InputFileError(
                checkpoint.version, f"architecture {architecture_of(checkpoint.config)!r}, the solver needs 'pointer'"
            )

    @classmethod
    def _shipped(cls) -> Path:
        return pointer_path()


def samples_for(num_ops: int) -> int:
    """Return how many orders are sampled: a start takes time in proportion to the graph."""
    return max(24, min(MOST_SAMPLES, 10_000 // num_ops))


def passes_for(num_ops: int) -> int:
    """Return how many budgets the network is asked for: one on large graphs, where a pass costs many starts."""
    return max(1, min(2, 480 // num_ops))


def pretrained_path() -> Path:
    """Return the file of the weights that come with the program."""
    return Path(str(resources.files("respect_core.policy") / PRETRAINED_NAME))


def pointer_path() -> Path:
    """Return the file of the pointer network's weights that come with the program."""
    return Path(str(resources.files("respect_core.policy") / POINTER_NAME))


def profile_shares(search: LocalSearch) -> FloatArray:
    """Return what the device costs, for `problem_globals`; zeros where the objective knows no device. Shape (4,)."""
    problem = search.problem
    if problem.objective != "throughput":
        return np.zeros(4)
    terms = problem.terms
    each = problem.num_stages * search.bound
    return np.array(
        [
            1.0,
            terms.overhead_ns / search.bound,
            float(terms.input_ns.sum() + terms.output_ns.sum()) / each,
            float(terms.streaming_ns.sum()) / each,
        ]
    )
