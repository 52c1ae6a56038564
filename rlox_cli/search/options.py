"""The options `search=` and `search.*`, on the command line and in Hydra's node `hydra.sweeper`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlox.configs import make
from rlox.errors import ConfigError
from rlox_cli.config.options import conf_folders
from rlox_cli.config.run_schema import ALGO, RUN
from rlox_cli.search.settings import SEARCH, SearchOptions
from rlox_cli.shell.command import Call
from rlox_cli.shell.messages import unknown_key

PREFIX = f"{SEARCH}."
SWEEPER_PREFIX = "hydra.sweeper."
SWEEPER = "hydra/sweeper"
SWEEPER_NAME = "rlox_optuna"
TARGET = "hydra_plugins.rlox.Optuna"  # Hydra takes sweepers only from hydra_plugins
AUTO_VALUES = ("", "auto")  # the space of the run's own algorithm


def options_from_node(node: Mapping[str, Any]) -> SearchOptions:
    """Read the options in the node `hydra.sweeper`."""
    field_names = {f.name for f in fields(SearchOptions)}
    return make(SearchOptions, {k: v for k, v in node.items() if k in field_names}, SEARCH)


def search_arguments(args: Iterable[str]) -> list[str]:
    """Return the arguments that only a search takes."""
    return [a for a in args if _key(a) == SEARCH or _key(a).startswith(PREFIX)]


def refuse_search_options(args: Iterable[str]) -> None:
    """Raise `ConfigError` if a single run is given arguments that only a search takes."""
    for arg in search_arguments(args):
        if arg != f"{SEARCH}=null":
            raise ConfigError(f"{arg}: a single run cannot search; to search: rlox sweep {arg}")


def expand_call(call: Call) -> list[str]:
    """Return the arguments of a call, expanded by `expand_arguments`."""
    if not search_arguments(call.args):
        return call.args
    from rlox_cli.config.compose import parse_flags  # imported here because it imports Hydra

    return expand_arguments(call.args, conf_folders(parse_flags(call.args, call.command).config_dir))


def expand_arguments(args: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Rewrite `search=` and `search.*` for Hydra, and add the overrides that they imply."""
    own_arguments = search_arguments(args)
    if not own_arguments:
        return list(args)
    sweeper_overrides = [a for a in args if _key(a) == SWEEPER]
    if conflicting := [a for a in sweeper_overrides if a != f"{SWEEPER}={SWEEPER_NAME}"]:
        raise ConfigError(
            f"{own_arguments[0]} and {conflicting[0]}: a search needs {SWEEPER}={SWEEPER_NAME}, which it "
            "implies"
        )
    expanded_arguments = [expanded for arg in args for expanded in _expand_argument(arg, args, folders)]
    return [
        *expanded_arguments,
        *_implied_algo(args),
        *([] if sweeper_overrides else [f"{SWEEPER}={SWEEPER_NAME}"]),
    ]


def _expand_argument(arg: str, args: Sequence[str], folders: Sequence[Path]) -> list[str]:
    key, _, value = arg.lstrip("+").partition("=")
    if key == SEARCH:
        if value == "null":
            return []
        return [f"{SEARCH}={_single_algo(arg, args, folders) if value in AUTO_VALUES else value}"]
    if not key.startswith(PREFIX):
        return [arg]
    name = key.removeprefix(PREFIX)
    known = [f"{PREFIX}{f.name}" for f in fields(SearchOptions)]
    if key not in known:
        raise unknown_key(key, known)
    return [f"{SWEEPER_PREFIX}{name}={value}"]


def _single_algo(arg: str, args: Sequence[str], folders: Sequence[Path]) -> str:
    tags = {t for part in RUN.chosen_options(args, folders) if part.group == ALGO for t in part.tags}
    if len(tags) != 1:
        raise ConfigError(f"{arg}: name the space, e.g. search={min(tags)}; algo is not one algorithm")
    return tags.pop()


def _implied_algo(args: Sequence[str]) -> list[str]:
    """Return the override of the algorithm that a space is named after, if nothing else chooses one."""
    values = {_key(a): a.partition("=")[2] for a in args}
    space = values.get(SEARCH, "")
    can_imply = not {"algo", *RUN.choosing_presets} & values.keys()
    return [f"algo={space}"] if can_imply and space in ALGO.registry else []


def _key(arg: str) -> str:
    return arg.lstrip("+~").partition("=")[0]
