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

from rlox.configs import RunConfig, make_run, to_plain
from rlox.configs.env import KEYED, LEGACY
from rlox.errors import ConfigError
from rlox_cli.run_folder import read_config

# Keys that say where and whether and under which name, not what: they do not make a job another one.
BOOKKEEPING_KEYS = ("run_root", "dry_run", "run")
# These, and what watches a run or shares its work without changing any of its results.
NON_RESULT_KEYS = (*BOOKKEEPING_KEYS, "logger", "threads")
SLUG_LENGTH = 100
_JOB_NAME_PATTERN = re.compile(r"[0-9].*_")
SHORT_ID_LENGTH = 6  # characters of the identity in a folder's name


def identity(config: RunConfig) -> str:
    """The hash of everything that decides what a job does."""
    text = json.dumps(result_config(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def result_config(config: RunConfig) -> dict[str, Any]:
    """The configuration without the keys that change no result.

    The seeds that environments had before there was `env.seeding` count as today's: they are other draws
    of the same job.
    """
    if config.env.seeding == LEGACY:
        config = replace(config, env=replace(config.env, seeding=KEYED))
    return {key: value for key, value in to_plain(config).items() if key not in NON_RESULT_KEYS}


def require_same_normalize_rule(folder: Path, rules: Container[str]) -> None:
    """`ConfigError` where the runs of a sweep normalise by a rule of before there was the key for it.

    Its command, which names none, asks for the default today. `rules` are those that are asked for.
    """
    for path in job_folders(folder):
        saved_config = saved_run(path)
        if (
            saved_config is None
            or saved_config.env.seeding != LEGACY
            or not saved_config.env.has_normalization
        ):
            continue
        if (rule := saved_config.env.normalize_rule) not in rules:
            raise ConfigError(
                f"{path} normalises by env.normalize_rule={rule}, as runs did before there was that key; "
                f"this command asks for another rule\n  to go on with its folder: env.normalize_rule={rule}; "
                "to begin anew: hydra.sweep.dir=FOLDER"
            )


def saved_run(folder: Path) -> RunConfig | None:
    """The configuration of a run folder as it would be validated today; `None` where it has none."""
    saved = _load_saved(folder)
    return saved and saved[0]


def saved_identity(folder: Path) -> str | None:
    """The job that a run folder is of, as it would be known today; `None` where nothing says it."""
    saved = _load_saved(folder)
    return saved and saved[1]


def job_folders(sweep: Path) -> list[Path]:
    """The job folders of a sweep, by job number; attempts that were set aside are left out.

    One that was renamed is known by its files.
    """
    folders = [
        p
        for p in (sweep.iterdir() if sweep.is_dir() else ())
        if p.name[0] != "." and ".attempt" not in p.name and p.is_dir()
        if _JOB_NAME_PATTERN.match(p.name) or is_run(p)
    ]
    return sorted(folders, key=lambda p: (_job_number(p), p.name))


def is_run(folder: Path) -> bool:
    """Whether the folder is that of a run, whatever it is called."""
    return all((folder / name).is_file() for name in ("config.yaml", "status.json"))


def job_slug(overrides: Sequence[str], common_overrides: Collection[str] = ()) -> str:
    """What sets the job apart, in characters that a folder's name may have."""
    text = "_".join(override for override in overrides if override not in common_overrides)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:SLUG_LENGTH].strip("-") or "defaults"


def _load_saved(folder: Path) -> tuple[RunConfig, str] | None:
    try:
        path = folder.absolute()  # a process may go to another folder
        return _read_cached(path, (path / "config.yaml").stat().st_mtime_ns)
    except OSError:
        return None


@functools.cache  # a sweep asks for each of its folders once a job
def _read_cached(folder: Path, modified_ns: int) -> tuple[RunConfig, str] | None:
    try:
        config = make_run(read_config(folder))
        return config, identity(config)
    except ConfigError:
        return None


def _job_number(path: Path) -> int:
    head = path.name.split("_")[0]
    return int(head) if head.isdigit() else -1
