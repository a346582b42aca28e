"""RESPECT's pointer network in torch: an LSTM reads the ops, another one points at them in the order to run them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from respect_core.policy.config import PointerConfig
from respect_core.policy.encoding import FILLED_RATES, FILLED_WEIGHT, NUM_FEATURES, NUM_SHARES

MASKED = -1e9
"""Score of an op that must not be chosen: finite, so that no log-probability becomes NaN."""


class Encoded(NamedTuple):
    """What the decoder needs of a batch of B graphs with n ops each."""

    embedded: Tensor
    """Shape (B, n, E)."""
    input_gates: Tensor
    """The embedded ops' share of the decoder's gates. Shape (B, n, 4H)."""
    glimpse_refs: Tensor
    """Shape (B, n, H)."""
    pointer_refs: Tensor
    """Shape (B, n, H)."""
    hidden: Tensor
    """Where the decoder starts. Shape (B, H)."""
    cell: Tensor
    """Shape (B, H)."""


class Attention(nn.Module):
    """Additive attention: ``v . tanh(W q + W' ref)`` for every op."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.ref = nn.Linear(size, size)
        self.v = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))

    def forward(self, query: Tensor, refs: Tensor) -> Tensor:
        """Score projected ``refs`` (B, n, H) for ``query`` (B, H); returns (B, n)."""
        return torch.tanh(self.query(query).unsqueeze(1) + refs) @ self.v  # (B, 1, H) + (B, n, H) -> (B, n)


def shares_of(loads: Tensor) -> Tensor:
    """Return what the scores see of the budget (..., 4), for an op's own share and that with the stage (..., 2).

    The last two grow steeply where the op fills the stage up: small weights can tell 97 % from 99 %.
    """
    room = (1 - loads[..., 1:]).clamp(min=0)
    steep = [FILLED_WEIGHT * torch.exp(-rate * room) for rate in FILLED_RATES]
    return torch.cat([loads, *steep], dim=-1)


