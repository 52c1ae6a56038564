"""Minibatches of whole sequences, for recurrent policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rlox.devices import to_device
from rlox.networks.recurrent import SubSequences, split_sequences
from rlox.types import Rollout

__all__ = ["SequenceMinibatch", "sequence_minibatches"]


class SequenceMinibatch(NamedTuple):
    """All `T` rows of `b` environments of a rollout, flat in time-major order.

    The policy's inputs have every row; the loss's inputs have only the `V` valid rows.
    """

    obs: Tensor  # [T*b, obs_dim]
    actions: Tensor  # [T*b], or [T*b, act_dim]
    state: Tensor  # [b, state_size], before the first row
    subsequences: SubSequences  # where episodes begin
    valid: Tensor | None  # [V] int64, indices of the valid rows; None: all T*b
    log_probs: Tensor  # [V]
    values: Tensor  # [V]
    advantages: Tensor  # [V]
    returns: Tensor  # [V]


def sequence_minibatches(rollout: Rollout, batch_size: int, order: Tensor) -> Iterator[SequenceMinibatch]:
    """Yield disjoint minibatches that cover every environment once, each from its stored first state.

    A minibatch has as many environments as there are whole sequences in `batch_size` transitions, at least
    one. The last minibatch may have fewer. A minibatch without a valid row is skipped. `order` holds the
    indices of the environments, int64 `[n_envs]`.
    """
    for envs in torch.split(order, max(1, batch_size // rollout.n_steps)):
        minibatch = _sequences(rollout, envs)
        if minibatch.valid is None or len(minibatch.valid):
            yield minibatch


def _sequences(rollout: Rollout, envs: Tensor) -> SequenceMinibatch:
    """Return the sequences of the environments `envs` `[b]`."""
    assert rollout.first_state is not None
    device = rollout.obs.device
    index = to_device(envs, device)

    def select_envs(column: Tensor) -> Tensor:
        grid = column.view(rollout.n_steps, rollout.n_envs, *column.shape[1:])
        return grid.index_select(1, index).flatten(0, 1)

    is_first = rollout.extras["is_first"].cpu().view(rollout.n_steps, rollout.n_envs)
    valid = None
    if rollout.valid is not None:
        valid = select_envs(rollout.valid).nonzero().squeeze(-1)

    def valid_rows(column: Tensor) -> Tensor:
        rows = select_envs(column)
        return rows if valid is None else rows.index_select(0, valid)

    return SequenceMinibatch(
        select_envs(rollout.obs),
        select_envs(rollout.actions),
        rollout.first_state.index_select(0, index),
        split_sequences(is_first.index_select(1, envs).numpy(), device),
        valid,
        valid_rows(rollout.log_probs),
        valid_rows(rollout.values),
        valid_rows(rollout.advantages),
        valid_rows(rollout.returns),
    )
