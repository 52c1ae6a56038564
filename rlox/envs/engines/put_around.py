"""What is put around single environments, which engines have not: told with the preset that it came from."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlox.configs import EnvConfig
from rlox.errors import ConfigError

__all__ = ["PutAroundError", "preset_named", "require_fits"]

# What only single environments have around them.
_SINGLE = (
    "env.action_repeat",
    "env.obs_keys",
    "env.wrappers",
    "env.reward_wrappers",
    "env.record_every",
    "env.workers",
)


class PutAroundError(ConfigError):
    """Settings that an engine has not, as they are put around single environments: `keys`."""

    def __init__(self, config: EnvConfig, pool: bool, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        one = len(keys) == 1
        who = f"env.backend={config.backend}" if pool else f"{config.id}, a vectorised environment,"
        self._what = f"{who} has no {', '.join(keys)}, which {'is' if one else 'are'} put around"
        self._other = "use env.backend=gymnasium" if pool else "use gymnasium.wrappers.vector"
        out = f"leave {'it' if one else 'them'} out"
        super().__init__(f"{self._what} single environments; {out}, or {self._other}")

    def of_preset(self, preset: str, without: str, keys: Container[str]) -> ConfigError:
        """The error where some are `keys` of a preset's, which `without` leaves out."""
        own = [key for key in self.keys if key in keys]
        if not own:
            return self
        return ConfigError(
            f"{self._what} single environments; {', '.join(own)} came with the tuned preset {preset}: "
            f"{without}, or {self._other}"
        )


@contextmanager
def preset_named(preset: str | None, without: str, keys: Container[str]) -> Iterator[None]:
    """While active, settings that do not fit are told as the tuned preset's where they are its `keys`."""
    try:
        yield
    except PutAroundError as error:
        if preset is None:
            raise
        raise error.of_preset(preset, without, keys) from error


def require_fits(config: EnvConfig, source: Any) -> None:
    """Raise `ConfigError` for settings that there are for single environments only."""
    engine = config.backend in ("envpool", "ale") and source is None
    alone = (
        [*_SINGLE]
        if engine
        else [*_SINGLE, "env.max_episode_steps", "env.repeat_action_probability"]
    )
    found = [key for key in config.put_around if key in alone]
    if engine and config.action_mask != "none":
        found.append("env.action_mask")
    if found:
        raise PutAroundError(config, engine, found)
    if config.precision != "f64" or (config.backend == "native"):
        key = (
            "env.backend=native"
            if config.backend == "native"
            else f"env.precision={config.precision}"
        )
        raise ConfigError(f"{key} needs a native environment, {config.id} has an engine of its own")
