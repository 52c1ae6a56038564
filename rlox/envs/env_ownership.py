"""Whose turn it is with an environment of this process, which several runs may be given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import gymnasium as gym

from rlox.errors import EnvError

__all__ = ["EnvOwner"]

Env = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

_OWNERS: WeakValueDictionary[int, EnvOwner] = WeakValueDictionary()  # who began in an object, by its id


class EnvOwner:
    """Steps objects that another run may step too, one run after the other.

    A run that goes on after another one has begun episodes in its object would act on observations that are
    no longer the object's: it is refused.
    """

    name: str
    closed = False
    _is_displaced = False

    def claim(self, envs: Iterable[Env]) -> None:
        """From now on these are stepped from here; `EnvError` where they are closed."""
        self._require_open()
        for env in envs:
            key = id(env.unwrapped)
            _OWNERS.get(key, self)._is_displaced = True
            _OWNERS[key] = self
        self._is_displaced = False

    def require_ownership(self) -> None:
        """`EnvError` where they are closed, or another run has begun episodes in one of them since."""
        self._require_open()
        if self._is_displaced:
            raise EnvError(
                f"{self.name}: another run has begun episodes in the very object that this one steps, and "
                "ended those under way; give each run an environment of its own, or what makes one "
                "(lambda: MyEnv(), lambda num_envs: MyVectorEnv(num_envs))"
            )

    def _require_open(self) -> None:
        if self.closed:
            raise EnvError(f"{self.name} is closed, expected open environments; make others")
