"""Compiled loops of the pointer network: the recurrent reading of a graph, and the greedy decode.

Matrices stand transposed, (inputs, outputs), so that a product adds scaled rows: it needs no horizontal sums, and its
order of summation is the same on every machine. They are float32, or 16-bit whole numbers with a power of two as their
common scale; products with either are equal where the scaled numbers are, since scaling by a power of two is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.policy.encoding import FILLED_RATES, FILLED_WEIGHT

Float32Array = NDArray[np.float32]
Matrix = NDArray[np.float32] | NDArray[np.int16]

_ONE, _TWO, _HALF, _QUARTER = np.float32(1), np.float32(2), np.float32(0.5), np.float32(0.25)
_EDGE = np.float32(2.25)
_P0, _P1, _P2 = np.float32(135135), np.float32(17325), np.float32(378)
_Q0, _Q1, _Q2, _Q3 = np.float32(135135), np.float32(62370), np.float32(3150), np.float32(28)
_ZERO = np.float32(0)
_RATES, _WEIGHT = np.array(FILLED_RATES, dtype=np.float32), np.float32(FILLED_WEIGHT)


@compiled
def tanh(x: np.float32) -> np.float32:
    """Return the hyperbolic tangent in float32, off by less than 3e-7, in operations that fill vector registers.

    Lambert's continued fraction up to 13, of a quarter of x; then twice tanh(2 y) = 2 t / (1 + t^2), on numerator and
    denominator, which leaves one division. Beyond 9 the tangent is 1 in float32.
    """
    y = _QUARTER * x
    y = y if y < _EDGE else _EDGE
    y = y if y > -_EDGE else -_EDGE
    s = y * y
    p = y * (_P0 + s * (_P1 + s * (_P2 + s)))
    q = _Q0 + s * (_Q1 + s * (_Q2 + s * _Q3))
    p, q = _TWO * p * q, p * p + q * q
    return _TWO * p * q / (p * p + q * q)


@compiled
def add_product(matrix: Matrix, scale: np.float32, vector: Float32Array, out: Float32Array) -> None:
    """Add a scaled matrix (H, m) times a vector (H,) to ``out`` (m,)."""
    height, width = matrix.shape
    whole = height - height % 4
    for j in range(0, whole, 4):
        a, b, c, d = scale * vector[j], scale * vector[j + 1], scale * vector[j + 2], scale * vector[j + 3]
        for i in range(width):
            out[i] += (np.float32(matrix[j, i]) * a + np.float32(matrix[j + 1, i]) * b) + (
                np.float32(matrix[j + 2, i]) * c + np.float32(matrix[j + 3, i]) * d
            )
    for j in range(whole, height):
        a = scale * vector[j]
        for i in range(width):
            out[i] += np.float32(matrix[j, i]) * a


@compiled
def advance(gates: Float32Array, hidden: Float32Array, cell: Float32Array) -> None:
    """Replace hidden and cell state (H,) by the next ones, for the summed gates (4H,): enter, forget, new, leave."""
    size = cell.size
    for i in range(size):  # sigmoid(x) = (1 + tanh(x / 2)) / 2
        enter = _HALF + _HALF * tanh(_HALF * gates[i])
        forget = _HALF + _HALF * tanh(_HALF * gates[size + i])
        leave = _HALF + _HALF * tanh(_HALF * gates[3 * size + i])
        state = forget * cell[i] + enter * tanh(gates[2 * size + i])
        cell[i] = state
        hidden[i] = leave * tanh(state)


@compiled
def read_in_order(gates: Float32Array, recurrent: Matrix, scale: np.float32, read: Float32Array) -> Float32Array:
    """Run the encoder over the inputs' shares of its gates (n, 4H), which are overwritten.

    Args:
        gates: See above.
        recurrent: Shape (H, 4H).
        scale: Of ``recurrent``.
        read: Written to: the hidden state after every op. Shape (n, H).

    Returns:
        The last cell state. Shape (H,).
    """
    n, size = read.shape
    hidden, cell = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for i in range(n):
        add_product(recurrent, scale, hidden, gates[i])
        advance(gates[i], hidden, cell)
        read[i] = hidden
    return cell


@compiled
def _scores(
    query: Float32Array, refs: Float32Array, rows: IntArray, shares: Float32Array, v: Float32Array, out: Float32Array
) -> None:
    """Score the ops in ``rows``: v . tanh(query + ref + share of the op)."""
    size = query.size
    terms = np.empty(size, np.float32)
    for r in range(rows.size):
        ref = refs[rows[r]]
        if shares.shape[0]:
            for i in range(size):
                terms[i] = v[i] * tanh(query[i] + ref[i] + shares[r, i])
        else:
            for i in range(size):
                terms[i] = v[i] * tanh(query[i] + ref[i])
        total = 0.0
        for i in range(size):
            total += terms[i]
        out[r] = total


@compiled
def _fitting(
    ready: IntArray, num_ready: int, param_bytes: IntArray, filled: int, budget: int, allowed: IntArray
) -> int:
    """Write the ready rows that fit into the stage to ``allowed``, all of them where none does; return how many."""
    count = 0
    for i in range(num_ready):
        if budget < 0 or filled + param_bytes[ready[i]] <= budget:
            allowed[count] = ready[i]
            count += 1
    if count == 0:
        allowed[:num_ready] = ready[:num_ready]
        count = num_ready
    return count


@compiled
def _shares(
    rows: IntArray, param_bytes: IntArray, filled: int, budget: int, budget_weight: Float32Array
) -> Float32Array:
    """Return what the budget adds to the pointer's refs of some rows. Shape (r, H), or (0, H) without a budget."""
    size = budget_weight.shape[1]
    if budget < 0:
        return np.empty((0, size), np.float32)
    shares = np.empty((rows.size, size), np.float32)
    for r in range(rows.size):
        own = np.float32(param_bytes[rows[r]] / max(1, budget))
        together = np.float32((param_bytes[rows[r]] + filled) / max(1, budget))
        room = max(_ZERO, _ONE - together)
        for i in range(size):
            shares[r, i] = own * budget_weight[0, i] + together * budget_weight[1, i]
        for k in range(_RATES.size):
            filled_up = _WEIGHT * np.exp(-_RATES[k] * room)
            for i in range(size):
                shares[r, i] += filled_up * budget_weight[2 + k, i]
    return shares


