"""`search=` and `search.*`: what is searched, and how; on the command line and in Hydra's node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlox.configs import make
from rlox.errors import ConfigError
from rlox_cli.command import Call
from rlox_cli.messages import unknown_key
from rlox_cli.options import conf_folders
from rlox_cli.run_schema import ALGO, RUN
from rlox_cli.search.settings import SEARCH, SearchOptions

PREFIX = f"{SEARCH}."
NODE = "hydra.sweeper."
SWEEPER = "hydra/sweeper"
NAME = "rlox_optuna"
TARGET = "hydra_plugins.rlox.Optuna"  # Hydra takes sweepers only under such a name
AUTO = ("", "auto")  # the space of the run's own algorithm


def options_of(node: Mapping[str, Any]) -> SearchOptions:
    """The options in the node `hydra.sweeper`."""
    mine = {f.name for f in fields(SearchOptions)}
    return make(SearchOptions, {k: v for k, v in node.items() if k in mine}, SEARCH)


def asked(args: Iterable[str]) -> list[str]:
    """The arguments that only a search has."""
    return [a for a in args if _key(a) == SEARCH or _key(a).startswith(PREFIX)]


def refuse(args: Iterable[str]) -> None:
    """Raise `ConfigError` where a single run is given what only a search has."""
    for arg in asked(args):
        if arg != f"{SEARCH}=null":
            raise ConfigError(f"{arg}: one run searches nothing; to search: rlox sweep {arg}")


def of_line(call: Call) -> list[str]:
    """The arguments of a call as `spelt` has them."""
    if not asked(call.args):
        return call.args
    from rlox_cli.compose import parse_flags  # late: it brings Hydra, and ours with it

    return spelt(call.args, conf_folders(parse_flags(call.args, call.command).config_dir))


def spelt(args: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """A command line with `search=` and `search.*` as Hydra takes them, and what they imply."""
    mine = asked(args)
    if not mine:
        return list(args)
    given = [a for a in args if _key(a) == SWEEPER]
    if wrong := [a for a in given if a != f"{SWEEPER}={NAME}"]:
        raise ConfigError(
            f"{mine[0]} and {wrong[0]}: a search needs {SWEEPER}={NAME}, which it implies"
        )
    rest = [word for arg in args for word in _spelt(arg, args, folders)]
    return [*rest, *_implied(args), *([] if given else [f"{SWEEPER}={NAME}"])]


def _spelt(arg: str, args: Sequence[str], folders: Sequence[Path]) -> list[str]:
    key, _, value = arg.lstrip("+").partition("=")
    if key == SEARCH:
        if value == "null":
            return []
        return [f"{SEARCH}={_own_algo(arg, args, folders) if value in AUTO else value}"]
    if not key.startswith(PREFIX):
        return [arg]
    name = key.removeprefix(PREFIX)
    known = [f"{PREFIX}{f.name}" for f in fields(SearchOptions)]
    if key not in known:
        raise unknown_key(key, known)
    return [f"{NODE}{name}={value}"]


def _own_algo(arg: str, args: Sequence[str], folders: Sequence[Path]) -> str:
    tags = {t for part in RUN.chosen(args, folders) if part.group == ALGO for t in part.tags}
    if len(tags) != 1:
        raise ConfigError(
            f"{arg}: name the space, e.g. search={min(tags)}; algo is not one algorithm"
        )
    return tags.pop()


def _implied(args: Sequence[str]) -> list[str]:
    """The algorithm that a space is named after, where nothing else chooses one."""
    named = {_key(a): a.partition("=")[2] for a in args}
    space = named.get(SEARCH, "")
    free = not {"algo", *RUN.choosing} & named.keys()
    return [f"algo={space}"] if free and space in ALGO.registry else []


def _key(arg: str) -> str:
    return arg.lstrip("+~").partition("=")[0]
