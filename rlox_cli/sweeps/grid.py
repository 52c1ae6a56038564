"""The combinations of a sweep, all composed and checked before the first one runs.

Hydra composes a job from all files of its groups, which takes about a fifth of a second, and would compose it
again before the launch. Here jobs that choose the same options are composed once; their values are set
afterwards, as Hydra itself sets values last.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

TARGET = "hydra_plugins.rlox.Checked"  # Hydra accepts sweepers only under such a name
SWEEPER = "hydra.sweeper._target_"


def prechecked_sweeper_override() -> list[str]:
    """Return the override that selects Hydra's own sweeper for jobs that are already composed and checked."""
    plugins = Plugins.instance()
    from rlox_cli.sweeps.prechecked_sweeper import PrecheckedSweeper

    plugins.class_name_to_class[TARGET] = PrecheckedSweeper
    return [f"{SWEEPER}={TARGET}"]


def combinations(app: Hydra, master: DictConfig) -> list[list[str]]:
    """Return the overrides of each job."""
    parameters = [f"{k}={v}" for k, v in (master.hydra.sweeper.params or {}).items()]
    task_overrides = OmegaConf.to_container(master.hydra.overrides.task, resolve=False)
    assert isinstance(task_overrides, list)
    parser = OverridesParser.create(config_loader=app.config_loader)
    parsed = parser.parse_overrides([*parameters, *map(str, task_overrides)])
    grid: list[list[str]] = BasicSweeper.split_arguments(parsed, None)[0]
    return grid


class Composer:
    """Composes jobs; jobs that choose the same options share one base."""

    def __init__(self, app: Hydra, master: DictConfig) -> None:
        self._loader, self._master = app.config_loader, master
        self._parser = OverridesParser.create()
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._parsed: dict[str, Override] = {}

    def __call__(self, job_overrides: Sequence[str]) -> DictConfig:
        """Compose a job as Hydra would, except for `hydra.overrides`."""
        try:
            return self._compose_on_base(job_overrides)
        except (HydraException, OmegaConfBaseException):
            return self._compose_fully(job_overrides)  # its errors refer to the job as written

    def _compose_on_base(self, job_overrides: Sequence[str]) -> DictConfig:
        values = [text for text in job_overrides if self._is_value(self._parse(text))]
        choices = tuple(text for text in job_overrides if text not in values)
        if choices not in self._bases:
            self._bases[choices] = self._compose_fully(choices)
        config = copy.deepcopy(self._bases[choices])
        ConfigLoaderImpl._apply_overrides_to_config([self._parse(text) for text in values], config)
        return config

    def _compose_fully(self, job_overrides: Sequence[str]) -> DictConfig:
        return self._loader.load_sweep_config(self._master, list(job_overrides))

    def _parse(self, text: str) -> Override:
        if text not in self._parsed:
            self._parsed[text] = self._parser.parse_override(text)
        return self._parsed[text]

    def _is_value(self, override: Override) -> bool:
        """Return whether the override only sets a value, and neither chooses nor places an option."""
        if override.package is not None or override.is_hydra_override():
            return False
        assert isinstance(self._loader, ConfigLoaderImpl)
        return not self._loader.repository.group_exists(override.key_or_group)
