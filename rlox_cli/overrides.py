"""Overrides of a training run in the spellings that Hydra takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlox.errors import ConfigError
from rlox_cli import messages
from rlox_cli.options import group_options
from rlox_cli.run_schema import RUN

NULL_OPTIONS = {"tuned": "none", "logger": "[]"}
NEEDED = tuple(group.name for group in RUN.groups if not group.many)


def run_override(override: str, folders: Sequence[Path]) -> Iterator[str]:
    """The override, or what stands for one that Hydra crashes on; `ConfigError` for what it skips."""
    key, equals, value = override.partition("=")
    if key.lstrip("+~") == "resume":
        if override == "resume=null":
            return
        raise ConfigError(f"{override}: to go on with a run: rlox train resume=RUN")
    if key.lstrip("~") in NEEDED and value in ("null", ""):
        raise ConfigError(f"{override}: a run needs one, e.g. algo=ppo env=CartPole-v1")
    if key == "exp" and value == "null":
        return
    if value == "null":
        value = NULL_OPTIONS.get(key, value)
    if key == "tuned":
        value = ",".join("none" if v == "null" else v for v in value.split(","))
        _require_tuned(value, folders)
    # `env.kwargs` is open: its keys belong to the environment, so struct mode must not judge them.
    if re.match(r"\+?env\.kwargs\.", key):
        key = "++" + key.removeprefix("+")
    yield f"{key}{equals}{value}"


def _require_tuned(value: str, folders: Sequence[Path]) -> None:
    """Reject unknown presets: Hydra silently skips a missing option of an optional group."""
    found = group_options("tuned", folders)
    for name in value.split(","):
        if "$" not in name and name not in ("none", *found):
            raise messages.unknown_option("tuned", name, found)
