"""`rlox list`: the lines of its listings."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from rlox import plugins
from rlox.configs import ALGO_CONFIGS
from rlox.disk import read_file
from rlox.envs.optional_packages import ATARI_IDS, OPTIONAL_PACKAGE_IDS, install_hint
from rlox.errors import ConfigError, RloxError
from rlox.loggers.jsonl import METRICS, read_rows
from rlox.runs.progress import unit_label
from rlox_cli.commands.list import FILTER_KEYS, ListConfig
from rlox_cli.config.options import group_options
from rlox_cli.config.plugin_states import is_shadowed, plugin_state
from rlox_cli.config.run_schema import RUN
from rlox_cli.runs import summary
from rlox_cli.runs.run_folder import (
    RUNNING,
    UNREADABLE,
    is_locked,
    read_config,
    read_result_or_none,
    read_status,
)

SENTENCE_END = re.compile(r"[.!?](?=$|\s+[A-Z])", re.MULTILINE)
HEAD = ("state", "date", "seed", "progress", "score", "label", "run")


def format_listing(config: ListConfig, folders: Sequence[Path]) -> list[str]:
    """Return the lines of the listing; an empty listing is one line that says so.

    `folders` are the conf folders in use.
    """
    special = {"runs": _run_rows, "plugins": _plugin_rows}
    rows = list(special.get(config.what, partial(_option_rows, folders=folders))(config))
    if not rows:
        criteria = [f"'{config.contains}' in its name"] if config.contains else []
        filters = [(name, getattr(config.only, name)) for name in FILTER_KEYS]
        criteria += [f"{name}={value}" for name, value in filters if value is not None]
        criteria_text = f" with {' and '.join(criteria)}" if criteria else ""
        location_text = f" in {config.run_root}" if config.what == "runs" else ""
        return [f"nothing{criteria_text}{location_text}"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _option_rows(config: ListConfig, folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the options of a group, each with a line about it."""
    registry = next((group.registry for group in RUN.groups if group.name == config.what), {})
    names = set(group_options(config.what, folders))
    if config.what == "env":
        names.update(OPTIONAL_PACKAGE_IDS)
    for name in sorted(names):
        if (config.contains or "").lower() in name.lower():
            yield name, _describe_option(config.what, name, registry, folders)


def _plugin_rows(config: ListConfig) -> Iterator[tuple[str, ...]]:
    """Yield the plugins of installed packages and their states."""
    for entry in plugins.plugin_entries():
        row = (entry.entry_point.name, entry.source, plugin_state(entry), entry.summary)
        if any((config.contains or "").lower() in part.lower() for part in row[:2]):
            yield row


def _describe_option(
    group: str, name: str, registry: Mapping[str, type[Any]], folders: Sequence[Path]
) -> str:
    entries = [
        o for o in plugins.plugin_entries() if (o.kind, o.name) == (group, name) and not is_shadowed(o)
    ]
    if entries:  # a plugin is not imported for this
        return ", ".join(f"of {o.source}: {o.summary}".removesuffix(": ") for o in entries)
    if group == "env" and (name in gym.registry or name in OPTIONAL_PACKAGE_IDS):
        return _describe_env(name)
    if name in registry:
        option_class = registry[name]
        # no plugin is imported for this
        modules = [config_class.__module__ for config_class in dict.values(ALGO_CONFIGS)]
        is_alone_in_module = modules.count(option_class.__module__) == 1
        # an algorithm's module docstring starts with its name and paper;
        # the docstring of its class starts with the source of the defaults
        docstring = (
            sys.modules[option_class.__module__].__doc__
            if group == "algo" and is_alone_in_module
            else option_class.__doc__
        )
        return (docstring or "").strip().splitlines()[0]
    for folder in reversed(folders):
        path = folder / group / f"{name}.yaml"
        if path.is_file():
            return _first_sentence(path.read_text("utf-8").splitlines())
    return ""


def _first_sentence(lines: Iterable[str]) -> str:
    """Return the first sentence of a file's first comment; it may span several lines."""
    comment_lines = dropwhile(lambda line: line[:1] != "#" or line[1:].strip()[:1] in ("", "@"), lines)
    text = "\n".join(line[1:].strip() for line in takewhile(lambda line: line[:1] == "#", comment_lines))
    end = SENTENCE_END.search(text)
    return " ".join(text[: end.end() if end else None].split())


