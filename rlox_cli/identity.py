"""Which jobs of a sweep are the same: a job is the hash of its validated configuration.

That of a folder is computed anew from its `config.yaml`, under today's schema. So neither growing a sweep,
nor writing its values in another order, nor a new key with a default makes a job another one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Collection, Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig, make_run, plain
from rlox.configs.env import KEYED, LONG
from rlox.errors import ConfigError
from rlox_cli.run_folder import read_config

# Keys that say where and whether and under which name, not what: they do not make a job another one.
PLACE_KEYS = ("run_root", "dry_run", "run")
# These, and what watches a run or shares its work without changing any of its results.
ASIDE = (*PLACE_KEYS, "logger", "threads")
SLUG_LENGTH = 100
_NAMED = re.compile(r"[0-9].*_")
SHORT = 6  # characters of the identity in a folder's name


def identity(config: RunConfig) -> str:
    """The hash of everything that decides what a job does."""
    text = json.dumps(what(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def what(config: RunConfig) -> dict[str, Any]:
    """The configuration without the keys that change no result.

    The seeds that environments had before there was `env.seeding` count as today's: they are other draws
    of the same job.
    """
    if config.env.seeding == LONG:
        config = replace(config, env=replace(config.env, seeding=KEYED))
    return {key: value for key, value in plain(config).items() if key not in ASIDE}


def require_rule_of_before(folder: Path, rules: Container[str]) -> None:
    """`ConfigError` where the runs of a sweep normalise by a rule of before there was the key for it.

    Its command, which names none, asks for the default today. `rules` are those that are asked for.
    """
    for path in job_folders(folder):
        saved = saved_run(path)
        if saved is None or saved.env.seeding != LONG or not saved.env.normalizes:
            continue
        if (rule := saved.env.normalize_rule) not in rules:
            raise ConfigError(
                f"{path} normalises by env.normalize_rule={rule}, as runs did before there was that key; "
                f"this command asks for another rule\n  to go on with its folder: env.normalize_rule={rule}; "
                "to begin anew: hydra.sweep.dir=FOLDER"
            )


def saved_run(folder: Path) -> RunConfig | None:
    """The configuration of a run folder as it would be validated today; `None` where it has none."""
    found = _saved(folder)
    return found and found[0]


def saved_identity(folder: Path) -> str | None:
    """The job that a run folder is of, as it would be known today; `None` where nothing says it."""
    found = _saved(folder)
    return found and found[1]


def job_folders(sweep: Path) -> list[Path]:
    """The job folders of a sweep, by job number; attempts that were set aside are left out.

    One that was renamed is known by its files.
    """
    found = [
        p
        for p in (sweep.iterdir() if sweep.is_dir() else ())
        if p.name[0] != "." and ".attempt" not in p.name and p.is_dir()
        if _NAMED.match(p.name) or is_run(p)
    ]
    return sorted(found, key=lambda p: (_number(p), p.name))


def is_run(folder: Path) -> bool:
    """Whether the folder is that of a run, whatever it is called."""
    return all((folder / name).is_file() for name in ("config.yaml", "status.json"))


def job_slug(overrides: Sequence[str], common: Collection[str] = ()) -> str:
    """What sets the job apart, in characters that a folder's name may have."""
    text = "_".join(override for override in overrides if override not in common)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:SLUG_LENGTH].strip("-") or "defaults"


def _saved(folder: Path) -> tuple[RunConfig, str] | None:
    try:
        path = folder.absolute()  # a process may go to another folder
        return _read(path, (path / "config.yaml").stat().st_mtime_ns)
    except OSError:
        return None


@functools.cache  # a sweep asks for each of its folders once a job
def _read(folder: Path, written: int) -> tuple[RunConfig, str] | None:
    try:
        config = make_run(read_config(folder))
        return config, identity(config)
    except ConfigError:
        return None


def _number(path: Path) -> int:
    head = path.name.split("_")[0]
    return int(head) if head.isdigit() else -1
