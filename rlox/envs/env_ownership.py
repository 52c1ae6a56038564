"""Ownership of environment objects that several runs in this process may step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import gymnasium as gym

from rlox.errors import EnvError

__all__ = ["EnvOwner"]

Env = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

_OWNERS: WeakValueDictionary[int, EnvOwner] = WeakValueDictionary()  # current owner of each object, by its id


class EnvOwner:
    """Base class of objects that step environments; runs may share one environment, but not at the same time.

    If another run begins episodes in an environment object, the first run's observations are stale, and its
    next step raises an error.
    """

    name: str
    closed = False
    _is_displaced = False

    def claim(self, envs: Iterable[Env]) -> None:
        """Take ownership of these environments; `EnvError` if they are closed."""
        self._require_open()
        for env in envs:
            key = id(env.unwrapped)
            _OWNERS.get(key, self)._is_displaced = True
            _OWNERS[key] = self
        self._is_displaced = False

    def require_ownership(self) -> None:
        """Raise `EnvError` if the environments are closed, or if another run has begun episodes in one."""
        self._require_open()
        if self._is_displaced:
            raise EnvError(
                f"{self.name}: another run has begun episodes in the same object that this run steps, which "
                "ended this run's episodes; give each run an environment of its own, or a callable that "
                "makes one (lambda: MyEnv(), lambda num_envs: MyVectorEnv(num_envs))"
            )

    def _require_open(self) -> None:
        if self.closed:
            raise EnvError(f"{self.name} is closed, expected open environments; make new ones")
