"""An actor that is asked for a return, and what keeps episodes that are played side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.errors import ConfigError
from rlox.policies.conditioned import Conditioned
from rlox.training.actor import ActorOf, Player

__all__ = ["ConditionedActor", "Wish", "wished"]


@dataclass
class Wish:
    """The return that is asked for; that of the dataset unless one is given.

    Attributes
    ----------
    given : by the user
    best : the highest of the dataset, known once that is read
    """

    given: float | None = None
    best: float | None = None

    @property
    def asked(self) -> float:
        """The return; `ConfigError` where nobody knows."""
        found = self.best if self.given is None else self.given
        if found is None:
            raise ConfigError(
                "algo.target_return is null and no dataset has been read: give algo.target_return"
            )
        return found

    def state(self) -> dict[str, Any]:
        """What the dataset said."""
        return {} if self.best is None else {"best_return": self.best}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that has what `state()` gave, perhaps among others."""
        self.best = float(state["best_return"]) if "best_return" in state else None


def wished(target_return: Any) -> float | None:
    """A return that is asked for; `ConfigError` for what is no finite number."""
    if target_return is None:
        return None
    number = isinstance(target_return, (int, float, np.number)) and not isinstance(
        target_return, bool
    )
    if not number or not np.isfinite(target_return):
        raise ConfigError(f"target_return={target_return!r}: expected a finite number")
    return float(target_return)


@dataclass(frozen=True)
class ConditionedActor(ActorOf[Conditioned]):
    """An action depends on the return that is still asked for and on the last steps."""

    wish: Wish = field(default_factory=Wish)
    context: int = 20
    scale: float = 1e-3

    def player(self, places: int) -> Player:
        """What plays that many episodes side by side."""
        return _Asking(self, places)

    def predict(
        self,
        obs: Any,
        generator: torch.Generator | None = None,
        target_return: float | None = None,
        action_masks: Any = None,
    ) -> Any:
        """The action for one raw observation or for a batch, each the first one of an episode."""
        rows, single = self.encoded(obs, action_masks)
        player = _Asking(self, len(rows), target_return)
        with self.ready():
            actions = player.act(rows, generator)
        return self.told(actions, single)


class _Asking:
    """The last steps of each place: what was asked for, seen and done."""

    def __init__(
        self, actor: ConditionedActor, places: int, target_return: float | None = None
    ) -> None:
        self._actor, length = actor, actor.context
        self._wish = actor.wish.asked if target_return is None else float(target_return)
        policy, seen = actor.policy, actor.observations.seen
        self._left = np.full(places, self._wish, np.float64)  # what is still asked for
        self._count = np.zeros(places, np.int64)  # steps of the episode before this one
        self._returns = np.zeros((places, length), np.float32)
        self._obs = np.zeros((places, length, seen), np.float32)
        self._times = np.zeros((places, length), np.int64)
        shape = () if policy.choices else (policy.actions,)
        kind = np.int64 if policy.choices else np.float32
        self._actions = np.zeros((places, length, *shape), kind)

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        actor, each, last = self._actor, np.arange(len(rows)), self._actor.context - 1
        at = np.minimum(self._count, last)
        full = self._count > last
        for column in (self._returns, self._obs, self._times, self._actions):
            column[full, :-1] = column[full, 1:]
        self._returns[each, at] = self._left * actor.scale
        self._obs[each, at] = actor.normalized(rows)
        self._times[each, at] = self._count
        self._actions[each, at] = 0  # not seen by what says it
        given = (self._returns, self._obs, self._actions, self._times)
        said = actor.policy(*(torch.from_numpy(column).to(actor.device) for column in given))
        place = torch.from_numpy(at).to(actor.device)[:, None, None].expand(-1, 1, said.shape[-1])
        chosen = actor.policy.chosen(said.gather(1, place).squeeze(1), generator)
        self._actions[each, at] = chosen.cpu().numpy()
        self._count += 1
        return actor.given(chosen)

    def paid(self, rewards: Sequence[float]) -> None:
        self._left -= np.asarray(rewards, np.float64)

    def begin(self, place: int) -> None:
        self._left[place], self._count[place] = self._wish, 0

    def keep(self, places: Sequence[int]) -> None:
        kept = list(places)
        for name in ("_left", "_count", "_returns", "_obs", "_times", "_actions"):
            setattr(self, name, getattr(self, name)[kept])
