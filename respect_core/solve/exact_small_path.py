"""The second half of `exact_small`: least communication within the optimal peak, and the canonical schedule."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, IntArray
from respect_core.solve.downsets import Int, lowest_bit, word_sum
from respect_core.solve.exact_small import Crossing, Level, Poset, full_word, renumbered, sort_part

FEW_SETS = 400
"""With more down-sets of the ops with parameters, only those that little crosses are listed at first."""

Useful = tuple[IntArray, IntArray, IntArray]
"""Words, loads and where each level starts."""

_NONE: Int = np.int64(2**62)


@compiled
def sure_crossing(chosen: Int, barred: Int, tensors: Crossing) -> Int:
    """Bytes of the tensors made by chosen ops that some barred op reads."""
    makers, readers, tensor_bytes = tensors
    total = 0
    for t in range(makers.size):
        if chosen & makers[t] != 0 and readers[t] & barred != 0:
            total += tensor_bytes[t]
    return total


@compiled
def _list_around(
    poset: Poset,
    loaded: Int,
    all_loaded: Int,
    load: Int,
    tensors: Crossing,
    cap: Int,
    stack: IntArray,
    level: Level,
    start: Int,
) -> Int:
    """List the down-sets that hold the ops ``loaded`` of those with parameters and that at most ``cap`` crosses.

    Returns:
        The end of what was written to ``level``; -1 where it is too short.
    """  # fmt: skip
    before, after = poset[0], poset[1]
    bits, loads, weights = level[0], level[1], level[3]
    everything = full_word(before.size)
    chosen, barred = np.int64(0), np.int64(0)
    rest = loaded
    while rest != 0:
        chosen |= before[lowest_bit(rest)]
        rest &= rest - 1
    rest = all_loaded & ~loaded
    while rest != 0:
        barred |= after[lowest_bit(rest)]
        rest &= rest - 1
    stack[0, 0], stack[0, 1] = chosen, everything & ~chosen & ~barred
    depth = 1
    end = start
    while depth > 0:
        depth -= 1
        chosen, free = stack[depth, 0], stack[depth, 1]
        while free != 0:
            if sure_crossing(chosen, everything & ~(chosen | free), tensors) > cap:
                break
            v = lowest_bit(free)
            stack[depth, 0], stack[depth, 1] = chosen, free & ~after[v]
            depth += 1
            chosen |= before[v] & free
            free &= ~before[v]
        if free != 0:
            continue
        crossing = sure_crossing(chosen, everything & ~chosen, tensors)
        if crossing > cap:
            continue
        if end >= bits.size:
            return -1
        bits[end], loads[end], weights[end] = chosen, load, crossing
        end += 1
    return end


@compiled
def _list_all(
    poset: Poset,
    useful: Useful,
    all_loaded: Int,
    tensors: Crossing,
    caps: IntArray,
    stack: IntArray,
    level: Level,
    ends: IntArray,
    smallest: IntArray,
) -> Int:
    """List the down-sets of all levels that at most ``caps[k]`` crosses, sorted by that less the level's ``smallest``.

    Returns:
        The sum of the smallest; -1 where ``level`` is too short, -2 where a level has no set within the cap.
    """  # fmt: skip
    bits, loads, weights = level[0], level[1], level[3]
    words, sums, starts = useful
    bits[0] = loads[0] = weights[0] = 0
    ends[0], ends[1] = 0, 1
    base = 0
    for k in range(1, starts.size - 1):
        first = ends[k]
        last = first
        for i in range(starts[k], starts[k + 1]):
            last = _list_around(poset, words[i], all_loaded, sums[i], tensors, caps[k], stack, level, last)
            if last < 0:
                return -1
        if last == first:
            return -2
        ends[k + 1] = last
        sort_part(weights[first:last].copy(), first, last, level)
        least = weights[first]
        smallest[k] = least
        base += least
        for j in range(first, last):
            weights[j] -= least
    return base


@compiled
def _fits(i: Int, word: Int, load: Int, budget: Int, level: Level) -> bool:
    """Whether set i can be followed by a stage that completes it to ``word``."""
    bits, loads = level[0], level[1]
    return bool(bits[i] & ~word == 0 and bits[i] != word and load - loads[i] <= budget)


@compiled
def _cheapest_chain(
    level: Level, ends: IntArray, full: Int, budget: Int, total: Int, slack: Int, order: IntArray, tops: IntArray
) -> Int:
    """Find the least sum of weights of a chain, at most ``slack``, on levels sorted by weight.

    Fills in the costs of the sets that matter, their number ``tops[k]`` on each level and their ``order`` by cost.
    """
    bits, loads, weights, costs = level[0], level[1], level[3], level[4]
    num_stages = tops.size
    costs[0] = order[0] = 0
    tops[0] = 1
    for k in range(1, num_stages + 1):
        # What the level before offers, by ascending cost, side by side: the first that fits is the best.
        size = tops[k - 1]
        old = order[ends[k - 1] : ends[k - 1] + size]
        old_bits, old_loads, old_costs = bits[old], loads[old], costs[old]
        if k == num_stages:
            for at in range(size):
                if old_costs[at] > slack:
                    break
                if old_bits[at] != full and total - old_loads[at] <= budget:
                    return old_costs[at]
            return _NONE
        first = ends[k]
        count = 0
        for j in range(first, ends[k + 1]):
            most = slack - weights[j]
            if most < 0:
                break
            missing, lowest = ~bits[j], loads[j] - budget
            for at in range(size):
                if old_costs[at] > most:
                    break
                if old_bits[at] & missing == 0 and old_loads[at] >= lowest and old_bits[at] != bits[j]:
                    costs[j] = weights[j] + old_costs[at]
                    order[first + count] = j
                    count += 1
                    break
        chosen = order[first : first + count].copy()
        order[first : first + count] = chosen[np.argsort(costs[chosen])]
        tops[k] = count
    return _NONE


@compiled
def _goes_first(a: Int, b: Int, previous: IntArray, words: IntArray) -> bool:
    """Whether the chain of sets that ends in ``a`` gives a lexicographically smaller stage vector than ``b``'s."""
    differing: Int = np.int64(0)
    i: Int = a
    j: Int = b
    while i != j:
        differing |= words[i] ^ words[j]
        i, j = previous[i], previous[j]
    if differing == 0:
        return False
    bit: Int = np.int64(1) << lowest_bit(differing)
    first = False
    i, j = a, b
    while i != j:  # the chain that holds the first differing op at the earliest level has the smaller stage
        if (words[i] ^ words[j]) & bit != 0:
            first = words[i] & bit != 0
        i, j = previous[i], previous[j]
    return first


