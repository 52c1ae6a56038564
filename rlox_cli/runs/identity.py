"""The identity of a job: the hash of its validated configuration.

The identity of a folder is recomputed from its `config.yaml` under the present schema. So a job keeps its
identity when the sweep grows, when values are written in another order, and when a key with a default is new.
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
from rlox_cli.runs.run_folder import read_config

# Keys for the place, the dry run and the name of a run; they do not change the identity of a job.
BOOKKEEPING_KEYS = ("run_root", "dry_run", "run")
# These, and keys for logging and threads, which change no result either.
NON_RESULT_KEYS = (*BOOKKEEPING_KEYS, "logger", "threads")
SLUG_LENGTH = 100
_JOB_NAME_PATTERN = re.compile(r"[0-9].*_")
SHORT_ID_LENGTH = 6  # characters of the identity in a folder name


def identity(config: RunConfig) -> str:
    """Return the hash of every key that can change a job's results."""
    text = json.dumps(result_config(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def result_config(config: RunConfig) -> dict[str, Any]:
    """Return the configuration without the keys that change no result.

    A run from before `env.seeding` existed counts as seeded in the present way: it is the same job, only
    with other random draws.
    """
    if config.env.seeding == LEGACY:
        config = replace(config, env=replace(config.env, seeding=KEYED))
    return {key: value for key, value in to_plain(config).items() if key not in NON_RESULT_KEYS}


def require_same_normalize_rule(folder: Path, rules: Container[str]) -> None:
    """Raise `ConfigError` if an old run of a sweep normalises by a rule that is not in `rules`.

    Old runs are those from before `env.normalize_rule` existed. `rules` are the rules that the command
    requests; if it names none, it requests the present default.
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
                f"{path} normalises by env.normalize_rule={rule}, as runs did before that key existed; "
                f"this command asks for another rule\n  to go on with its folder: env.normalize_rule={rule}; "
                "to begin anew: hydra.sweep.dir=FOLDER"
            )


def saved_run(folder: Path) -> RunConfig | None:
    """Return the configuration of a run folder, validated under the present schema; `None` if it has none."""
    saved = _load_saved(folder)
    return saved and saved[0]


def saved_identity(folder: Path) -> str | None:
    """Return the identity of a run folder's job under the present schema; `None` if it is unknown."""
    saved = _load_saved(folder)
    return saved and saved[1]


def job_folders(sweep: Path) -> list[Path]:
    """Return the job folders of a sweep by job number, without attempts that were set aside.

    A renamed folder is recognised by its files.
    """
    folders = [
        p
        for p in (sweep.iterdir() if sweep.is_dir() else ())
        if p.name[0] != "." and ".attempt" not in p.name and p.is_dir()
        if _JOB_NAME_PATTERN.match(p.name) or is_run(p)
    ]
    return sorted(folders, key=lambda p: (_job_number(p), p.name))


def is_run(folder: Path) -> bool:
    """Return whether the folder is a run folder, whatever its name."""
    return all((folder / name).is_file() for name in ("config.yaml", "status.json"))


def job_slug(overrides: Sequence[str], common_overrides: Collection[str] = ()) -> str:
    """Return the job's own overrides in characters that a folder name may have."""
    text = "_".join(override for override in overrides if override not in common_overrides)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:SLUG_LENGTH].strip("-") or "defaults"


def _load_saved(folder: Path) -> tuple[RunConfig, str] | None:
    try:
        path = folder.absolute()  # the process may change its current folder
        return _read_cached(path, (path / "config.yaml").stat().st_mtime_ns)
    except OSError:
        return None


@functools.cache  # a sweep reads each of its folders once per job
def _read_cached(folder: Path, modified_ns: int) -> tuple[RunConfig, str] | None:
    try:
        config = make_run(read_config(folder))
        return config, identity(config)
    except ConfigError:
        return None


def _job_number(path: Path) -> int:
    head = path.name.split("_")[0]
    return int(head) if head.isdigit() else -1
