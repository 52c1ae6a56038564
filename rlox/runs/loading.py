"""The configuration of a loaded checkpoint, with the user's overrides, and the check of its spaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import RunConfig, dotted_items, make, make_run, require_device, upgrade_saved_config
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig
from rlox.configs.params import Code, object_name, require_trusted, spec_name
from rlox.configs.schedules import Schedule, check_schedules, conflicting_fields
from rlox.configs.secrets import resolve, substitute
from rlox.devices import is_module
from rlox.envs.make import EnvLike
from rlox.envs.masks import OBSERVATION, MaskedSpace
from rlox.envs.spaces import BYTE, format_space
from rlox.errors import CheckpointError, ConfigError, RloxError
from rlox.training.actor import BaseActor
from rlox.training.setup import env_name, first_line

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.runs.checkpoint import Checkpoint

__all__ = [
    "LoadOverrides",
    "RuntimeObjects",
    "describe_space",
    "describe_spaces",
    "load_config",
    "require_same_spaces",
    "restore_errors",
    "with_policy_name",
]

T = TypeVar("T")

TRUST_REMEDY = "give it again (env_id=..., env_kwargs=..., policy=..., wrappers=...), or trust=True"


class RuntimeObjects:
    """The objects given to a façade that a configuration cannot hold, where they are more than one module."""

    def with_names(self, config: RunConfig) -> RunConfig:
        """Return the configuration with the names of these objects, which it cannot hold."""
        return config

    def restored_from(self, checkpoint: Checkpoint) -> RuntimeObjects:
        """Return these objects with the parts that a checkpoint has."""
        return self


@dataclass(frozen=True)
class LoadOverrides:
    """The arguments of `from_checkpoint` that change the saved configuration, and `trust`."""

    env_id: EnvLike | None = None
    env_kwargs: Mapping[str, Any] | None = None
    policy: nn.Module | RuntimeObjects | Code | None = None
    wrappers: Sequence[Code] | None = None
    reward_wrappers: Sequence[Code] | None = None
    schedules: Mapping[str, Schedule] | None = None
    trust: bool = False

    @property
    def module(self) -> Any:
        """The policy object, or the `RuntimeObjects` in its place; None if the policy is named or absent."""
        is_object = is_module(self.policy) or isinstance(self.policy, RuntimeObjects)
        return self.policy if is_object else None

    def runtime_objects(self, checkpoint: Checkpoint) -> Any:
        """Return `module`; runtime objects get the parts that the checkpoint has."""
        return (
            self.policy.restored_from(checkpoint) if isinstance(self.policy, RuntimeObjects) else self.module
        )

    def apply_to(self, saved_config: RunConfig, path: Path) -> RunConfig:
        """Return the checkpoint's configuration with overrides; raise `ConfigError` for missing objects.

        A checkpoint is data: code that it names is imported only if it is given again, or trusted.
        """
        without_callbacks = replace(saved_config, callbacks=())  # callbacks are not saved
        if self.env_id is None and without_callbacks.env.id.startswith("<"):
            raise ConfigError(
                f"{path} was trained on an environment object, {without_callbacks.env.id}; pass it: "
                "from_checkpoint(path, env_id=...)"
            )
        if not isinstance(self.trust, bool):
            raise ConfigError(f"trust={self.trust!r}: expected True or False")
        config = self._with_overrides(without_callbacks)
        if not self.trust:
            require_trusted(config, list(self._names_given_again()), str(path), lambda _: TRUST_REMEDY)
        return resolve(config) if self.trust else config

    def _with_overrides(self, config: RunConfig) -> RunConfig:
        env: dict[str, Any] = {}
        if self.env_id is not None:
            env["id"] = env_name(self.env_id)
        if self.env_kwargs:
            env["kwargs"] = {**config.env.kwargs, **substitute(self.env_kwargs, "env.kwargs")}
        for name in ("wrappers", "reward_wrappers"):
            if (wrappers := getattr(self, name)) is not None:
                env[name] = substitute(tuple(wrappers), f"env.{name}")
        algo: dict[str, Any] = check_schedules(config.algo, self.schedules or {})
        config_class: Any = type(config.algo)
        reset_fields = {
            f.name: f.default
            for f in fields(config_class)
            if f.name in conflicting_fields(config_class, algo)
        }
        algo = reset_fields | algo
        if self.policy is not None and self.module is None:
            algo["policy"] = substitute(self.policy, "algo.policy")
        overridden_config = replace(
            config,
            env=_replace_checked(config.env, env, "env"),
            algo=_replace_checked(config.algo, algo, "algo"),
        )
        return with_policy_name(overridden_config, self.module)

    def _names_given_again(self) -> Iterator[str]:
        """Yield the names that the user has given again."""
        yield from (str(value) for _, value in dotted_items(self.env_kwargs or {}))
        if isinstance(self.env_id, str):
            yield self.env_id
        for spec in (self.policy, *(self.wrappers or ()), *(self.reward_wrappers or ())):
            if isinstance(spec, (str, Mapping)):
                yield spec_name(spec)


def _replace_checked(config: T, changes: Mapping[str, Any], path: str) -> T:
    """Return the configuration with these changes, checked like constructor arguments."""
    declared: Any = config
    current_values = {f.name: getattr(config, f.name) for f in fields(declared)}
    return make(type(config), {**current_values, **changes}, path)


def load_config(data: Mapping[str, Any], device: str | None = None, backend: str | None = None) -> RunConfig:
    """Return a saved configuration, with another `device` or `backend` if given.

    Raises `ConfigError` for an unknown device or engine.
    """
    if backend is not None:
        data = {**data, "algo": {**data["algo"], "backend": backend}}
    config = make_run(upgrade_saved_config(data))
    if device is None:
        return config
    require_device(device)
    return replace(config, device=device)


def with_policy_name(config: RunConfig, policy: nn.Module | RuntimeObjects | None) -> RunConfig:
    """Return the configuration with the name of a policy object, which it cannot hold."""
    if isinstance(policy, RuntimeObjects):
        return policy.with_names(config)
    if policy is None or "policy" not in {f.name for f in fields(config.algo)}:
        return config
    algo: Any = config.algo
    return replace(config, algo=replace(algo, policy=object_name(policy)))


@contextmanager
def restore_errors(algo: str, env: str) -> Iterator[None]:
    """Turn errors from a state that does not fit into a `CheckpointError`."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise CheckpointError(f"the checkpoint does not fit {algo} on {env}: {first_line(error)}") from error


