"""Actors: policies that take the environment's observations and return the environment's actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.normalize import Normalizer
from rlox.envs.spaces import ObservationCodec, shape_of
from rlox.errors import ConfigError, NonFiniteError, RloxError, ShapeError
from rlox.parameters.lazy_torch import LazyTorchModule

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import Tensor

    from rlox.policies.base import Policy


__all__ = ["ActingState", "Actor", "BaseActor", "NativeActor", "Player", "StatelessActor", "require_actor"]

P = TypeVar("P")

# What an actor remembers of the running episodes: arrays by name, with a row for each slot.
ActingState = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class BaseActor(ABC, Generic[P]):
    """Normalises observations as in training, with frozen statistics; Box actions are within the bounds."""

    policy: P
    observations: ObservationCodec
    actions: ActionCodec
    normalizer: Normalizer | None
    device: torch.device | str

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """Enter inference mode for calls of `act`; one block should have many calls: entering is slow."""
        import torch

        from rlox.policies.base import evaluation_mode

        policy: Any = self.policy
        with torch.inference_mode(), evaluation_mode(policy):
            yield

    def weights(self) -> dict[str, Any]:
        """Return the weights by name, as a checkpoint saves them and a warm start loads them."""
        policy: Any = self.policy
        return dict(policy.state_dict())

    def initial_state(self, n_slots: int) -> ActingState:
        """Return the state at the start of `n_slots` episodes; empty without memory."""
        return {}

    @abstractmethod
    def step(
        self, rows: NDArray[Any], state: ActingState, generator: torch.Generator | None = None
    ) -> tuple[Any, ActingState]:
        """Return actions for encoded observations `[B, obs_dim]`, and the state after them.

        Call it in `inference_mode`. It takes the best actions, or samples if there is a generator. `rows` is
        not changed; the arrays of `state` may be used again for the result.
        """

    def observe_rewards(self, state: ActingState, rewards: Sequence[float]) -> ActingState:
        """Return the state after the rewards `[B]` of the last actions; the same without use for them."""
        return state

    def make_player(self, n_slots: int) -> Player:
        """Make a player for `n_slots` parallel episodes."""
        return Player(self, n_slots)

    @property
    def module(self) -> Any:
        """The policy as a torch module."""
        return self.policy

    def normalize(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return encoded observations `[B, obs_dim]` as the policy sees them; `rows` is not changed."""
        if self.normalizer:
            rows = rows.copy()
            self.normalizer.apply(rows)
        return rows

    def policy_input(self, rows: NDArray[Any]) -> Tensor:
        """Return normalised observations as a tensor on the policy's device."""
        import torch

        return torch.from_numpy(self.normalize(rows)).to(self.device)

    def to_env_actions(self, actions: Tensor) -> Any:
        """Convert the policy's actions with `ActionCodec.to_env`."""
        return self.checked_env_actions(actions.cpu().numpy())

    def checked_env_actions(self, actions: NDArray[Any]) -> Any:
        """Convert an array of the policy's actions; raise `NonFiniteError` for non-finite numbers."""
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise NonFiniteError(
                "the policy's action is not finite; look at its weights and at the observation"
            )
        return self.actions.to_env(actions)

    def encode_obs(self, obs: Any, action_masks: Any = None) -> tuple[NDArray[Any], bool]:
        """Return raw observations as rows `[B, obs_dim]`, and whether `obs` was a single one, not a batch.

        A batch of a Dict space is a dict of parts `[N, ...]`, or a list of dicts. `action_masks` are
        `[n_actions]` or `[N, n_actions]`, 1 for allowed actions.
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
        """Return environment actions in the form that `predict` returns."""
        if not is_single:
            return actions
        action = self.actions.unbatch(actions)[0]
        return int(action) if self.actions.is_discrete else action


def require_actor(actor: Any, algo: str) -> BaseActor[Any]:
    """Return `actor` if it acts in environments; raise `ConfigError` for a text model."""
    if not isinstance(actor, BaseActor):
        raise ConfigError(
            f"{algo} learns text: its model acts in no environment; use a run of another algorithm"
        )
    return actor


class StatelessActor(BaseActor[P]):
    """An actor without memory: an action depends only on the current observation."""

    @abstractmethod
    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Return actions for encoded observations `[B, obs_dim]`; call it in `inference_mode`.

        Takes the best actions, or samples if there is a generator. `rows` is not changed.
        """

    def step(
        self, rows: NDArray[Any], state: ActingState, generator: torch.Generator | None = None
    ) -> tuple[Any, ActingState]:
        """Return the actions of `act`, and the empty state."""
        return self.act(rows, generator), state

    def predict(self, obs: Any, generator: torch.Generator | None = None, action_masks: Any = None) -> Any:
        """Return the action for one raw observation (an `int` for Discrete) or for a batch.

        The action has the form of the action space.
        """
        rows, is_single = self.encode_obs(obs, action_masks)
        with self.inference_mode():
            actions = self.act(rows, generator)
        return self.to_output(actions, is_single)


class Actor(StatelessActor[Any]):
    """An actor with a torch policy."""

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Return the best actions, or sampled ones."""
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
    """An actor with a policy in Rust; its torch module samples, and acts where Rust is not equivalent."""

    @property
    def module(self) -> Any:
        """The policy as a torch module."""
        return self.policy.module

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """Do nothing: Rust needs no preparation."""
        yield

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Return the best actions, or sampled ones."""
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


class Player:
    """Plays parallel episodes, one per slot, and keeps the acting state of each slot."""

    def __init__(self, actor: BaseActor[Any], n_slots: int) -> None:
        self._actor, self._state = actor, actor.initial_state(n_slots)

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Return an action per slot for encoded observations `[B, obs_dim]`; call it in `inference_mode`."""
        actions, self._state = self._actor.step(rows, self._state, generator)
        return actions

    def observe_rewards(self, rewards: Sequence[float]) -> None:
        """Receive the rewards `[B]` of the last actions.

        Called after the step and before the next `reset_slot`, `select_slots` or `act`.
        """
        self._state = self._actor.observe_rewards(self._state, rewards)

    def reset_slot(self, slot: int) -> None:
        """Begin a new episode in a slot."""
        for name, rows in self._actor.initial_state(1).items():
            self._state[name][slot] = rows[0]

    def select_slots(self, slots: Sequence[int]) -> None:
        """Keep only these slots, renumbered from 0 in this order."""
        indices = list(slots)
        self._state = {name: rows[indices] for name, rows in self._state.items()}