@compiled
def _glimpse(scores: Float32Array, refs: Float32Array, rows: IntArray) -> Float32Array:
    """Return the mean of the rows' refs, weighted by the softmax of their scores. Shape (H,)."""
    top, total = scores.max(), _ZERO
    glimpse = np.zeros(refs.shape[1], np.float32)
    for r in range(rows.size):
        weight = np.exp(scores[r] - top)
        total += weight
        for i in range(glimpse.size):
            glimpse[i] += weight * refs[rows[r], i]
    for i in range(glimpse.size):
        glimpse[i] /= total
    return glimpse


@compiled
def _replace(
    chosen: int, ready: IntArray, num_ready: int, child_start: IntArray, child: IntArray, waiting: IntArray
) -> int:
    """Take a row out of the sorted ready ones and put in those that waited for it; return how many there are."""
    at = 0
    while ready[at] != chosen:
        at += 1
    num_ready -= 1
    for i in range(at, num_ready):
        ready[i] = ready[i + 1]
    for k in range(child_start[chosen], child_start[chosen + 1]):
        j = child[k]
        waiting[j] -= 1
        if waiting[j] == 0:
            i = num_ready
            while i > 0 and ready[i - 1] > j:
                ready[i] = ready[i - 1]
                i -= 1
            ready[i] = j
            num_ready += 1
    return num_ready


@compiled
def greedy_rows(
    child_start: IntArray,
    child: IntArray,
    param_bytes: IntArray,
    budget: int,
    start_gates: Float32Array,
    input_gates: Float32Array,
    glimpse_refs: Float32Array,
    pointer_refs: Float32Array,
    hidden: Float32Array,
    cell: Float32Array,
    recurrent: Matrix,
    recurrent_scale: np.float32,
    glimpse_query: Matrix,
    glimpse_scale: np.float32,
    glimpse_bias: Float32Array,
    glimpse_v: Float32Array,
    pointer_query: Matrix,
    pointer_scale: np.float32,
    pointer_bias: Float32Array,
    pointer_v: Float32Array,
    budget_weight: Float32Array,
) -> IntArray:
    """Take the likeliest allowed row at every step.

    Args:
        child_start: Where the readers of each row start in ``child``. Shape (n + 1,).
        child: Rows that read.
        param_bytes: Of the rows. Shape (n,).
        budget: What a stage may hold; negative for a network that knows no budget.
        start_gates: The start token's share of the decoder's gates. Shape (4H,).
        input_gates: The rows' share of them. Shape (n, 4H).
        glimpse_refs: Shape (n, H).
        pointer_refs: Shape (n, H).
        hidden: Where the decoder starts. Shape (H,); overwritten.
        cell: Likewise.
        recurrent: Shape (H, 4H).
        recurrent_scale: Its scale.
        glimpse_query: Shape (H, H), with scale and bias (H,).
        glimpse_scale: See above.
        glimpse_bias: See above.
        glimpse_v: Shape (H,).
        pointer_query: Shape (H, H), with scale and bias (H,).
        pointer_scale: See above.
        pointer_bias: See above.
        pointer_v: Shape (H,).
        budget_weight: Of `pointer.shares_of`. Shape (4, H), or (0, H) where the network knows no budget.

    Returns:
        The rows in the order they are taken; equal scores go to the smallest row. Shape (n,).
    """
    n, size = param_bytes.size, cell.size
    waiting = np.zeros(n, np.int64)
    for at in range(child.size):
        waiting[child[at]] += 1
    ready, num_ready = np.empty(n, np.int64), 0
    for i in range(n):
        if waiting[i] == 0:
            ready[num_ready] = i
            num_ready += 1
    order, allowed, scores = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.float32)
    gates, query = start_gates.copy(), np.empty(size, np.float32)
    no_shares, filled = np.empty((0, size), np.float32), 0
    for step in range(n):
        add_product(recurrent, recurrent_scale, hidden, gates)
        advance(gates, hidden, cell)
        count = _fitting(ready, num_ready, param_bytes, filled, budget, allowed)
        best = 0
        if count > 1:  # a single op needs no attention
            some = allowed[:count]
            query[:] = glimpse_bias
            add_product(glimpse_query, glimpse_scale, hidden, query)
            _scores(query, glimpse_refs, some, no_shares, glimpse_v, scores)
            glimpse = _glimpse(scores[:count], glimpse_refs, some)
            query[:] = pointer_bias
            add_product(pointer_query, pointer_scale, glimpse, query)
            shares = _shares(some, param_bytes, filled, budget, budget_weight)
            _scores(query, pointer_refs, some, shares, pointer_v, scores)
            for r in range(1, count):  # the network's clipping tanh keeps their order
                if scores[r] > scores[best]:
                    best = r
        chosen = int(allowed[best])
        order[step] = chosen
        filled += int(param_bytes[chosen])
        if filled > budget:  # it opens the next stage
            filled = int(param_bytes[chosen])
        gates[:] = input_gates[chosen]
        num_ready = _replace(chosen, ready, num_ready, child_start, child, waiting)
    return order
