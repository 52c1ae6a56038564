"""The configuration that a checkpoint is loaded with: its own, and what the user gives again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.configs import RunConfig, leaves, make, make_run, require_device, upgrade_saved
from rlox.configs.code import Code, named, require_trusted
from rlox.configs.params import object_name
from rlox.configs.schedules import Schedule, other_ways, scheduled
from rlox.configs.secrets import filled, looked_up
from rlox.devices import is_module
from rlox.envs.make import EnvSource
from rlox.errors import CheckpointError, ConfigError
from rlox.training.setup import env_name, first_line

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.runs.checkpoint import Checkpoint

__all__ = ["Given", "Objects", "fitting", "reread", "with_object"]

T = TypeVar("T")

REMEDY = "give it again (env_id=..., env_kwargs=..., policy=..., wrappers=...), or trust=True"


class Objects:
    """What a façade was given beside its configuration, where that is more than a module."""

    def named(self, config: RunConfig) -> RunConfig:
        """The configuration with the names of these, which it cannot hold."""
        return config

    def remade(self, saved: Checkpoint) -> Objects:
        """With what a checkpoint has of these."""
        return self


@dataclass(frozen=True)
class Given:
    """What `from_checkpoint` is told besides the path."""

    env_id: EnvSource | None = None
    env_kwargs: Mapping[str, Any] | None = None
    policy: nn.Module | Objects | Code | None = None
    wrappers: Sequence[Code] | None = None
    reward_wrappers: Sequence[Code] | None = None
    schedules: Mapping[str, Schedule] | None = None
    trust: bool = False

    @property
    def module(self) -> Any:
        """The policy, if it is an object, or what is given in its place."""
        given = is_module(self.policy) or isinstance(self.policy, Objects)
        return self.policy if given else None

    def objects(self, saved: Checkpoint) -> Any:
        """The same, with what the checkpoint has of it."""
        return self.policy.remade(saved) if isinstance(self.policy, Objects) else self.module

    def config(self, saved: RunConfig, path: Path) -> RunConfig:
        """What the checkpoint's configuration becomes; `ConfigError` for what is missing.

        A checkpoint is data: code that it names is imported only where it is given again, or trusted.
        """
        frozen = replace(saved, callbacks=())  # of further training, and none are saved
        if self.env_id is None and frozen.env.id.startswith("<"):
            raise ConfigError(
                f"{path} was trained on an environment object, {frozen.env.id}; pass it: "
                "from_checkpoint(path, env_id=...)"
            )
        if not isinstance(self.trust, bool):
            raise ConfigError(f"trust={self.trust!r}: expected True or False")
        config = self._applied(frozen)
        if not self.trust:
            require_trusted(config, list(self._typed()), str(path), lambda _: REMEDY)
        return looked_up(config) if self.trust else config

    def _applied(self, config: RunConfig) -> RunConfig:
        env: dict[str, Any] = {}
        if self.env_id is not None:
            env["id"] = env_name(self.env_id)
        if self.env_kwargs:
            env["kwargs"] = {**config.env.kwargs, **filled(self.env_kwargs, "env.kwargs")}
        for name in ("wrappers", "reward_wrappers"):
            if (given := getattr(self, name)) is not None:
                env[name] = filled(tuple(given), f"env.{name}")
        algo: dict[str, Any] = scheduled(config.algo, self.schedules or {})
        kind: Any = type(config.algo)
        displaced = {f.name: f.default for f in fields(kind) if f.name in other_ways(kind, algo)}
        algo = displaced | algo
        if self.policy is not None and self.module is None:
            algo["policy"] = filled(self.policy, "algo.policy")
        made = replace(
            config, env=_with(config.env, env, "env"), algo=_with(config.algo, algo, "algo")
        )
        return with_object(made, self.module)

    def _typed(self) -> Iterator[str]:
        """What the user has named again."""
        yield from (str(value) for _, value in leaves(self.env_kwargs or {}))
        if isinstance(self.env_id, str):
            yield self.env_id
        for spec in (self.policy, *(self.wrappers or ()), *(self.reward_wrappers or ())):
            if isinstance(spec, (str, Mapping)):
                yield named(spec)


def _with(config: T, given: Mapping[str, Any], path: str) -> T:
    """The configuration object with other values, checked as those of a constructor are."""
    declared: Any = config
    now = {f.name: getattr(config, f.name) for f in fields(declared)}
    return make(type(config), {**now, **given}, path)


def reread(
    saved: Mapping[str, Any], device: str | None = None, backend: str | None = None
) -> RunConfig:
    """A saved configuration with another device, or engine of the updates, where one is given.

    `ConfigError` for what is none.
    """
    if backend is not None:
        saved = {**saved, "algo": {**saved["algo"], "backend": backend}}
    config = make_run(upgrade_saved(saved))
    if device is None:
        return config
    require_device(device)
    return replace(config, device=device)


def with_object(config: RunConfig, policy: nn.Module | Objects | None) -> RunConfig:
    """The configuration with the name of a policy object, which it cannot hold."""
    if isinstance(policy, Objects):
        return policy.named(config)
    if policy is None or "policy" not in {f.name for f in fields(config.algo)}:
        return config
    algo: Any = config.algo
    return replace(config, algo=replace(algo, policy=object_name(policy)))


@contextmanager
def fitting(algo: str, env: str) -> Iterator[None]:
    """What a state of another shape raises comes out as a `CheckpointError`."""
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
        raise CheckpointError(
            f"the checkpoint does not fit {algo} on {env}: {first_line(error)}"
        ) from error
