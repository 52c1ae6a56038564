"""Code and secrets that only a run folder asks for, and what the user types to allow them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlox.configs import RunConfig
from rlox.configs.code import paths, require_trusted
from rlox.configs.secrets import looked_up, references
from rlox.errors import ConfigError

# What a resumed run's command line can say in one word; for anything else the folder is trusted as a whole.
_ONE_WORD = {"env.id": "env", "algo.policy": "algo.policy"}


def taken(overrides: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether the folder is trusted, and the other overrides."""
    given = [o for o in overrides if o.partition("=")[0] == "trust"]
    for override in given:
        if override not in ("trust=true", "trust=false"):
            raise ConfigError(f"{override}: expected trust=true or trust=false")
    return bool(given) and given[-1] == "trust=true", [o for o in overrides if o not in given]


def allowed(
    config: RunConfig, trust: bool, typed: Sequence[str], source: Path, command: str
) -> RunConfig:
    """The configuration of a run folder with the values it asks for; `ConfigError` unless all is trusted.

    `typed` are the overrides in which the user repeats what the folder names.
    """
    if not trust:
        require_trusted(
            config,
            typed,
            str(source),
            lambda left: f"if it is yours: {command} {_typed(left)}",
        )
    return looked_up(config)


def repeated(config: RunConfig) -> str:
    """What a command that goes on with the run has to repeat, after a space; nothing for most runs."""
    asked = [*paths(config), *references(config, known=True)]
    return f" {_typed([f'{key}={text}' for key, text in asked])}" if asked else ""


def _typed(asked: Sequence[str]) -> str:
    keys = [item.partition("=")[0] for item in asked]
    if all(key in _ONE_WORD or key.startswith("env.kwargs.") for key in keys):
        pairs = (item.partition("=") for item in asked)
        return " ".join(shlex.quote(f"{_ONE_WORD.get(k, k)}={v}") for k, _, v in pairs)
    return "trust=true"
