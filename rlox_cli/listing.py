"""What `rlox list` shows, line by line."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from rlox import plugins
from rlox.configs import ALGO_CONFIGS
from rlox.disk import read_file
from rlox.envs.optional import ATARI_IDS, LATE_IDS, lacking
from rlox.errors import ConfigError, RloxError
from rlox.loggers.jsonl import METRICS, read_rows
from rlox.runs.progress import word
from rlox_cli import summary
from rlox_cli.commands.list import SHORT, ListConfig
from rlox_cli.options import conf_folders, group_options
from rlox_cli.plugin_states import shadows, state
from rlox_cli.run_folder import (
    RUNNING,
    UNREADABLE,
    is_locked,
    read_config,
    read_status,
    whole_result,
)
from rlox_cli.run_schema import RUN

SENTENCE_END = re.compile(r"[.!?](?=$|\s+[A-Z])", re.MULTILINE)
HEAD = ("state", "date", "seed", "progress", "score", "label", "run")


def lines(config: ListConfig) -> list[str]:
    """The listing; a line that says so where there is nothing."""
    special = {"runs": _runs, "plugins": _plugins}
    rows = list(special.get(config.what, _options)(config))
    if not rows:
        wanted = [f"'{config.contains}' in its name"] if config.contains else []
        chosen = [(name, getattr(config.only, name)) for name in SHORT]
        wanted += [f"{name}={value}" for name, value in chosen if value is not None]
        inside = f" with {' and '.join(wanted)}" if wanted else ""
        place = f" in {config.run_root}" if config.what == "runs" else ""
        return [f"nothing{inside}{place}"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _options(config: ListConfig) -> Iterator[tuple[str, str]]:
    """The options of a group with a line on each."""
    registry = next((group.registry for group in RUN.groups if group.name == config.what), {})
    names = set(group_options(config.what, conf_folders()))
    if config.what == "env":
        names.update(LATE_IDS)
    for name in sorted(names):
        if (config.contains or "").lower() in name.lower():
            yield name, _line_on(config.what, name, registry)


def _plugins(config: ListConfig) -> Iterator[tuple[str, ...]]:
    """What installed packages offer, and whether it is used."""
    for offer in plugins.offers():
        row = (offer.point.name, offer.source, state(offer), offer.summary)
        if any((config.contains or "").lower() in part.lower() for part in row[:2]):
            yield row


def _line_on(group: str, name: str, registry: Mapping[str, type[Any]]) -> str:
    offered = [o for o in plugins.offers() if (o.kind, o.name) == (group, name) and not shadows(o)]
    if offered:  # it is not imported to ask it
        return ", ".join(f"of {o.source}: {o.summary}".removesuffix(": ") for o in offered)
    if group == "env" and (name in gym.registry or name in LATE_IDS):
        return _line_on_env(name)
    if name in registry:
        kind = registry[name]
        # no plugin is imported for this
        every = [own.__module__ for own in dict.values(ALGO_CONFIGS)]
        alone = every.count(kind.__module__) == 1
        # an algorithm's file begins with its name and paper, its class with where defaults are from
        said = sys.modules[kind.__module__].__doc__ if group == "algo" and alone else kind.__doc__
        return (said or "").strip().splitlines()[0]
    for folder in reversed(conf_folders()):
        path = folder / group / f"{name}.yaml"
        if path.is_file():
            return _first_sentence(path.read_text("utf-8").splitlines())
    return ""


def _first_sentence(lines: Iterable[str]) -> str:
    """What the first comment of a file says first, however many lines that takes."""
    begun = dropwhile(lambda line: line[:1] != "#" or line[1:].strip()[:1] in ("", "@"), lines)
    text = "\n".join(line[1:].strip() for line in takewhile(lambda line: line[:1] == "#", begun))
    end = SENTENCE_END.search(text)
    return " ".join(text[: end.end() if end else None].split())


def _line_on_env(name: str) -> str:
    """What Gymnasium says of it without making one, and what has to be installed first."""
    from rlox._core import native_env_ids

    if name not in gym.registry:  # packages that register theirs when they are imported
        kind, package = ("Atari", "ale_py") if name in ATARI_IDS else ("MiniGrid", "minigrid")
        needs = lacking(package)
        return f"{kind}{f', needs: {needs}' if needs else ''}"
    spec = gym.registry[name]
    if getattr(spec.entry_point, "__module__", "").startswith("gymnasium.envs"):
        return "not in Gymnasium any more"  # a function that says where it went
    limit, solved, needs = spec.max_episode_steps, spec.reward_threshold, lacking(spec.entry_point)
    said = (
        f"at most {limit:,} steps" if limit else "no time limit",
        f"solved at {solved:g}" if solved is not None else "",
        f"needs: {needs}" if needs else "",
        "in Rust" if name in native_env_ids() else "",
    )
    return ", ".join(filter(None, said))


class _Run(NamedTuple):
    """How a run stands."""

    path: Path
    state: str
    began: datetime  # in the time of this machine
    seed: str = ""
    progress: str = ""
    score: str = ""
    label: str = ""
    algo: str = ""
    env: str = ""

    def row(self) -> tuple[str, ...]:
        """Its line, as `HEAD` has it."""
        date = f"{self.began:%Y-%m-%d %H:%M}"
        rest = (self.seed, self.progress, self.score, self.label, str(self.path))
        return tuple(map(summary.printable, (self.state, date, *rest)))

    def is_wanted(self, config: ListConfig) -> bool:
        """Whether it has the text, the state, the algorithm and the environment that are asked for."""
        wanted, word = config.only, config.contains or ""
        return (
            any(word in part for part in (self.label, str(self.path)))
            and (wanted.state is None or wanted.state in self.state.split(" or "))
            and (wanted.algo is None or wanted.algo == self.algo)
            and (wanted.env is None or wanted.env == self.env)
        )


def _runs(config: ListConfig) -> Iterator[tuple[str, ...]]:
    """The runs that are asked for, the newest last."""
    root = Path(config.run_root)
    if not root.is_dir():
        raise ConfigError(f"run_root={root}: no such folder")
    every = sorted(map(_run, sorted(_run_folders(root))), key=lambda run: run.began)
    shown = [run.row() for run in every if run.is_wanted(config)]
    kept = [i for i, name in enumerate(HEAD) if name != "label" or any(row[i] for row in shown)]
    for row in [HEAD, *shown] if shown else []:
        yield tuple(row[i] for i in kept)


def _run_folders(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".hydra"]
        if {"status.json", METRICS} & set(files):  # a logger's copies have neither
            yield Path(folder)


def _run(path: Path) -> _Run:
    """How a run stands. Whether it is going on is known by its lock: what it wrote last may be old."""
    began = _began(path)
    try:
        status = read_status(path)
        state, step = str(status["status"]), int(status["step"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        lost = "damaged" if (path / "status.json").exists() else "missing"
        return _Run(path, UNREADABLE, began, progress=f"status.json is {lost}")
    locked = is_locked(path)
    if locked:
        state = RUNNING
    elif state == RUNNING:
        state = "died" if locked is False else "running or died"
    score, unit, label, seed, algo, env = None, "env_steps", "", "", "", ""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RloxError):
        saved = read_config(path)
        label, algo = _label(saved.get("run") or {}), str(saved["algo"]["name"])
        seed = str(number) if isinstance(number := saved.get("seed"), int) else ""
        env = str((saved.get("env") or {}).get("id", ""))
        result = whole_result(path) or {}
        # a plugin that only the folder names is not imported for this
        kind = dict.get(ALGO_CONFIGS, algo)
        unit = kind.unit if kind is not None else result.get("unit", unit)
        found = result.get("score")
        score = found if isinstance(found, int | float) else None
    if state == "died":  # its status is as old as its last checkpoint
        with suppress(OSError, TypeError):
            step = max([step, *(row[unit] for row in read_rows(path / METRICS) if unit in row)])
    told = summary.number(score) if score is not None else ""
    return _Run(path, state, began, seed, f"{step:,} {word(unit)}", told, label, algo, env)


def _began(path: Path) -> datetime:
    """When a run began, by its provenance, else by the time of its oldest file."""
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        started = json.loads(read_file(path / "provenance.json"))["started"]
        return datetime.fromtimestamp(datetime.fromisoformat(started).timestamp())
    with suppress(OSError):
        return datetime.fromtimestamp(min(of.stat().st_mtime for of in path.iterdir()))
    return datetime.min


def _label(run: Mapping[str, Any]) -> str:
    """What people call the run: its name, and its tags in brackets."""
    tags = ", ".join(map(str, run.get("tags") or ()))
    text = " ".join(filter(None, [str(run.get("name") or ""), f"[{tags}]" if tags else ""]))
    return summary.printable(text)
