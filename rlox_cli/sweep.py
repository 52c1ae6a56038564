"""`rlox sweep`: many runs in one folder; what is done is skipped, what fails is named."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlox.errors import ConfigError
from rlox_cli import sweep_summary, validate
from rlox_cli.exit_codes import FAILED, OK

SLUG_LENGTH = 100


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep; `jobs` is unknown for sweepers that choose as they go."""

    folder: Path
    jobs: int | None
    dry: bool
    common: frozenset[str] = frozenset()  # overrides that all jobs share


def plan(app: Hydra, name: str, overrides: list[str]) -> SweepPlan:
    """Compose and validate every job before the first one starts."""
    master = app.compose_config(
        name, [*overrides, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN, with_log_configuration=False
    )
    folder = Path(str(master.hydra.sweep.dir))
    if not str(OmegaConf.select(master, "hydra.sweeper._target_")).endswith(".BasicSweeper"):
        return SweepPlan(folder, None, False)
    grid, configs = _grid(app, master), []
    for job in grid:
        try:
            configs.append(validate.run_config(app.config_loader.load_sweep_config(master, job)))
        except ConfigError as error:
            raise ConfigError(f"{error}\n  in the job: {' '.join(job)}") from error
    common = frozenset(grid[0]).intersection(*grid) if len(grid) > 1 else frozenset()
    return SweepPlan(folder, len(grid), all(config.dry_run for config in configs), common)


def finish(planned: SweepPlan, outcomes: Sequence[dict[str, Any]]) -> int:
    """Write and print the summary; the exit code of the sweep."""
    codes = {outcome["code"] for outcome in outcomes}
    if not planned.dry and planned.folder.is_dir():
        print(sweep_summary.write(planned.folder, outcomes), flush=True)
        if not outcomes:  # the launcher ran the jobs in other processes
            codes = {OK if status == "done" else FAILED for status in _states(planned.folder)}
    return OK if codes <= {OK} else FAILED


def new_folder() -> str:
    """A folder name that no other sweep has, as a Hydra interpolation on the job's run_root."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"${{run_root}}/sweeps/{stamp}_{secrets.token_hex(2)}"


def job_slug(overrides: Sequence[str], common: Collection[str] = ()) -> str:
    """A folder name from what sets the job apart; a hash stands for `common` and lost characters."""
    text = "_".join(override for override in overrides if override not in common)
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:SLUG_LENGTH].strip("-") or "defaults"
    if slug == text.replace("=", "-") and not common:
        return slug
    return f"{slug}_{hashlib.sha256(chr(10).join(overrides).encode()).hexdigest()[:6]}"


def _grid(app: Hydra, master: DictConfig) -> list[list[str]]:
    parameters = [f"{k}={v}" for k, v in (master.hydra.sweeper.params or {}).items()]
    given = OmegaConf.to_container(master.hydra.overrides.task, resolve=False)
    assert isinstance(given, list)
    parser = OverridesParser.create(config_loader=app.config_loader)
    parsed = parser.parse_overrides([*parameters, *map(str, given)])
    grid: list[list[str]] = BasicSweeper.split_arguments(parsed, None)[0]
    return grid


def _states(folder: Path) -> list[str]:
    return [sweep_summary.state(path) for path in sweep_summary.job_folders(folder)]
