"""Environments of one process are objects of their own: one in two places would mix their episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv

from rlox.envs.engines.single import Single
from rlox.errors import EnvError

__all__ = ["beneath", "require_apart"]

Env = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

REMEDY = (
    "make a new one in each call (lambda: MyEnv()), or pass the environment itself, which is copied"
)


def beneath(env: Env) -> list[object]:
    """The objects beneath all wrappers: the environment, or an engine and those that it steps one by one."""
    inner: object = env.unwrapped
    if isinstance(inner, Single):
        return beneath(inner.engine)
    stepped = inner.envs if isinstance(inner, SyncVectorEnv) else ()
    return [inner, *(each for one in stepped for each in beneath(one))]


def require_apart(envs: Sequence[Env], name: str, training: Iterable[object] = ()) -> None:
    """`EnvError` where two of the environments are one object, or one of them is among `training`.

    `training` are the objects `beneath` what training steps. Nothing is closed: an object that its
    factory gives again is somebody else's too.
    """
    ours = [id(each) for env in envs for each in beneath(env)]
    if not set(map(id, training)).isdisjoint(ours):
        raise EnvError(
            f"{name}: what makes it gave the very object that training steps, expected another one; {REMEDY}"
        )
    if len(set(ours)) < len(ours):
        raise EnvError(
            f"{name}: what makes it gave one object for several environments, which would share its state, "
            f"expected one for each; {REMEDY}"
        )
