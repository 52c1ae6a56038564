"""What `rlox list` shows, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS
from rlox.errors import ConfigError, RloxError
from rlox.runs.progress import word
from rlox_cli import summary
from rlox_cli.commands.list import ListConfig
from rlox_cli.options import conf_folders, group_options
from rlox_cli.run_folder import RUNNING, is_locked, read_config, read_result, read_status
from rlox_cli.run_schema import RUN

HEAD = ("state", "progress", "score", "label", "run")


def lines(config: ListConfig) -> list[str]:
    """The listing; a line that says so where there is nothing."""
    rows = list(_runs(config) if config.what == "runs" else _options(config))
    if not rows:
        inside = f" with '{config.contains}' in its name" if config.contains else ""
        place = f" in {config.run_root}" if config.what == "runs" else ""
        return [f"nothing{inside}{place}"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _options(config: ListConfig) -> Iterator[tuple[str, str]]:
    """The options of a group with a line on each."""
    registry = next((group.registry for group in RUN.groups if group.name == config.what), {})
    for name in group_options(config.what, conf_folders()):
        if (config.contains or "").lower() in name.lower():
            yield name, _line_on(config.what, name, registry)


def _line_on(group: str, name: str, registry: Mapping[str, type[Any]]) -> str:
    if group == "env":
        from rlox._core import native_env_ids

        return "in Rust" if name in native_env_ids() else ""
    if name in registry:
        kind = registry[name]
        # an algorithm's file begins with its name and paper, its class with where defaults are from
        said = sys.modules[kind.__module__].__doc__ if group == "algo" else kind.__doc__
        return (said or "").strip().splitlines()[0]
    for folder in reversed(conf_folders()):
        path = folder / group / f"{name}.yaml"
        if path.is_file():
            comments = (
                line[1:].strip() for line in path.read_text("utf-8").splitlines() if line[:1] == "#"
            )
            return next((line for line in comments if not line.startswith("@")), "")
    return ""


def _runs(config: ListConfig) -> Iterator[tuple[str, ...]]:
    root = Path(config.run_root)
    if not root.is_dir():
        raise ConfigError(f"run_root={root}: no such folder")
    found = sorted(p.parent for p in root.rglob("status.json") if ".hydra" not in p.parts)
    rows = [_run(path) for path in found]
    word = config.contains or ""
    shown = [row for row in rows if any(word in part for part in row[3:])]
    kept = [i for i, name in enumerate(HEAD) if name != "label" or any(row[i] for row in shown)]
    for row in [HEAD, *shown] if shown else []:
        yield tuple(row[i] for i in kept)


def _run(path: Path) -> tuple[str, ...]:
    """How a run stands. Whether it is going on is known by its lock: what it wrote last may be old."""
    try:
        status = read_status(path)
        state, step = str(status["status"]), int(status["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable", "", "", "", str(path)
    if is_locked(path):
        state = RUNNING
    elif state == RUNNING:
        state = "died"
    score, unit, label = None, "env_steps", ""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RloxError):
        saved = read_config(path)
        label = _label(saved.get("run") or {})
        unit = ALGO_CONFIGS[saved["algo"]["name"]].unit
        score = (read_result(path) or {}).get("score")
    return (
        state,
        f"{step:,} {word(unit)}",
        summary.number(score) if score is not None else "",
        label,
        str(path),
    )


def _label(run: Mapping[str, Any]) -> str:
    """What people call the run: its name, and its tags in brackets."""
    tags = ", ".join(map(str, run.get("tags") or ()))
    text = " ".join(filter(None, [str(run.get("name") or ""), f"[{tags}]" if tags else ""]))
    return "".join(c if c.isprintable() else "?" for c in text)  # the folder may be anybody's
