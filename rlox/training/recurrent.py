"""An actor with a memory, and what keeps the memory of episodes that are played side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked import is_masked
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.training.actor import ActorOf, Player

__all__ = ["RecurrentActor"]

State = NDArray[np.float32]  # [B, acting_size]


class RecurrentActor(ActorOf[RecurrentActorCritic]):
    """An action depends on the episode so far, of which the state is what is remembered."""

    def act(
        self, rows: NDArray[Any], state: State, generator: torch.Generator | None = None
    ) -> tuple[Any, State]:
        """Actions for encoded observations `[B, obs_dim]`, and the states after them; inside `ready`.

        The best ones, or sampled ones if there is a generator to sample with. What is given stays as
        it is.
        """
        policy = self.policy
        outputs, after = policy.act(self.seen(rows), torch.from_numpy(state).to(self.device))
        chosen = (
            policy.head.mode(outputs)
            if generator is None
            else policy.head.sample(outputs, generator)
        )
        return self.given(chosen), after.cpu().numpy()

    def begun(self, places: int) -> State:
        """The states that episodes begin with."""
        return np.zeros((places, self.policy.acting_size), np.float32)

    def player(self, places: int) -> Player:
        """What plays that many episodes side by side."""
        return _Remembering(self, places)

    def predict(
        self,
        obs: Any,
        generator: torch.Generator | None = None,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, State]:
        """The action for one raw observation or for a batch, and the states after it `[B, acting_size]`.

        `state` is what the last call gave (`None`: episodes begin), `episode_start` says whose episode
        begins here (a bool, or one a row).
        """
        rows, single = self.encoded(obs)
        before = self._before(state, episode_start, len(rows))
        with self.ready():
            actions, after = self.act(rows, before, generator)
        return self.told(actions, single), after

    def _before(self, state: Any, episode_start: Any, count: int) -> State:
        """The states that `count` observations meet: a copy, zeros where an episode begins."""
        before = self.begun(count)
        starts = _starts(episode_start, count)
        if state is None:
            return before
        if is_masked(state):
            raise ShapeError("some of the state is masked; give what predict returned")
        given = np.asarray(state)
        if given.shape != before.shape:
            raise ShapeError(
                f"state has shape {given.shape}, expected {before.shape}: what predict gave last for as "
                "many observations, or None where episodes begin"
            )
        if not np.isfinite(given).all():
            raise NonFiniteError("the state is not finite; give what predict returned")
        before[:] = given
        before[starts] = 0.0
        return before


def _starts(said: Any, count: int) -> NDArray[np.bool_]:
    """Whether an episode begins in each of `count` rows, as `said`; None: in none."""
    if said is None:
        return np.zeros(count, np.bool_)
    given = np.asarray(said)
    if is_masked(said):
        raise ShapeError("some of episode_start is masked, expected True or False for each row")
    if given.shape not in ((), (count,)):
        raise ShapeError(
            f"episode_start has shape {given.shape}, expected a bool or ({count},), one for each "
            "observation"
        )
    if not np.isin(given, (0, 1)).all():
        raise ConfigError(
            f"episode_start={said!r}: expected True or False, or 1 or 0, for each row"
        )
    return np.broadcast_to(given.astype(np.bool_), count)


class _Remembering:
    """Keeps the state of each place."""

    def __init__(self, actor: RecurrentActor, places: int) -> None:
        self._actor = actor
        self._state = actor.begun(places)

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        actions, self._state = self._actor.act(rows, self._state, generator)
        return actions

    def paid(self, rewards: Sequence[float]) -> None:
        pass

    def begin(self, place: int) -> None:
        self._state[place] = 0.0

    def keep(self, places: Sequence[int]) -> None:
        self._state = self._state[list(places)]
