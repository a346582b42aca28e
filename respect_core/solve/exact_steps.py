"""Steps between down-sets that lie on optimal chains, and the smallest stage vector among those chains."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, IntArray
from respect_core.solve.downsets import Int
from respect_core.solve.exact_chains import (
    Rules,
    Side,
    States,
    extends,
    live_tensors,
    next_mask,
    stage_time,
    time_bound,
)
from respect_core.solve.exact_tensors import VaryingTensors


@compiled
def tight_steps(
    stage: Int,
    summing: bool,
    budget: Int,
    previous: Side,
    states: States,
    current: Side,
    next_states: States,
    marked: BoolArray,
    stage_is_filled: bool,
    tensors: VaryingTensors,
    fixed_reads: tuple[IntArray, IntArray],
    constants: IntArray,
    clock: IntArray,
    rules: Rules,
    max_steps: Int,
    stop: IntArray,
) -> tuple[bool, IntArray, BoolArray]:
    """List the steps between states that lie on a chain of least sum (or, not ``summing``, of any one within budget).

    Args:
        stage: The stage between the two levels.
        summing: Values are sums of second components, else largest stage costs.
        budget: Largest cost of a stage.
        previous: Sets of the level before.
        states: States of the level before.
        current: Sets of this level.
        next_states: States of this level.
        marked: Which of these lie on such a chain. Shape (next states,).
        stage_is_filled: Some node is fixed to this stage, so it cannot be empty.
        tensors: Tensors that depend on the sets.
        fixed_reads: Stages of their fixed readers.
        constants: What all other tensors add.
        clock: Constants of the time model, or empty.
        rules: Pairs to keep apart and implications.
        max_steps: Give up beyond this many.
        stop: Give up once ``stop[0]`` is not 0.

    Returns:
        Whether all were listed; the steps as (state, next state), shape (steps, 2), by next state for each state; and
        which states lie on such a chain.
    """
    timed = clock.size > 0
    ruled = rules[0].size > 0 or rules[1].size > 0
    steps = np.empty((min(256, max_steps), 2), np.int64)
    count = 0
    reaches = np.zeros(states[0].size, np.bool_)
    live = np.empty((tensors[0].size, 2), np.int64)
    num_live = 0
    built_for = -1
    targets = np.flatnonzero(marked)
    for s in range(states[0].size):
        if stop[0] != 0:
            return False, steps[:count], reaches
        i, so_far = states[0][s], states[2][s]
        before = previous[0][i]
        for target in targets:
            j = next_states[0][target]
            need = next_states[2][target] - so_far if summing else budget
            if summing and (need < 0 or (not timed and need != current[2][j])):
                continue
            if not summing and so_far > budget:
                continue
            if not timed and current[1][j, 0] - previous[1][i, 0] > budget:
                continue
            if timed and (need > budget or time_bound(stage, i, j, previous, current, constants, clock) > need):
                continue
            if not extends(before, current[0][j], stage_is_filled):
                continue
            if timed:
                if built_for != i:
                    num_live = live_tensors(stage, before, tensors, fixed_reads, live)
                    built_for = i
                step = stage_time(stage, i, j, previous, current, live, num_live, tensors, constants, clock, need)
                if step > need or (summing and step != need):
                    continue
            if ruled and next_mask(rules, stage, before, current[0][j], states[1][s]) != next_states[1][target]:
                continue
            if count == steps.shape[0]:
                if count >= max_steps:
                    return False, steps, reaches
                larger = np.empty((min(4 * count, max_steps), 2), np.int64)
                larger[:count] = steps
                steps = larger
            steps[count, 0], steps[count, 1] = s, target
            count += 1
            reaches[s] = True
    return True, steps[:count], reaches


@compiled
def smallest_vectors(
    stage: Int,
    num_stages: Int,
    steps: IntArray,
    vectors: IntArray,
    num_states: Int,
    state_set: IntArray,
    bits: IntArray,
    bit_order: IntArray,
) -> tuple[IntArray, IntArray]:
    """Extend the lexicographically smallest stage vectors by one stage.

    Args:
        stage: The stage between the two levels.
        num_stages: K, which stands for "not placed yet".
        steps: (state, next state) pairs to choose from. Shape (steps, 2).
        vectors: Smallest vector of each state before, over the universe in the order of comparison. (states, u).
        num_states: Number of next states.
        state_set: Set of each next state.
        bits: Bits of this level's sets. Shape (sets, words).
        bit_order: Bit of the universe at each place of the order of comparison. Shape (u,).

    Returns:
        The vectors of the next states, and the state each came from (-1: none).
    """
    u = bit_order.size
    came_from = np.full(num_states, -1, np.int64)
    for at in range(steps.shape[0]):
        s, target = steps[at, 0], steps[at, 1]
        rival = came_from[target]
        if rival < 0:
            came_from[target] = s
            continue
        for place in range(u):
            mine, theirs = min(vectors[s, place], stage), min(vectors[rival, place], stage)
            if mine != theirs:
                if mine < theirs:
                    came_from[target] = s
                break
    out = np.full((num_states, u), num_stages, np.int64)
    for target in range(num_states):
        s = came_from[target]
        if s >= 0:
            j = state_set[target]
            for place in range(u):
                bit = bit_order[place]
                if (bits[j, bit >> 6] >> (bit & 63)) & 1:
                    out[target, place] = min(vectors[s, place], stage)
    return out, came_from
