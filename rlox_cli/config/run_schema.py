"""The keys of a training run, in `rlox train`, sweeps and saved configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rlox.configs import (
    ALGO_CONFIGS,
    BUFFER_CONFIGS,
    LOGGER_CONFIGS,
    AutoBufferConfig,
    EnvConfig,
    RunConfig,
)
from rlox.errors import ConfigError
from rlox_cli.config.schema import Group, Schema, defaults_of, keys_of
from rlox_cli.search.settings import SEARCH, SearchOptions

AUTO = AutoBufferConfig().name


def auto_buffer_option(option: str) -> dict[str, Any]:
    """Return the content of `auto`, which refers to `auto/<algo>`, or of the latter; empty for others.

    `auto/<algo>` has the keys of the only buffer of an algorithm, or those that all its buffers have.
    """
    if option == AUTO:
        return {"defaults": [{f"{AUTO}@_here_": "${algo}"}, "_self_"]}
    folder, _, algo = option.partition("/")
    if folder != AUTO or algo not in ALGO_CONFIGS:
        return {}
    buffers = ALGO_CONFIGS[algo].buffers
    return defaults_of(BUFFER_CONFIGS[AUTO if len(buffers) > 1 else buffers[0]])


ALGO = Group("algo", ALGO_CONFIGS)
ENV = Group(
    "env",
    {"base": EnvConfig},
    help_listing="any Gymnasium id, e.g. env=Acrobot-v1, or env=module:MyEnv-v0",
)
BUFFER = Group("buffer", BUFFER_CONFIGS, content_without_file=auto_buffer_option)
LOGGER = Group("logger", LOGGER_CONFIGS, is_multiple=True)

RUN = Schema(
    "run",
    RunConfig,
    primary="train",
    groups=(ALGO, ENV, BUFFER, LOGGER),
    presets=("tuned", "exp", SEARCH),
    choosing_presets=("exp",),
    special_keys=(
        "resume",
        "trust",
        "sweep.workers",
        *(key.name for key in keys_of(SearchOptions, f"{SEARCH}.")),
    ),
    hint="several loggers: logger=[csv,tensorboard]; without the tuned preset: tuned=null\n"
    "  presets of every algorithm: rlox list tuned",
)


def single_env_rewriter(schema: Schema) -> Callable[[Sequence[str], Sequence[Path]], Iterable[str]]:
    """Return a function that rewrites the overrides of a command with one environment for Hydra."""

    def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
        from rlox_cli.config.overrides import allow_open_keys, env_id_as_group, require_lists

        require_lists(schema, overrides, folders)
        env_overrides = [o for o in overrides if o.startswith("env=")]
        for override in overrides:
            key, _, value = override.partition("=")
            if key.lstrip("~") == "env" and (value in ("", "null") or value[:1] == "["):
                raise ConfigError(f"{override}: name one environment, e.g. env=my_pkg:MyEnv-v0")
            yield allow_open_keys(env_id_as_group(override, env_overrides))

    return rewrite
