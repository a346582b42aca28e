"""Chains of down-sets, one a boundary: the compiled step from one level to the next, for every objective and rule.

A *state* is a down-set together with what implications must remember of the stages before it (a mask); without
implications there is one state a set. Values are either the largest stage cost so far or the sum of second components.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int
from respect_core.solve.exact_tensors import VaryingTensors

States = tuple[IntArray, IntArray, IntArray]
"""Set, mask and value of every state of a level, each of shape (states,)."""

Side = tuple[IntArray, IntArray, IntArray, IntArray]
"""Bits (sets, words), sums (sets, columns), weights and received (sets,) of the down-sets of one level."""

Rules = tuple[IntArray, IntArray]
"""Pairs to keep apart, as (bit, fixed stage) twice, shape (pairs, 4); implications as (bit, fixed stage, stage) twice,
shape (rules, 6). The bit is -1 for a node whose stage is fixed."""

NONE: Int = np.int64(2**62)


@compiled
def _in_stage(bit: Int, fixed: Int, stage: Int, before: IntArray, now: IntArray) -> bool:
    """Whether a node is in the stage between two down-sets."""
    if bit < 0:
        return bool(fixed == stage)
    one = np.int64(1) << (bit & 63)
    return bool(now[bit >> 6] & one != 0 and before[bit >> 6] & one == 0)


@compiled
def next_mask(rules: Rules, stage: Int, before: IntArray, now: IntArray, mask: Int) -> Int:
    """Return what implications remember after a stage, -1 if the stage breaks a rule.

    An implication whose premise comes first sets its bit with the premise and must be redeemed at the conclusion's
    stage; one whose conclusion comes first sets it with the conclusion and needs it at the premise's stage.
    """
    apart, implied = rules
    for r in range(apart.shape[0]):
        if _in_stage(apart[r, 0], apart[r, 1], stage, before, now) and _in_stage(
            apart[r, 2], apart[r, 3], stage, before, now
        ):
            return -1
    for r in range(implied.shape[0]):
        if_stage, then_stage = implied[r, 2], implied[r, 5]
        bit = np.int64(1) << r
        if stage == if_stage:
            premise = _in_stage(implied[r, 0], implied[r, 1], stage, before, now)
            if if_stage == then_stage:
                if premise and not _in_stage(implied[r, 3], implied[r, 4], stage, before, now):
                    return -1
            elif if_stage < then_stage:
                if premise:
                    mask |= bit
            elif premise and mask & bit == 0:
                return -1
            else:
                mask &= ~bit
        elif stage == then_stage:
            conclusion = _in_stage(implied[r, 3], implied[r, 4], stage, before, now)
            if if_stage < then_stage:
                if mask & bit != 0 and not conclusion:
                    return -1
                mask &= ~bit
            elif conclusion:
                mask |= bit
    return mask


@compiled
def _scaled_down(value: Int, num: Int, den: Int) -> Int:
    """Return ``value * num // den`` without overflow."""
    return value // den * num + value % den * num // den


@compiled
def live_tensors(
    stage: Int, bits: IntArray, tensors: VaryingTensors, fixed_reads: tuple[IntArray, IntArray], live: IntArray
) -> Int:
    """List the varying tensors that exist before a stage and are read in it or later; ``live`` is (m, 2).

    The second column tells whether a fixed reader is in this very stage.
    """
    maker_bit, maker_stage, readers, last_fixed, _ = tensors
    count = 0
    for t in range(maker_bit.size):
        bit = maker_bit[t]
        if bit >= 0:
            if (bits[bit >> 6] >> (bit & 63)) & 1 == 0:
                continue
        elif maker_stage[t] >= stage:
            continue
        read_later = last_fixed[t] >= stage
        if not read_later:
            for w in range(bits.size):
                if readers[t, w] & ~bits[w] != 0:
                    read_later = True
                    break
        if read_later:
            live[count, 0] = t
            live[count, 1] = 0
            for r in range(fixed_reads[0][t], fixed_reads[0][t + 1]):
                if fixed_reads[1][r] == stage:
                    live[count, 1] = 1
            count += 1
    return count


@compiled
def time_bound(stage: Int, i: Int, j: Int, previous: Side, current: Side, constants: IntArray, clock: IntArray) -> Int:
    """Return a quick lower bound of the time of the stage between two sets, huge where one is no subset.

    What crosses the later boundary but not the earlier one is sent; what crosses only the earlier one is received.
    """
    old, new = previous[1][i], current[1][j]
    for c in range(5):
        if new[c] < old[c]:
            return NONE
    room = max(0, min(clock[1], clock[2] - (constants[stage, 2] + new[4] - old[4])))
    spilled = max(0, new[1] - old[1] - room) + new[2] - old[2]
    moved = constants[stage, 0] + constants[stage, 1] + new[3] - old[3]
    moved += max(0, current[2][j] - previous[2][i])
    moved += max(0, previous[3][i] - current[3][j])
    return clock[0] + moved + max(new[0] - old[0], spilled)


