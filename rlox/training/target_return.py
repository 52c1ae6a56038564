"""An actor that is conditioned on a target return, and its player for parallel episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.errors import ConfigError
from rlox.policies.decision_transformer import DecisionTransformerPolicy
from rlox.training.actor import BaseActor, Player

__all__ = ["ReturnConditionedActor", "TargetReturn", "parse_target_return"]


@dataclass
class TargetReturn:
    """The target return; the dataset's highest return unless one is given.

    Attributes
    ----------
    requested_return : given by the user
    dataset_return : the highest return of the dataset, known once it is read
    """

    requested_return: float | None = None
    dataset_return: float | None = None

    @property
    def value(self) -> float:
        """The target return; raises `ConfigError` if there is none."""
        value = self.dataset_return if self.requested_return is None else self.requested_return
        if value is None:
            raise ConfigError(
                "algo.target_return is null and no dataset has been read: give algo.target_return"
            )
        return value

    def state(self) -> dict[str, Any]:
        """Return the dataset's highest return."""
        return {} if self.dataset_return is None else {"best_return": self.dataset_return}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that contains `state()`."""
        self.dataset_return = float(state["best_return"]) if "best_return" in state else None


def parse_target_return(target_return: Any) -> float | None:
    """Check a target return; raise `ConfigError` unless it is None or a finite number."""
    if target_return is None:
        return None
    is_number = isinstance(target_return, (int, float, np.number)) and not isinstance(target_return, bool)
    if not is_number or not np.isfinite(target_return):
        raise ConfigError(f"target_return={target_return!r}: expected a finite number")
    return float(target_return)


@dataclass(frozen=True)
class ReturnConditionedActor(BaseActor[DecisionTransformerPolicy]):
    """An actor whose actions depend on the return to go and the last steps."""

    target_return: TargetReturn = field(default_factory=TargetReturn)
    context: int = 20
    scale: float = 1e-3

    def make_player(self, n_slots: int) -> Player:
        """Make a player for `n_slots` parallel episodes."""
        return _ReturnConditionedPlayer(self, n_slots)

    def predict(
        self,
        obs: Any,
        generator: torch.Generator | None = None,
        target_return: float | None = None,
        action_masks: Any = None,
    ) -> Any:
        """Return the action for one raw observation or a batch, each the first of an episode."""
        rows, is_single = self.encode_obs(obs, action_masks)
        player = _ReturnConditionedPlayer(self, len(rows), target_return)
        with self.inference_mode():
            actions = player.act(rows, generator)
        return self.to_output(actions, is_single)


class _ReturnConditionedPlayer:
    """Keeps the last steps of each slot: returns to go, observations and actions."""

    def __init__(
        self, actor: ReturnConditionedActor, n_slots: int, target_return: float | None = None
    ) -> None:
        self._actor, length = actor, actor.context
        self._target_return = actor.target_return.value if target_return is None else float(target_return)
        policy, obs_size = actor.policy, actor.observations.input_dim
        self._return_to_go = np.full(n_slots, self._target_return, np.float64)
        self._n_steps = np.zeros(n_slots, np.int64)  # steps of the episode so far, without the current one
        self._returns = np.zeros((n_slots, length), np.float32)
        self._obs = np.zeros((n_slots, length, obs_size), np.float32)
        self._timesteps = np.zeros((n_slots, length), np.int64)
        shape = () if policy.is_discrete else (policy.n_outputs,)
        dtype = np.int64 if policy.is_discrete else np.float32
        self._actions = np.zeros((n_slots, length, *shape), dtype)

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        actor, slots, last_position = self._actor, np.arange(len(rows)), self._actor.context - 1
        position = np.minimum(self._n_steps, last_position)
        is_full = self._n_steps > last_position
        for column in (self._returns, self._obs, self._timesteps, self._actions):
            column[is_full, :-1] = column[is_full, 1:]
        self._returns[slots, position] = self._return_to_go * actor.scale
        self._obs[slots, position] = actor.normalize(rows)
        self._timesteps[slots, position] = self._n_steps
        self._actions[slots, position] = 0  # placeholder: the model does not see the current action
        inputs = (self._returns, self._obs, self._actions, self._timesteps)
        outputs = actor.policy(*(torch.from_numpy(column).to(actor.device) for column in inputs))
        index = torch.from_numpy(position).to(actor.device)[:, None, None].expand(-1, 1, outputs.shape[-1])
        actions = actor.policy.select_actions(outputs.gather(1, index).squeeze(1), generator)
        self._actions[slots, position] = actions.cpu().numpy()
        self._n_steps += 1
        return actor.to_env_actions(actions)

    def observe_rewards(self, rewards: Sequence[float]) -> None:
        self._return_to_go -= np.asarray(rewards, np.float64)

    def reset_slot(self, slot: int) -> None:
        self._return_to_go[slot], self._n_steps[slot] = self._target_return, 0

    def select_slots(self, slots: Sequence[int]) -> None:
        indices = list(slots)
        for name in ("_return_to_go", "_n_steps", "_returns", "_obs", "_timesteps", "_actions"):
            setattr(self, name, getattr(self, name)[indices])