def describe_space(space: gym.Space[Any], with_bounds: bool = False) -> str:
    """Describe a space as text; two spaces that a policy cannot tell apart have the same text.

    The bounds of a Box and whether it holds integers are included only with `with_bounds`: actions are
    clipped to their bounds or scaled over them, observations are not. Axes of length 1 are ignored, except
    for uint8 Boxes, which may be images. An action mask next to the observations is ignored: weights can be
    transferred between policies with and without masks.
    """
    if isinstance(space, MaskedSpace):
        return describe_space(space[OBSERVATION], with_bounds)
    if isinstance(space, spaces.Dict):
        part_texts = (f"{key}: {describe_space(part, with_bounds)}" for key, part in space.spaces.items())
        return f"Dict({', '.join(part_texts)})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(describe_space(part, with_bounds) for part in space.spaces)})"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({int(space.n)}{_start_text(space.start)})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({space.nvec.tolist()}{_start_text(space.start)})"
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary({_shape_text(space.shape)})"
    if isinstance(space, spaces.Box):
        shape = space.shape if space.dtype == BYTE else [n for n in space.shape if n != 1]
        return f"Box({_shape_text(shape)}{_bounds_text(space) if with_bounds else ''})"
    return format_space(space)


def _start_text(start: Any) -> str:
    """Format the lowest values of choices; empty if all are 0."""
    return f", start={np.asarray(start).tolist()}" if np.any(start) else ""


def _shape_text(shape: Any) -> str:
    return "x".join(map(str, shape)) or "1"


def _bounds_text(box: spaces.Box) -> str:
    dtype_text = "" if box.dtype.kind == "f" else ", whole numbers"
    return f", from {_bound_text(box.low)} to {_bound_text(box.high)}{dtype_text}"


def _bound_text(bound: NDArray[Any]) -> str:
    """Format bounds with six digits, which float32 rounding does not change; one number if all are equal."""
    value_texts = [f"{value:g}" for value in bound.reshape(-1).astype(np.float32).tolist()]
    return value_texts[0] if len({*value_texts}) == 1 else f"[{', '.join(value_texts)}]"


MAX_TEXT_LENGTH = 120  # characters of a space in a message


def describe_spaces(config: RunConfig, actor: Any) -> dict[str, str]:
    """Describe the spaces of `actor`; empty for a text model, and if sizes are given in place of spaces."""
    algo = config.algo
    has_sizes = isinstance(algo, OfflineAlgorithmConfig) and algo.has_sizes
    if not isinstance(actor, BaseActor) or (has_sizes and config.env.id == NO_ENV):
        return {}
    return {
        "observations": describe_space(actor.observations.space),
        "actions": describe_space(actor.actions.space, with_bounds=True),
    }


def require_same_spaces(
    state: Mapping[str, Any],
    config: RunConfig,
    actor: Any,
    error_class: type[RloxError] = CheckpointError,
) -> None:
    """Raise `error_class` if the spaces of `actor` differ from those in a checkpoint's `state`.

    Checkpoints of earlier versions have no spaces and are not checked.
    """
    saved_spaces = state.get("spaces", {})
    for name, current_space in describe_spaces(config, actor).items():
        if name in saved_spaces and saved_spaces[name] != current_space:
            raise error_class(
                f"its policy learned with {name} {_truncate(saved_spaces[name])}, but {name} here are "
                f"{_truncate(current_space)}; use an environment with the policy's spaces, or wrap this one "
                "so that it has them"
            )


def _truncate(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 3] + "..."
