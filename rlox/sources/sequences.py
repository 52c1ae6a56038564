"""Minibatches of whole sequences, for learners whose policy has a memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rlox.devices import moved
from rlox.networks.recurrent import Pieces, cut
from rlox.types import Rollout

__all__ = ["Sequences", "sequence_minibatches"]


class Sequences(NamedTuple):
    """All `T` rows of `b` environments of a rollout, flat in time-major order.

    What the policy reads has every row; what the loss reads has the `V` valid ones only.
    """

    obs: Tensor  # [T*b, obs_dim]
    actions: Tensor  # [T*b], or [T*b, act_dim]
    state: Tensor  # [b, state_size], before the first row
    pieces: Pieces  # where episodes begin
    valid: Tensor | None  # [V] int64, numbers of the valid rows; None: all T*b
    log_probs: Tensor  # [V]
    values: Tensor  # [V]
    advantages: Tensor  # [V]
    returns: Tensor  # [V]


def sequence_minibatches(rollout: Rollout, batch_size: int, order: Tensor) -> Iterator[Sequences]:
    """Disjoint minibatches covering every environment once, each from its stored first state.

    A minibatch has as many environments as `batch_size` transitions hold whole sequences of, at least
    one; the last may have fewer, and one without a valid row is left out. `order` are the numbers of the
    environments, int64 `[n_envs]`.
    """
    for envs in torch.split(order, max(1, batch_size // rollout.n_steps)):
        some = _sequences(rollout, envs)
        if some.valid is None or len(some.valid):
            yield some


def _sequences(rollout: Rollout, envs: Tensor) -> Sequences:
    """The sequences of the environments `envs` `[b]`."""
    assert rollout.first_state is not None
    device = rollout.obs.device
    index = moved(envs, device)

    def columns(column: Tensor) -> Tensor:
        grid = column.view(rollout.n_steps, rollout.n_envs, *column.shape[1:])
        return grid.index_select(1, index).flatten(0, 1)

    is_first = rollout.extras["is_first"].cpu().view(rollout.n_steps, rollout.n_envs)
    valid = None
    if rollout.valid is not None:
        valid = columns(rollout.valid).nonzero().squeeze(-1)

    def told(column: Tensor) -> Tensor:
        rows = columns(column)
        return rows if valid is None else rows.index_select(0, valid)

    return Sequences(
        columns(rollout.obs),
        columns(rollout.actions),
        rollout.first_state.index_select(0, index),
        cut(is_first.index_select(1, envs).numpy(), device),
        valid,
        told(rollout.log_probs),
        told(rollout.values),
        told(rollout.advantages),
        told(rollout.returns),
    )