@compiled
def stage_time(
    stage: Int,
    i: Int,
    j: Int,
    previous: Side,
    current: Side,
    live: IntArray,
    num_live: Int,
    tensors: VaryingTensors,
    constants: IntArray,
    clock: IntArray,
    limit: Int,
) -> Int:
    """Return the time of the stage between set i and set j; some number above ``limit`` if it is more than that."""
    maker_bit, maker_stage, readers, last_fixed, columns = tensors
    before, now = previous[0][i], current[0][j]
    old, new = previous[1][i], current[1][j]
    compute = new[0] - old[0]
    streaming = new[1] - old[1]
    always = new[2] - old[2]
    occupied = constants[stage, 2] + new[4] - old[4]
    moved = constants[stage, 0] + constants[stage, 1] + new[3] - old[3]
    room = max(0, min(clock[1], clock[2] - occupied))
    spilled = max(0, streaming - room) + always
    base = clock[0] + moved + compute
    if base + spilled - _scaled_down(min(compute, spilled), clock[3], clock[4]) > limit:
        return limit + 1
    moved += current[2][j]
    for at in range(num_live):
        t = live[at, 0]
        received = live[at, 1] != 0
        beyond = last_fixed[t] > stage
        for w in range(before.size):
            outside = readers[t, w] & ~before[w]
            received = received or outside & now[w] != 0
            beyond = beyond or outside & ~now[w] != 0
        if received:
            moved += columns[0, t]
            occupied += columns[2, t]
        if beyond and (maker_bit[t] >= 0 or maker_stage[t] >= 0):
            moved -= columns[1, t]
    room = max(0, min(clock[1], clock[2] - occupied))
    spilled = max(0, streaming - room) + always
    hidden = _scaled_down(min(compute, spilled), clock[3], clock[4])
    return clock[0] + moved + compute + spilled - hidden


@compiled
def extends(before: IntArray, now: IntArray, stage_is_filled: bool) -> bool:
    """Whether a set is a subset of another, with something between them."""
    differs = stage_is_filled
    for w in range(before.size):
        if before[w] & ~now[w] != 0:
            return False
        if before[w] != now[w]:
            differs = True
    return differs


@compiled
def relax(
    stage: Int,
    summing: bool,
    budget: Int,
    most: Int,
    previous: Side,
    states: States,
    current: Side,
    rest: IntArray,
    stage_is_filled: bool,
    tensors: VaryingTensors,
    fixed_reads: tuple[IntArray, IntArray],
    constants: IntArray,
    clock: IntArray,
    rules: Rules,
    stop: IntArray,
) -> States:
    """Find the states of the next level and their smallest values.

    Args:
        stage: The stage between the two levels.
        summing: Values are sums of second components, else largest stage costs.
        budget: Largest cost of a stage.
        most: Largest value of interest for a whole chain.
        previous: Sets of the level before.
        states: States of the level before.
        current: Sets of this level, by ascending first sum.
        rest: At least what each set's chain to the end still adds to the value. Shape (sets,).
        stage_is_filled: Some node is fixed to this stage, so it cannot be empty.
        tensors: Tensors that depend on the sets.
        fixed_reads: Stages of their fixed readers.
        constants: What all other tensors add.
        clock: Constants of the time model, shape (5,), or empty: then a stage costs its load, a boundary its weight.
        rules: Pairs to keep apart and implications, with bits of the universe.
        stop: Returns early (with nothing) once ``stop[0]`` is not 0.

    Returns:
        The states that something reaches; each has a value of at most ``most`` less the rest.
    """
    timed = clock.size > 0
    ruled = rules[0].size > 0 or rules[1].size > 0
    count = current[2].size
    capacity = count
    state_set, state_mask = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    value, following = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    head = np.full(count, -1, np.int64)
    num_states = 0
    live = np.empty((tensors[0].size, 2), np.int64)
    num_live = 0
    built_for = -1
    loads = current[1][:, 0].copy()
    for s in np.argsort(states[2], kind="mergesort"):
        if stop[0] != 0:
            return state_set[:0], state_mask[:0], value[:0]
        i, so_far = states[0][s], states[2][s]
        before = previous[0][i]
        lowest = previous[1][i, 0]
        for j in range(np.searchsorted(loads, lowest), np.searchsorted(loads, lowest + budget, side="right")):
            known = most - rest[j] + 1
            if not ruled and head[j] >= 0:
                known = min(known, value[head[j]])
            if so_far >= known:
                continue
            if not timed:
                step = current[1][j, 0] - lowest
                reached = so_far + current[2][j] if summing else max(so_far, step)
                if reached >= known:
                    continue
                if not extends(before, current[0][j], stage_is_filled):
                    continue
            else:
                limit = min(budget, known - 1 - so_far) if summing else min(budget, known - 1)
                if time_bound(stage, i, j, previous, current, constants, clock) > limit:
                    continue
                if not extends(before, current[0][j], stage_is_filled):
                    continue
                if built_for != i:
                    num_live = live_tensors(stage, before, tensors, fixed_reads, live)
                    built_for = i
                step = stage_time(stage, i, j, previous, current, live, num_live, tensors, constants, clock, limit)
                if step > limit:
                    continue
                reached = so_far + step if summing else max(so_far, step)
            mask = np.int64(0)
            if ruled:
                mask = next_mask(rules, stage, before, current[0][j], states[1][s])
                if mask < 0:
                    continue
            at = head[j]
            while at >= 0 and state_mask[at] != mask:
                at = following[at]
            if at >= 0:
                value[at] = min(value[at], reached)
                continue
            if num_states == capacity:
                capacity *= 2
                state_set, state_mask = _grown(state_set, capacity), _grown(state_mask, capacity)
                value, following = _grown(value, capacity), _grown(following, capacity)
            state_set[num_states], state_mask[num_states] = j, mask
            value[num_states], following[num_states] = reached, head[j]
            head[j] = num_states
            num_states += 1
    return state_set[:num_states].copy(), state_mask[:num_states].copy(), value[:num_states].copy()


@compiled
def _grown(array: IntArray, size: Int) -> IntArray:
    out = np.empty(size, np.int64)
    out[: array.size] = array
    return out