@compiled
def _mark(level: Level, part: IntArray, word: Int, load: Int, need: Int, budget: Int, marked: BoolArray) -> None:
    """Mark the listed sets that cost exactly ``need`` and fit before ``word``."""
    costs = level[4]
    for i in part[np.searchsorted(costs[part], need) :]:
        if costs[i] != need:
            break
        if _fits(i, word, load, budget, level):
            marked[i] = True


@compiled
def _smallest_chain(
    level: Level, part: IntArray, word: Int, load: Int, need: Int, budget: Int, marked: BoolArray, previous: IntArray
) -> Int:
    """Return the marked set of cost ``need`` before ``word`` whose chain of sets gives the smallest stage vector."""
    costs, words = level[4], level[2]
    best = -1
    for i in part[np.searchsorted(costs[part], need) :]:
        if costs[i] != need:
            break
        if marked[i] and _fits(i, word, load, budget, level) and (best < 0 or _goes_first(i, best, previous, words)):
            best = i
    return best


@compiled
def least_communication(
    poset: Poset,
    useful: Useful,
    all_loaded: Int,
    num_stages: Int,
    budget: Int,
    tensors: Crossing,
    op_of: IntArray,
    stack: IntArray,
    level: Level,
    stage_of: IntArray,
) -> Int:
    """Find the least communication within the budget and the canonical schedule that attains it.

    Args:
        poset: The order of all ops.
        useful: Down-sets of the ops with parameters that lie on a chain within the budget.
        all_loaded: All ops with parameters.
        num_stages: K.
        budget: The optimal peak.
        tensors: Maker and readers (words in the numbering of ``poset``) and bytes of every tensor.
        op_of: Op of every bit. Shape (n,).
        stack: Scratch, see `list_level`.
        level: Scratch.
        stage_of: Written to: the lexicographically smallest optimal stage vector. Shape (n,).

    Returns:
        The communication in bytes; -1 if the scratch is too short, -2 if no schedule without empty stages stays within
        the budget.
    """
    n = op_of.size
    bits, loads, words, weights, costs = level
    full = full_word(n)
    stage_of[:] = num_stages - 1
    if num_stages == 1:
        return 0
    total = word_sum(full, poset[3], 0, 8)
    ends = np.empty(num_stages + 1, np.int64)
    tops = np.empty(num_stages, np.int64)
    most = tensors[2].sum()
    caps = np.full(num_stages, most if useful[0].size <= FEW_SETS else most // 8)
    smallest = np.zeros(num_stages, np.int64)
    base, least = np.int64(0), _NONE
    order = np.empty(0, np.int64)
    while True:
        base = _list_all(poset, useful, all_loaded, tensors, caps, stack, level, ends, smallest)
        if base == -1:
            return -1
        is_all = caps[1:].min() >= most
        if base == -2:
            if is_all:
                return -2
            caps = np.minimum(2 * caps + 1, most)
            continue
        # A chain whose sum exceeds that of the levels' smallest by some slack only uses sets that exceed their level's
        # smallest by no more.
        slack = most * num_stages if is_all else (caps[1:] - smallest[1:]).min()
        order = np.empty(ends[num_stages], np.int64)
        least = _cheapest_chain(level, ends, full, budget, total, slack, order, tops)
        if least < _NONE:
            break
        if is_all:
            return -2
        caps = np.minimum(smallest + 2 * slack + 1, most)

    marked = np.zeros(ends[num_stages], np.bool_)
    previous = np.zeros(ends[num_stages], np.int64)
    last = ends[num_stages - 1]
    _mark(level, order[last : last + tops[num_stages - 1]], full, total, least, budget, marked)
    for k in range(num_stages - 1, 1, -1):
        below = order[ends[k - 1] : ends[k - 1] + tops[k - 1]]
        for j in order[ends[k] : ends[k] + tops[k]]:
            if marked[j]:
                _mark(level, below, bits[j], loads[j], costs[j] - weights[j], budget, marked)
    words[0] = 0
    for k in range(1, num_stages):
        below = order[ends[k - 1] : ends[k - 1] + tops[k - 1]]
        for j in order[ends[k] : ends[k] + tops[k]]:
            if marked[j]:
                words[j] = renumbered(bits[j], op_of)
                if k > 1:
                    need = costs[j] - weights[j]
                    previous[j] = _smallest_chain(level, below, bits[j], loads[j], need, budget, marked, previous)
    part = order[last : last + tops[num_stages - 1]]
    at = _smallest_chain(level, part, full, total, least, budget, marked, previous)
    for k in range(num_stages - 1, 0, -1):
        rest = words[at]
        while rest != 0:
            stage_of[lowest_bit(rest)] = k - 1
            rest &= rest - 1
        at = previous[at]
    return base + least
