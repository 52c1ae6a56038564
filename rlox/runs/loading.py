"""The configuration of a loaded checkpoint, with the user's overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.configs import RunConfig, dotted_items, make, make_run, require_device, upgrade_saved_config
from rlox.configs.code import Code, require_trusted, spec_name
from rlox.configs.params import object_name
from rlox.configs.schedules import Schedule, check_schedules, conflicting_fields
from rlox.configs.secrets import resolve, substitute
from rlox.devices import is_module
from rlox.envs.make import EnvLike
from rlox.errors import CheckpointError, ConfigError
from rlox.training.setup import env_name, first_line

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.runs.checkpoint import Checkpoint

__all__ = ["LoadOverrides", "RuntimeObjects", "load_config", "restore_errors", "with_policy_name"]

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
