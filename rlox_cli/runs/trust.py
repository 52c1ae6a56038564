"""Code and secrets that only a run folder names, and the arguments by which a user allows them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rlox.configs import RunConfig
from rlox.configs.params import code_paths, require_trusted
from rlox.configs.secrets import references, resolve
from rlox.errors import ConfigError

# the links of `Disk.link`; `.new` links remain if a kill came before they were renamed
CHECKPOINT_LINKS = ("last", "best", ".last.new", ".best.new")


def split_trust(overrides: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether the folder is trusted, and the other overrides."""
    trust_overrides = [o for o in overrides if o.partition("=")[0] == "trust"]
    for override in trust_overrides:
        if override not in ("trust=true", "trust=false"):
            raise ConfigError(f"{override}: expected trust=true or trust=false")
    return bool(trust_overrides) and trust_overrides[-1] == "trust=true", [
        o for o in overrides if o not in trust_overrides
    ]


def resolve_trusted(
    config: RunConfig, trust: bool, repeated_arguments: Sequence[str] | None, source: Path, command: str
) -> RunConfig:
    """Return a run folder's configuration with its references resolved.

    Raise `ConfigError` unless everything that the folder names is trusted. `repeated_arguments` are the
    overrides, in which the user may repeat what the folder names; `None` if the command takes no overrides.
    """
    if not trust:
        require_no_links(source.parent)
        require_trusted(
            config,
            repeated_arguments or (),
            str(source),
            lambda untrusted: (
                f"if it is yours: {command} "
                f"{'trust=true' if repeated_arguments is None else _trust_argument(untrusted)}"
            ),
        )
    return resolve(config)


def require_no_links(run: Path) -> None:
    """Raise `ConfigError` for a link in a run's or sweep's folder: a stranger could redirect writes by it.

    Runs themselves create `last` and `best`; they replace these links and do not write through them. Links of
    W&B in wandb/live of a killed run are removed before the folder is used again; submitit links the script
    of a job to itself.
    """
    for folder, folders, files in os.walk(run):
        allowed_links = CHECKPOINT_LINKS if Path(folder).name == "checkpoints" else ()
        for path in (Path(folder, name) for name in (*folders, *files) if name not in allowed_links):
            if path.is_symlink() and not _is_submitit_link(path):
                raise ConfigError(
                    f"{path} is a link to {path.readlink()}: runs do not create such links; remove it, or, "
                    "if you made it, resume or evaluate the run with trust=true"
                )
        if Path(folder).name == "wandb":
            folders[:] = [name for name in folders if name != "live"]


def _is_submitit_link(path: Path) -> bool:
    return path.parent.name == ".submitit" and path.name.startswith(".submission_file_")


def trust_arguments(config: RunConfig) -> str:
    """Return, after a space, the argument by which a command trusts the run; empty if none is needed."""
    items = [*code_paths(config), *references(config, include_resolved=True)]
    return f" {_trust_argument([f'{key}={text}' for key, text in items])}" if items else ""


def _trust_argument(items: Sequence[str]) -> str:
    """Return `env=ID` if only the environment's id needs trust, else `trust=true` for the whole folder."""
    (key, _, value), *others = [item.partition("=") for item in items]
    return shlex.quote(f"env={value}") if key == "env.id" and not others else "trust=true"
