"""A policy as others use it: the environment's observations in, the environment's actions out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.envs.normalize import Normalizer
from rlox.envs.spaces import ActionCodec, ObservationCodec, shape_of
from rlox.errors import NonFiniteError, RloxError, ShapeError
from rlox.policies.base import Policy, acting

__all__ = ["Actor"]


@dataclass(frozen=True)
class Actor:
    """Normalises as in training, with frozen statistics; Box actions are clipped to the bounds."""

    policy: Policy
    observations: ObservationCodec
    actions: ActionCodec
    normalizer: Normalizer | None
    device: torch.device

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The block in which `act` is called: once around many calls, as it looks at every module."""
        with torch.inference_mode(), acting(self.policy):
            yield

    def act(
        self, rows: NDArray[np.float32], generator: torch.Generator | None = None
    ) -> NDArray[Any]:
        """Actions for encoded observations `[B, obs_dim]`, which stay as they are; inside `ready`.

        The best ones, or sampled ones if there is a generator to sample with.
        """
        if self.normalizer:
            rows = rows.copy()
            self.normalizer.apply(rows)
        seen = torch.from_numpy(rows).to(self.device)
        policy = self.policy
        chosen = policy.mode(seen) if generator is None else policy.sample(seen, generator)
        actions: NDArray[Any] = chosen.cpu().numpy()
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise NonFiniteError(
                "the policy's action is not finite; look at its weights and at the observation"
            )
        return self.actions.to_env(actions)

    def predict(
        self, obs: Any, generator: torch.Generator | None = None, action_masks: Any = None
    ) -> int | NDArray[Any]:
        """The action for one raw observation (an `int` for Discrete) or for a batch.

        A batch of a Dict space is a dict of parts `[N, ...]`, or a list of dicts. `action_masks` are
        `[n_actions]` or `[N, n_actions]`, 1 where an action is allowed.
        """
        codec = self.observations
        try:
            given = codec.with_masks(obs, action_masks)
            single = codec.is_single(given)
            rows = codec.encode_one(given) if single else codec.encode_batch(given)
        except RloxError:
            raise
        except (ValueError, IndexError, TypeError) as error:
            raise ShapeError(
                f"observation has shape {shape_of(obs)}, expected {codec.shape} or a batch of it"
            ) from error
        if not np.isfinite(rows).all():
            raise NonFiniteError(
                f"the observation is not finite: {rows[~np.isfinite(rows).all(1)][0]}"
            )
        with self.ready():
            actions = self.act(rows, generator)
        if not single:
            return actions
        return int(actions[0]) if self.actions.discrete else actions[0]