class PointerNetwork(nn.Module):
    """The network of RESPECT (DAC 2023): linear layer, norm, LSTM encoder, norm, LSTM-cell decoder with one glimpse.

    Where it differs from the published one:

    - Only *ready* ops, those whose parents are all chosen, can be pointed at, so every decoded order is legal. The
      published network masks visited ops only and repairs the schedule afterwards.
    - With ``config.slacks`` the decoder is told a memory budget for a stage: every op's score also depends on its own
      share of the budget and on how exactly it would fill the current stage, and an op that does not fit is masked
      while another one fits. Without, which is the published form, an order cannot know where the stages end.
    - Layer norm stands where the published network has batch norm: it acts the same on one graph and on a batch, on
      30 ops and on 782, and keeps no running statistics that a larger graph would not match.
    """

    def __init__(self, config: PointerConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden = config.embed_size, config.hidden_size
        self.embed = nn.Linear(NUM_FEATURES, embed)
        self.embed_norm = nn.LayerNorm(embed)
        self.encoder = nn.LSTM(embed, hidden, batch_first=True)
        self.encoder_norm = nn.LayerNorm(hidden)
        self.start = nn.Parameter(torch.empty(embed).uniform_(-(embed**-0.5), embed**-0.5))
        self.decoder = nn.LSTMCell(embed, hidden)
        self.glimpse = Attention(hidden)
        self.pointer = Attention(hidden)
        self.budget = nn.Linear(NUM_SHARES, hidden, bias=False) if config.knows_budget else None

    def encode(self, features: Tensor) -> Encoded:
        """Read a batch of graphs of one size.

        Args:
            features: `node_features` of every graph. Shape (B, n, 15).
        """
        embedded = self.embed_norm(self.embed(features))  # (B, n, 15) -> (B, n, E)
        read, (hidden, cell) = self.encoder(embedded)  # (B, n, E) -> (B, n, H), (1, B, H), (1, B, H)
        read = self.encoder_norm(read)
        return Encoded(
            embedded=embedded,
            input_gates=nn.functional.linear(embedded, self.decoder.weight_ih, self.decoder.bias_ih),
            glimpse_refs=self.glimpse.ref(read),
            pointer_refs=self.pointer.ref(read),
            hidden=hidden.squeeze(0),  # (1, B, H) -> (B, H)
            cell=cell.squeeze(0),  # (1, B, H) -> (B, H)
        )

    def start_gates(self, batch_size: int) -> Tensor:
        """Return the learned start token's share of the decoder's gates. Shape (B, 4H)."""
        gates = nn.functional.linear(self.start, self.decoder.weight_ih, self.decoder.bias_ih)
        return gates.expand(batch_size, -1)  # (4H,) -> (B, 4H)

    def score_orders(
        self, encoded: Encoded, graph_of: Tensor, rows: Tensor, ready: Tensor, known: Tensor, loads: Tensor
    ) -> Tensor:
        """Score all steps of given orders at once.

        Only the decoder's state is advanced step by step; the attention sees all steps together, and of every step only
        the ops that may be chosen.

        Args:
            encoded: G graphs as read by `encode`.
            graph_of: Graph of each order. Shape (B,).
            rows: The orders. Shape (B, n).
            ready: Ops that may be chosen at the steps to score, in any order. Shape (B, n, R).
            known: True where ``ready`` holds an op, at least one a step to score; a step without one is not scored.
                Shape (B, n, R).
            loads: As for `point`, of the ops in ``ready``. Shape (B, n, R, 2).

        Returns:
            Log-probabilities of the ready ops of the m scored steps, in the order of the steps in ``known``. Shape
            (m, R), finite everywhere.
        """
        size, n = rows.shape
        first = self.start.expand(size, 1, -1)  # (E,) -> (B, 1, E)
        inputs = torch.cat([first, encoded.embedded[graph_of.unsqueeze(1), rows[:, :-1]]], dim=1)  # (B, n, E)
        cell = self.decoder
        states, _, _ = torch.lstm(  # the cell over all steps in one call
            inputs,
            (encoded.hidden[graph_of].unsqueeze(0), encoded.cell[graph_of].unsqueeze(0)),
            [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh],
            has_biases=True, num_layers=1, dropout=0.0, train=self.training, bidirectional=False, batch_first=True,
        )  # fmt: skip
        order, step = known.any(dim=2).nonzero(as_tuple=True)  # (B, n, R) -> (m,), (m,)
        where = (graph_of[order].unsqueeze(1) * n + ready[order, step]).flatten()  # (m, R) -> (m R,)
        shape = (order.numel(), ready.shape[2], self.config.hidden_size)  # m may be 0
        return self.point(
            states[order, step],
            encoded.glimpse_refs.flatten(0, 1).index_select(0, where).view(shape),  # (m R, H) -> (m, R, H)
            encoded.pointer_refs.flatten(0, 1).index_select(0, where).view(shape),
            known[order, step],
            loads[order, step],
        )

    def advance(self, gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decoder's next state for the last op's share of the gates (B, 4H) and the state (B, H) each."""
        gates = gates + nn.functional.linear(hidden, self.decoder.weight_hh, self.decoder.bias_hh)
        enter, forget, new, leave = gates.chunk(4, dim=1)  # (B, 4H) -> four of (B, H)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(cell), cell

    def point(self, hidden: Tensor, glimpse_refs: Tensor, pointer_refs: Tensor, known: Tensor, loads: Tensor) -> Tensor:
        """Point at one of r ops.

        Args:
            hidden: The decoder's state. Shape (B, H).
            glimpse_refs: The ops. Shape (B, r, H).
            pointer_refs: Likewise.
            known: True where there is an op; at least one a row. Shape (B, r).
            loads: For each op the budget's share it takes, and the share taken with it in the current stage; ignored
                by a network that knows no budget. Shape (B, r, 2).

        Returns:
            Log-probabilities, finite everywhere. Shape (B, r).
        """
        weights = self.glimpse(hidden, glimpse_refs).masked_fill(~known, MASKED).softmax(dim=1)  # (B, r)
        glimpse = (weights.unsqueeze(1) @ glimpse_refs).squeeze(1)  # (B, 1, r) @ (B, r, H) -> (B, H)
        if self.budget is not None:
            pointer_refs = pointer_refs + self.budget(shares_of(loads))  # (B, r, 4) -> (B, r, H)
        scores = self.config.clip * torch.tanh(self.pointer(glimpse, pointer_refs))
        return scores.masked_fill(~known, MASKED).log_softmax(dim=1)
