"""Errors for settings that wrap single environments, which engines do not support.

An error can name the preset that the settings came from.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlox.configs import EnvConfig
from rlox.errors import ConfigError

__all__ = ["SingleEnvSettingError", "name_preset_in_errors", "require_engine_settings"]

# Settings that only wrap single environments.
_SINGLE_ENV_KEYS = (
    "env.action_repeat",
    "env.obs_keys",
    "env.wrappers",
    "env.reward_wrappers",
    "env.record_every",
    "env.workers",
)


class SingleEnvSettingError(ConfigError):
    """An engine does not support the settings `keys`, because they wrap single environments."""

    def __init__(self, config: EnvConfig, is_builtin: bool, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        is_one = len(keys) == 1
        label = f"env.backend={config.backend}" if is_builtin else f"{config.id}, a vectorised environment,"
        self._problem = f"{label} does not support {', '.join(keys)}, which {'wraps' if is_one else 'wrap'}"
        self._alternative = "use env.backend=gymnasium" if is_builtin else "use gymnasium.wrappers.vector"
        remedy = f"leave {'it' if is_one else 'them'} out"
        super().__init__(f"{self._problem} single environments; {remedy}, or {self._alternative}")

    def for_preset(self, preset: str, remedy: str, keys: Container[str]) -> ConfigError:
        """Return an error that also names the preset if it set some of the settings, else this error.

        `remedy` says how to leave the preset's settings out; `keys` are those settings.
        """
        preset_keys = [key for key in self.keys if key in keys]
        if not preset_keys:
            return self
        return ConfigError(
            f"{self._problem} single environments; {', '.join(preset_keys)} came with the tuned preset "
            f"{preset}: {remedy}, or {self._alternative}"
        )


@contextmanager
def name_preset_in_errors(preset: str | None, remedy: str, keys: Container[str]) -> Iterator[None]:
    """Context manager: errors about unsupported settings in `keys` name the tuned preset as their source."""
    try:
        yield
    except SingleEnvSettingError as error:
        if preset is None:
            raise
        raise error.for_preset(preset, remedy, keys) from error


def require_engine_settings(config: EnvConfig, source: Any) -> None:
    """Raise `ConfigError` for settings that an engine does not support."""
    is_builtin = config.backend in ("envpool", "ale") and source is None
    single_env_keys = (
        [*_SINGLE_ENV_KEYS]
        if is_builtin
        else [*_SINGLE_ENV_KEYS, "env.max_episode_steps", "env.repeat_action_probability"]
    )
    unsupported_keys = [key for key in config.gymnasium_only if key in single_env_keys]
    if is_builtin and config.action_mask != "none":
        unsupported_keys.append("env.action_mask")
    if unsupported_keys:
        raise SingleEnvSettingError(config, is_builtin, unsupported_keys)
    if config.precision != "f64" or (config.backend == "native"):
        key = "env.backend=native" if config.backend == "native" else f"env.precision={config.precision}"
        raise ConfigError(f"{key} needs a native environment, but an engine steps {config.id}")
