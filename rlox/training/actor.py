"""A policy as others use it: the environment's observations in, the environment's actions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.normalize import Normalizer
from rlox.envs.spaces import ObservationCodec, shape_of
from rlox.errors import ConfigError, NonFiniteError, RloxError, ShapeError
from rlox.policies.lazy_torch import LazyTorchModule

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import Tensor

    from rlox.policies.base import Policy


__all__ = ["Actor", "BaseActor", "NativeActor", "Player", "StatelessActor", "require_actor"]

P = TypeVar("P")


class Player(Protocol):
    """What plays episodes side by side, one in each place, all of them new at first."""

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Actions for encoded observations `[B, obs_dim]`, one a slot, in the actor's `inference_mode`."""

    def observe_rewards(self, rewards: Sequence[float]) -> None:
        """What the last actions paid, `[B]`; between the step and the next `reset_slot`, `select_slots` or
        `act`.
        """

    def reset_slot(self, slot: int) -> None:
        """A new episode begins in that place."""

    def select_slots(self, slots: Sequence[int]) -> None:
        """Only these places go on, numbered from 0 in this order."""


@dataclass(frozen=True)
class BaseActor(ABC, Generic[P]):
    """Normalises as in training, with frozen statistics; Box actions are within the bounds."""

    policy: P
    observations: ObservationCodec
    actions: ActionCodec
    normalizer: Normalizer | None
    device: torch.device | str

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """The block in which `act` is called: once around many calls, as it looks at every module."""
        import torch

        from rlox.policies.base import evaluation_mode

        policy: Any = self.policy
        with torch.inference_mode(), evaluation_mode(policy):
            yield

    def weights(self) -> dict[str, Any]:
        """What a run begins with and a checkpoint has, by name."""
        policy: Any = self.policy
        return dict(policy.state_dict())

    @abstractmethod
    def make_player(self, n_slots: int) -> Player:
        """What plays that many episodes side by side."""

    @property
    def module(self) -> Any:
        """The policy as torch has it."""
        return self.policy

    def normalize(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Encoded observations `[B, obs_dim]`, which stay as they are, as the policy sees them."""
        if self.normalizer:
            rows = rows.copy()
            self.normalizer.apply(rows)
        return rows

    def policy_input(self, rows: NDArray[Any]) -> Tensor:
        """The same as a tensor on the policy's device."""
        import torch

        return torch.from_numpy(self.normalize(rows)).to(self.device)

    def to_env_actions(self, actions: Tensor) -> Any:
        """What the policy chose as environments take it, `ActionCodec.to_env`."""
        return self.checked_env_actions(actions.cpu().numpy())

    def checked_env_actions(self, actions: NDArray[Any]) -> Any:
        """The same of an array; NonFiniteError for numbers that are none."""
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise NonFiniteError(
                "the policy's action is not finite; look at its weights and at the observation"
            )
        return self.actions.to_env(actions)

    def encode_obs(self, obs: Any, action_masks: Any = None) -> tuple[NDArray[Any], bool]:
        """Raw observations as rows `[B, obs_dim]`, and whether it was a single one, not a batch.

        A batch of a Dict space is a dict of parts `[N, ...]`, or a list of dicts. `action_masks` are
        `[n_actions]` or `[N, n_actions]`, 1 where an action is allowed.
        """
        codec = self.observations
        try:
            masked_obs = codec.with_masks(obs, action_masks)
            is_single = codec.is_single(masked_obs)
            rows = codec.encode_one(masked_obs) if is_single else codec.encode_batch(masked_obs)
        except RloxError:
            raise
        except (ValueError, IndexError, TypeError, RuntimeError) as error:  # RuntimeError: torch's
            shape = shape_of(obs)
            has_obs_shape = isinstance(shape, tuple) and codec.shape in (shape, shape[1:])
            expected = "" if has_obs_shape else f", expected {codec.shape} or a batch of it"
            message = f"observation has shape {shape}{expected}: {error}"
            raise ShapeError(message) from error
        values = codec.numeric_view(rows)
        if not np.isfinite(values).all():
            raise NonFiniteError(f"the observation is not finite: {values[~np.isfinite(values).all(1)][0]}")
        return rows, is_single

    def to_output(self, actions: Any, is_single: bool) -> Any:
        """Actions of environments as `predict` gives them."""
        if not is_single:
            return actions
        action = self.actions.unbatch(actions)[0]
        return int(action) if self.actions.is_discrete else action


def require_actor(actor: Any, algo: str) -> BaseActor[Any]:
    """What acts in environments; `ConfigError` for a model of text, which does not."""
    if not isinstance(actor, BaseActor):
        raise ConfigError(
            f"{algo} learns text, its model acts in no environment; use a run of another algorithm"
        )
    return actor


class StatelessActor(BaseActor[P]):
    """An actor without a memory: an action depends on nothing but what is seen."""

    @abstractmethod
    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Actions for encoded observations `[B, obs_dim]`, which stay as they are; inside `inference_mode`.

        The best ones, or sampled ones if there is a generator to sample with.
        """

    def make_player(self, n_slots: int) -> Player:
        """What plays that many episodes side by side."""
        return _StatelessPlayer(self)

    def predict(self, obs: Any, generator: torch.Generator | None = None, action_masks: Any = None) -> Any:
        """The action for one raw observation (an `int` for Discrete) or for a batch, as the space has it."""
        rows, is_single = self.encode_obs(obs, action_masks)
        with self.inference_mode():
            actions = self.act(rows, generator)
        return self.to_output(actions, is_single)


class Actor(StatelessActor[Any]):
    """A module of torch."""

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """The best actions, or sampled ones."""
        from rlox.policies.user_policy import require_valid_actions, sample_action

        policy: Policy = self.policy
        policy_input = self.policy_input(rows)
        actions = (
            policy.mode(policy_input) if generator is None else sample_action(policy, policy_input, generator)
        )
        method = "mode" if generator is None else "sample"
        require_valid_actions(policy, method, actions, len(rows), self.actions)
        return self.to_env_actions(actions)


class NativeActor(StatelessActor[LazyTorchModule]):
    """A policy in Rust. Its module is asked to sample, and where the engine would pass over what it has."""

    @property
    def module(self) -> Any:
        """The policy as torch has it."""
        return self.policy.module

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """Nothing has to be made ready."""
        yield

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """The best actions, or sampled ones."""
        if generator is not None or not self.policy.is_equivalent:
            return self._act_with_module(rows, generator)
        obs, mask, mask_dim = self.normalize(rows), None, self.observations.mask_dim
        if mask_dim:
            obs, mask = obs[:, :-mask_dim], obs[:, -mask_dim:] != 0
        return self.checked_env_actions(self.policy.best_actions(obs, mask))

    def _act_with_module(self, rows: NDArray[Any], generator: torch.Generator | None) -> Any:
        fields = (self.observations, self.actions, self.normalizer, self.device)
        actor = Actor(self.policy.module, *fields)
        with actor.inference_mode():
            return actor.act(rows, generator)


@dataclass(frozen=True)
class _StatelessPlayer:
    """Nothing to keep between steps."""

    actor: StatelessActor[Any]

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        return self.actor.act(rows, generator)

    def observe_rewards(self, rewards: Sequence[float]) -> None:
        pass

    def reset_slot(self, slot: int) -> None:
        pass

    def select_slots(self, slots: Sequence[int]) -> None:
        pass
