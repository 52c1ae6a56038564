"""Check that environments in one process are distinct objects: a shared object would mix their episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv

from rlox.envs.engines.single import SingleEngineEnv
from rlox.errors import EnvError

__all__ = ["list_unwrapped", "require_distinct_envs"]

Env = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

SHARED_ENV_REMEDY = (
    "make a new one in each call (lambda: MyEnv()), or pass the environment itself, which is copied"
)


def list_unwrapped(env: Env) -> list[object]:
    """List the objects beneath all wrappers: the environment, or an engine and its environments."""
    unwrapped: object = env.unwrapped
    if isinstance(unwrapped, SingleEngineEnv):
        return list_unwrapped(unwrapped.engine)
    sub_envs = unwrapped.envs if isinstance(unwrapped, SyncVectorEnv) else ()
    return [unwrapped, *(unwrapped_env for sub_env in sub_envs for unwrapped_env in list_unwrapped(sub_env))]


def require_distinct_envs(envs: Sequence[Env], name: str, training_objects: Iterable[object] = ()) -> None:
    """Raise `EnvError` if two environments are one object, or one of them is among `training_objects`.

    `training_objects` are the objects that training steps, beneath their wrappers (`list_unwrapped`). The
    environments stay open, because an object that a factory returned twice may be in use elsewhere.
    """
    object_ids = [id(unwrapped_env) for env in envs for unwrapped_env in list_unwrapped(env)]
    if not set(map(id, training_objects)).isdisjoint(object_ids):
        raise EnvError(
            f"{name}: its factory returned the same object that training steps, expected another one; "
            f"{SHARED_ENV_REMEDY}"
        )
    if len(set(object_ids)) < len(object_ids):
        raise EnvError(
            f"{name}: its factory returned one object for several environments, which would share its state, "
            f"expected one for each; {SHARED_ENV_REMEDY}"
        )
