"""RESPECT's pointer network in torch: an LSTM reads the ops, another one points at them in the order to run them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from respect_core.policy.config import PointerConfig
from respect_core.policy.encoding import NUM_FEATURES

MASKED = -1e9
"""Score of an op that must not be chosen: finite, so that no log-probability becomes NaN."""


class Encoded(NamedTuple):
    """What the decoder needs of a batch of B graphs with n ops each."""

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


class PointerNetwork(nn.Module):
    """The network of RESPECT (DAC 2023): linear layer, norm, LSTM encoder, norm, LSTM-cell decoder with one glimpse.

    Where it differs from the published one:

    - Only *ready* ops, those whose parents are all chosen, can be pointed at, so every decoded order is legal. The
      published network masks visited ops only and repairs the schedule afterwards.
    - With ``config.slacks`` the decoder is told a memory budget for a stage: every op's score also depends on its own
      share of the budget and on how full the current stage would be with it, and an op that does not fit is masked
      while another one fits. Without, which is the published form, an order says little about where the stages end:
      the cosine cost falls in training, but the gap to the optimal peak hardly does.
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
        self.budget = nn.Linear(2, hidden, bias=False) if config.knows_budget else None

    def encode(self, features: Tensor) -> Encoded:
        """Read a batch of graphs of one size.

        Args:
            features: `node_features` of every graph. Shape (B, n, 15).
        """
        embedded = self.embed_norm(self.embed(features))  # (B, n, 15) -> (B, n, E)
        read, (hidden, cell) = self.encoder(embedded)  # (B, n, E) -> (B, n, H), (1, B, H), (1, B, H)
        read = self.encoder_norm(read)
        return Encoded(
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

    def step(
        self, encoded: Encoded, gates: Tensor, hidden: Tensor, cell: Tensor, ready: Tensor, loads: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Advance the decoder by one op.

        Args:
            encoded: The batch as read by `encode`.
            gates: The last chosen op's row of ``encoded.input_gates``, or `start_gates`. Shape (B, 4H).
            hidden: Shape (B, H).
            cell: Shape (B, H).
            ready: True where an op may be chosen; at least one a graph. Shape (B, n).
            loads: For each op the budget's share it takes, and the share taken with it in the current stage. Shape
                (B, n, 2); None for a network that knows no budget.

        Returns:
            Log-probabilities of the ops (B, n), finite everywhere, and the next hidden and cell state.
        """
        gates = gates + nn.functional.linear(hidden, self.decoder.weight_hh, self.decoder.bias_hh)
        enter, forget, new, leave = gates.chunk(4, dim=1)  # (B, 4H) -> four of (B, H)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        weights = self.glimpse(hidden, encoded.glimpse_refs).masked_fill(~ready, MASKED).softmax(dim=1)  # (B, n)
        glimpse = (weights.unsqueeze(1) @ encoded.glimpse_refs).squeeze(1)  # (B, 1, n) @ (B, n, H) -> (B, H)
        refs = encoded.pointer_refs
        if self.budget is not None and loads is not None:
            refs = refs + self.budget(loads)  # (B, n, 2) -> (B, n, H)
        scores = self.config.clip * torch.tanh(self.pointer(glimpse, refs))
        return scores.masked_fill(~ready, MASKED).log_softmax(dim=1), hidden, cell
