"""An actor that is conditioned on a target return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.errors import ConfigError
from rlox.policies.decision_transformer import DecisionTransformerPolicy
from rlox.training.actor import ActingState, BaseActor

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

    def initial_state(self, n_slots: int) -> ActingState:
        """Return the target return and no steps for each slot.

        The columns `returns` (to go), `obs`, `timesteps` and `actions` have the last `context` steps.
        """
        policy, length = self.policy, self.context
        action_shape = () if policy.is_discrete else (policy.n_outputs,)
        action_dtype = np.int64 if policy.is_discrete else np.float32
        return {
            "return_to_go": np.full(n_slots, self.target_return.value, np.float64),
            "n_steps": np.zeros(n_slots, np.int64),  # of the episode so far, without the current one
            "returns": np.zeros((n_slots, length), np.float32),
            "obs": np.zeros((n_slots, length, self.observations.input_dim), np.float32),
            "timesteps": np.zeros((n_slots, length), np.int64),
            "actions": np.zeros((n_slots, length, *action_shape), action_dtype),
        }

    def step(
        self, rows: NDArray[Any], state: ActingState, generator: torch.Generator | None = None
    ) -> tuple[Any, ActingState]:
        """Return actions, and the state with this step."""
        slots, last_position, n_steps = np.arange(len(rows)), self.context - 1, state["n_steps"]
        position = np.minimum(n_steps, last_position)
        is_full = n_steps > last_position
        columns = [state[name] for name in ("returns", "obs", "actions", "timesteps")]
        for column in columns:
            column[is_full, :-1] = column[is_full, 1:]
        state["returns"][slots, position] = state["return_to_go"] * self.scale
        state["obs"][slots, position] = self.normalize(rows)
        state["timesteps"][slots, position] = n_steps
        state["actions"][slots, position] = 0  # placeholder: the model does not see the current action
        outputs = self.policy(*(torch.from_numpy(column).to(self.device) for column in columns))
        index = torch.from_numpy(position).to(self.device)[:, None, None].expand(-1, 1, outputs.shape[-1])
        actions = self.policy.select_actions(outputs.gather(1, index).squeeze(1), generator)
        state["actions"][slots, position] = actions.cpu().numpy()
        return self.to_env_actions(actions), {**state, "n_steps": n_steps + 1}

    def observe_rewards(self, state: ActingState, rewards: Sequence[float]) -> ActingState:
        """Return the state with the rewards subtracted from the returns to go."""
        return {**state, "return_to_go": state["return_to_go"] - np.asarray(rewards, np.float64)}

    def predict(
        self,
        obs: Any,
        generator: torch.Generator | None = None,
        target_return: float | None = None,
        action_masks: Any = None,
    ) -> Any:
        """Return the action for one raw observation or a batch, each the first of an episode."""
        rows, is_single = self.encode_obs(obs, action_masks)
        actor = self if target_return is None else replace(self, target_return=TargetReturn(target_return))
        with self.inference_mode():
            actions, _ = actor.step(rows, actor.initial_state(len(rows)), generator)
        return self.to_output(actions, is_single)
