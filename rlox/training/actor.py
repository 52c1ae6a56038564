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
from rlox.policies.on_demand import OnDemand

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import Tensor

    from rlox.policies.base import Policy


__all__ = ["Actor", "ActorOf", "Forgetful", "NativeActor", "Player", "player_of"]

P = TypeVar("P")


class Player(Protocol):
    """What plays episodes side by side, one in each place, all of them new at first."""

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Actions for encoded observations `[B, obs_dim]`, one a place; inside the actor's `ready`."""

    def paid(self, rewards: Sequence[float]) -> None:
        """What the last actions paid, `[B]`; between the step and the next `begin`, `keep` or `act`."""

    def begin(self, place: int) -> None:
        """A new episode begins in that place."""

    def keep(self, places: Sequence[int]) -> None:
        """Only these places go on, numbered from 0 in this order."""


@dataclass(frozen=True)
class ActorOf(ABC, Generic[P]):
    """Normalises as in training, with frozen statistics; Box actions are within the bounds."""

    policy: P
    observations: ObservationCodec
    actions: ActionCodec
    normalizer: Normalizer | None
    device: torch.device | str

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The block in which `act` is called: once around many calls, as it looks at every module."""
        import torch

        from rlox.policies.base import acting

        policy: Any = self.policy
        with torch.inference_mode(), acting(policy):
            yield

    def weights(self) -> dict[str, Any]:
        """What a run begins with and a checkpoint has, by name."""
        policy: Any = self.policy
        return dict(policy.state_dict())

    @abstractmethod
    def player(self, places: int) -> Player:
        """What plays that many episodes side by side."""

    @property
    def module(self) -> Any:
        """The policy as torch has it."""
        return self.policy

    def normalized(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Encoded observations `[B, obs_dim]`, which stay as they are, as the policy sees them."""
        if self.normalizer:
            rows = rows.copy()
            self.normalizer.apply(rows)
        return rows

    def seen(self, rows: NDArray[Any]) -> Tensor:
        """The same as a tensor on the policy's device."""
        import torch

        return torch.from_numpy(self.normalized(rows)).to(self.device)

    def given(self, chosen: Tensor) -> Any:
        """What the policy chose as environments take it, `ActionCodec.to_env`."""
        return self.taken(chosen.cpu().numpy())

    def taken(self, actions: NDArray[Any]) -> Any:
        """The same of an array; NonFiniteError for numbers that are none."""
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise NonFiniteError(
                "the policy's action is not finite; look at its weights and at the observation"
            )
        return self.actions.to_env(actions)

    def encoded(self, obs: Any, action_masks: Any = None) -> tuple[NDArray[Any], bool]:
        """Raw observations as rows `[B, obs_dim]`, and whether it was a single one, not a batch.

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
        except (ValueError, IndexError, TypeError, RuntimeError) as error:  # RuntimeError: torch's
            shape = shape_of(obs)
            plain = isinstance(shape, tuple) and codec.shape in (shape, shape[1:])
            expected = "" if plain else f", expected {codec.shape} or a batch of it"
            said = f"observation has shape {shape}{expected}: {error}"
            raise ShapeError(said) from error
        numbers = codec.numbers_of(rows)
        if not np.isfinite(numbers).all():
            raise NonFiniteError(
                f"the observation is not finite: {numbers[~np.isfinite(numbers).all(1)][0]}"
            )
        return rows, single

    def told(self, actions: Any, single: bool) -> Any:
        """Actions of environments as `predict` gives them."""
        if not single:
            return actions
        first = self.actions.each(actions)[0]
        return int(first) if self.actions.discrete else first


def player_of(actor: Any, algo: str) -> ActorOf[Any]:
    """What acts in environments; `ConfigError` for a model of text, which does not."""
    if not isinstance(actor, ActorOf):
        raise ConfigError(
            f"{algo} learns text, its model acts in no environment; use a run of another algorithm"
        )
    return actor


class Forgetful(ActorOf[P]):
    """An actor without a memory: an action depends on nothing but what is seen."""

    @abstractmethod
    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """Actions for encoded observations `[B, obs_dim]`, which stay as they are; inside `ready`.

        The best ones, or sampled ones if there is a generator to sample with.
        """

    def player(self, places: int) -> Player:
        """What plays that many episodes side by side."""
        return _Forgetful(self)

    def predict(
        self, obs: Any, generator: torch.Generator | None = None, action_masks: Any = None
    ) -> Any:
        """The action for one raw observation (an `int` for Discrete) or for a batch, as the space has it."""
        rows, single = self.encoded(obs, action_masks)
        with self.ready():
            actions = self.act(rows, generator)
        return self.told(actions, single)


class Actor(Forgetful[Any]):
    """A module of torch."""

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """The best actions, or sampled ones."""
        from rlox.policies.user import drawn, require_actions

        policy: Policy = self.policy
        seen = self.seen(rows)
        chosen = policy.mode(seen) if generator is None else drawn(policy, seen, generator)
        method = "mode" if generator is None else "sample"
        require_actions(policy, method, chosen, len(rows), self.actions)
        return self.given(chosen)


class NativeActor(Forgetful[OnDemand]):
    """A policy in Rust. Its module is asked to sample, and where the engine would pass over what it has."""

    @property
    def module(self) -> Any:
        """The policy as torch has it."""
        return self.policy.module

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Nothing has to be made ready."""
        yield

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        """The best actions, or sampled ones."""
        if generator is not None or not self.policy.plays:
            return self._by_module(rows, generator)
        obs, mask, masked = self.normalized(rows), None, self.observations.masked
        if masked:
            obs, mask = obs[:, :-masked], obs[:, -masked:] != 0
        return self.taken(self.policy.best(obs, mask))

    def _by_module(self, rows: NDArray[Any], generator: torch.Generator | None) -> Any:
        parts = (self.observations, self.actions, self.normalizer, self.device)
        actor = Actor(self.policy.module, *parts)
        with actor.ready():
            return actor.act(rows, generator)


@dataclass(frozen=True)
class _Forgetful:
    """Nothing to keep between steps."""

    actor: Forgetful[Any]

    def act(self, rows: NDArray[Any], generator: torch.Generator | None = None) -> Any:
        return self.actor.act(rows, generator)

    def paid(self, rewards: Sequence[float]) -> None:
        pass

    def begin(self, place: int) -> None:
        pass

    def keep(self, places: Sequence[int]) -> None:
        pass