def _describe_env(name: str) -> str:
    """Describe an environment from Gymnasium's registry, without creating it, and name missing packages."""
    from rlox._core import native_env_ids

    if name not in gym.registry:  # its package registers it on import
        kind, package = ("Atari", "ale_py") if name in ATARI_IDS else ("MiniGrid", "minigrid")
        needs = install_hint(package)
        return f"{kind}{f', needs: {needs}' if needs else ''}"
    spec = gym.registry[name]
    if getattr(spec.entry_point, "__module__", "").startswith("gymnasium.envs"):
        return "not in Gymnasium any more"  # its entry point is a function that says where it is now
    limit, solved, needs = spec.max_episode_steps, spec.reward_threshold, install_hint(spec.entry_point)
    parts = (
        f"at most {limit:,} steps" if limit else "no time limit",
        f"solved at {solved:g}" if solved is not None else "",
        f"needs: {needs}" if needs else "",
        "in Rust" if name in native_env_ids() else "",
    )
    return ", ".join(filter(None, parts))


class _RunRow(NamedTuple):
    """The state of a run, as a row."""

    path: Path
    state: str
    started_at: datetime  # in this machine's time zone
    seed: str = ""
    progress: str = ""
    score: str = ""
    label: str = ""
    algo: str = ""
    env: str = ""

    def row(self) -> tuple[str, ...]:
        """Return the row in the order of `HEAD`."""
        date = f"{self.started_at:%Y-%m-%d %H:%M}"
        rest = (self.seed, self.progress, self.score, self.label, str(self.path))
        return tuple(map(summary.replace_unprintable, (self.state, date, *rest)))

    def matches(self, config: ListConfig) -> bool:
        """Return whether the run has the requested text, state, algorithm and environment."""
        filters, text = config.only, config.contains or ""
        return (
            any(text in part for part in (self.label, str(self.path)))
            and (filters.state is None or filters.state in self.state.split(" or "))
            and (filters.algo is None or filters.algo == self.algo)
            and (filters.env is None or filters.env == self.env)
        )


def _run_rows(config: ListConfig) -> Iterator[tuple[str, ...]]:
    """Yield the requested runs, the newest last."""
    root = Path(config.run_root)
    if not root.is_dir():
        raise ConfigError(f"run_root={root}: no such folder")
    runs = sorted(map(_read_run, sorted(_run_folders(root))), key=lambda run: run.started_at)
    rows = [run.row() for run in runs if run.matches(config)]
    columns = [i for i, name in enumerate(HEAD) if name != "label" or any(row[i] for row in rows)]
    for row in [HEAD, *rows] if rows else []:
        yield tuple(row[i] for i in columns)


def _run_folders(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".hydra"]
        if {"status.json", METRICS} & set(files):  # a folder with a logger's copies has neither file
            yield Path(folder)


def _read_run(path: Path) -> _RunRow:
    """Read the state of a run; its lock says whether it is running, as the last status may be old."""
    started_at = _started_at(path)
    try:
        status = read_status(path)
        state, step = str(status["status"]), int(status["step"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        problem = "damaged" if (path / "status.json").exists() else "missing"
        return _RunRow(path, UNREADABLE, started_at, progress=f"status.json is {problem}")
    locked = is_locked(path)
    if locked:
        state = RUNNING
    elif state == RUNNING:
        state = "died" if locked is False else "running or died"
    score, unit, label, seed, algo, env = None, "env_steps", "", "", "", ""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RloxError):
        saved_config = read_config(path)
        label, algo = _label(saved_config.get("run") or {}), str(saved_config["algo"]["name"])
        seed = str(number) if isinstance(number := saved_config.get("seed"), int) else ""
        env = str((saved_config.get("env") or {}).get("id", ""))
        result = read_result_or_none(path) or {}
        # a plugin that only the folder names is not imported for this
        algo_class = dict.get(ALGO_CONFIGS, algo)
        unit = algo_class.unit if algo_class is not None else result.get("unit", unit)
        saved_score = result.get("score")
        score = saved_score if isinstance(saved_score, int | float) else None
    if state == "died":  # the last row may be newer than status.json
        with suppress(OSError, TypeError):
            step = max([step, *(row[unit] for row in read_rows(path / METRICS) if unit in row)])
    score_text = summary.format_number(score) if score is not None else ""
    return _RunRow(
        path, state, started_at, seed, f"{step:,} {unit_label(unit)}", score_text, label, algo, env
    )


def _started_at(path: Path) -> datetime:
    """Return when a run began, by its provenance, else by its oldest file."""
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        timestamp = json.loads(read_file(path / "provenance.json"))["started"]
        return datetime.fromtimestamp(datetime.fromisoformat(timestamp).timestamp())
    with suppress(OSError):
        return datetime.fromtimestamp(min(entry.stat().st_mtime for entry in path.iterdir()))
    return datetime.min


def _label(run: Mapping[str, Any]) -> str:
    """Return the label of the run: its name, and its tags in brackets."""
    tags = ", ".join(map(str, run.get("tags") or ()))
    text = " ".join(filter(None, [str(run.get("name") or ""), f"[{tags}]" if tags else ""]))
    return summary.replace_unprintable(text)
