"""The plan of a search, checked before the first trial: the space, the base, the options."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hydra._internal.hydra import Hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from rlox.configs import RunConfig, make
from rlox.errors import ConfigError
from rlox_cli.config import validate
from rlox_cli.config.options import group_options
from rlox_cli.config.overrides import conflicting_key_resets
from rlox_cli.config.run_schema import ALGO, RUN
from rlox_cli.config.schema import Key, is_below_open_key
from rlox_cli.config.variants import VariantSource
from rlox_cli.search.optimizer import require_optuna
from rlox_cli.search.options import TARGET, options_from_node
from rlox_cli.search.settings import SEARCH, SearchOptions
from rlox_cli.search.space import Dimension, SearchSpace, is_integer_type, plain_value, read_space
from rlox_cli.shell import messages
from rlox_cli.sweeps import backend as sweep_backend
from rlox_cli.sweeps import grid
from rlox_cli.sweeps.sweep import SweepPlan

GROUPS = (*(group.name for group in RUN.groups), "tuned")


@dataclass
class SearchState:
    """The progress of a search."""

    has_started: bool = False  # the study is open, is of this search, and no other process uses it


@dataclass(frozen=True)
class SearchPlan(SweepPlan):
    """A checked search."""

    options: SearchOptions
    space: SearchSpace
    base: RunConfig  # a run without the searched values
    corner_configs: list[RunConfig]  # runs at the ends of the space
    n_jobs: int  # trials at a time
    state: SearchState = field(default_factory=SearchState)

    @property
    def common_overrides(self) -> frozenset[str]:
        """The overrides that all jobs share."""
        return frozenset(self.space.fixed_overrides)

    def finish(self, outcomes: Sequence[dict[str, Any]], command_line: Sequence[str]) -> int:
        """Write and print the results; return the exit code."""
        from rlox_cli.search.outcome import finish_search

        return finish_search(self, outcomes, command_line)

    def record_decisions(self, folder: Path) -> None:
        """Print the decisions; the sweeper saves them when it knows that the study is of this search."""
        self.print_decisions(self.corner_configs)


def is_search(master: DictConfig) -> bool:
    """Return whether the sweeper is rlox's."""
    return str(OmegaConf.select(master, "hydra.sweeper._target_")) == TARGET


def search_plan(app: Hydra, master: DictConfig, folder: Path) -> SearchPlan:
    """Make the plan; check everything that can be known before a value is chosen."""
    require_optuna()
    node = OmegaConf.to_container(master.hydra.sweeper, resolve=True)
    assert isinstance(node, dict)
    options = options_from_node({str(k): v for k, v in node.items()})
    space = _read_master_space(app, master, node.get("params") or {})
    base, space = _check_space(app, master, space)
    launcher_workers = OmegaConf.select(master, "hydra.launcher.workers")
    corners = list(_corner_configs(app, master, space)) or [base]
    validate.require_normalize_rule_used([base, *corners], space.fixed_overrides)
    recorded_backends = sweep_backend.read_backends(folder)
    spaces = sweep_backend.SpacesCache()(base)
    backends = sweep_backend.decide_backends_between(folder, recorded_backends, corners, spaces)
    return SearchPlan(
        folder,
        None,
        base.dry_run,
        options,
        space,
        base,
        corners,
        options.n_jobs or int(launcher_workers or 1),
        backends=backends,
        recorded_backends=recorded_backends,
    )


def _corner_configs(app: Hydra, master: DictConfig, space: SearchSpace) -> Iterator[RunConfig]:
    """Yield the configurations of runs at the ends of a space.

    All values are at their lowest, all at their highest, or one is at an end (or any choice) and the others
    at their lowest. Combinations of values that are invalid together are skipped.
    """
    compose = grid.Composer(app, master)
    groups = [d for d in space.dimensions if d.name in GROUPS]
    value_dimensions = [d for d in space.dimensions if d.name not in GROUPS]
    lowest_values = {d.name: d.extreme_values[0] for d in value_dimensions}
    corners = [lowest_values, {d.name: d.extreme_values[-1] for d in value_dimensions}]
    corners += [lowest_values | {d.name: end} for d in value_dimensions for end in d.extreme_values]
    for group_choices in itertools.product(*(d.choices for d in groups)):
        options = {d.name: choice for d, choice in zip(groups, group_choices, strict=True)}
        for corner in corners:
            with suppress(ConfigError):
                job = space.job_overrides(options | corner, space.seeds[0])
                yield validate.run_config(compose(job))


def _read_master_space(app: Hydra, master: DictConfig, params: dict[Any, Any]) -> SearchSpace:
    task_overrides = OmegaConf.to_container(master.hydra.overrides.task, resolve=False)
    assert isinstance(task_overrides, list)
    parameter_overrides = [f"{key}={value}" for key, value in params.items()]
    parser = OverridesParser.create(config_loader=app.config_loader)
    space = read_space(parser.parse_overrides([*parameter_overrides, *map(str, task_overrides)]))
    # like typed overrides, those of the space reset keys of a preset that conflict with them
    all_overrides = [*space.fixed_overrides, *(d.override(d.extreme_values[0]) for d in space.dimensions)]
    displaced = conflicting_key_resets(all_overrides, list(VariantSource.current_folders))
    return replace(space, fixed_overrides=(*space.fixed_overrides, *displaced))


def _check_space(app: Hydra, master: DictConfig, space: SearchSpace) -> tuple[RunConfig, SearchSpace]:
    """Return the base, and the space with dimensions that follow the types of their keys."""
    groups = [d for d in space.dimensions if d.name in GROUPS]
    configs: list[RunConfig] = []
    dimensions = space.dimensions
    for group_choices in itertools.product(*(d.choices for d in groups)):
        choices = [d.override(c) for d, c in zip(groups, group_choices, strict=True)]
        overrides = [*space.fixed_overrides, *choices, f"seed={space.seeds[0]}"]
        composed = app.config_loader.load_sweep_config(master, overrides)
        data = validate.plain_data(composed)
        keys = RUN.keys(RUN.options_of(data))
        _require_matching_space(master, dimensions, keys, data)
        dimensions = tuple(_typed_dimension(d, keys, data) for d in dimensions)
        configs.append(validate.run_config(composed))
    return configs[0], replace(space, dimensions=dimensions)


def _require_matching_space(
    master: DictConfig, dimensions: Iterable[Dimension], keys: Sequence[Key], data: dict[str, Any]
) -> None:
    """Refuse the space of another algorithm; an error about one of its keys would mislead."""
    space, algo = str(master.hydra.runtime.choices.get(SEARCH)), str(data[ALGO.name]["name"])
    known = {key.name: key for key in keys}
    missing_keys = [
        d.name
        for d in dimensions
        if d.name in master.hydra.sweeper.params
        and d.name not in known
        and not is_below_open_key(d.name, known.values())
    ]
    if not missing_keys or space == algo or space not in ALGO.registry:
        return
    has_own_space = algo in group_options(SEARCH, VariantSource.current_folders)
    hint = f"search={algo} is the space of {algo}" if has_own_space else f"there is no space of {algo}"
    raise ConfigError(
        f"{SEARCH}={space} is the space of {space}, and {ALGO.name}={algo} has no {missing_keys[0]}: {hint}"
    )


def _typed_dimension(dimension: Dimension, keys: Iterable[Key], data: dict[str, Any]) -> Dimension:
    """Return the dimension, with integers if its key takes only these; raise `ConfigError` for a misfit."""
    if dimension.name in GROUPS:
        return dimension
    known = {key.name: key for key in keys}
    if dimension.name not in known:
        if is_below_open_key(dimension.name, known.values()):
            return dimension
        names = RUN.names(RUN.keys(RUN.options_of(data)))
        raise ConfigError(
            f"{dimension.source_text}: "
            f"{messages.unknown_key(dimension.name, names, RUN.owners(dimension.name))}"
        )
    if is_integer_type(known[dimension.name].hint) and not dimension.choices and not dimension.is_integer:
        if dimension.low % 1 or dimension.high % 1 or (dimension.step or 1) % 1:
            raise ConfigError(f"{dimension.source_text}: {dimension.name} takes whole numbers")
        dimension = replace(dimension, is_integer=True, low=int(dimension.low), high=int(dimension.high))
    for end in dimension.extreme_values:
        _require_valid(dimension, end, data)
    return dimension


def _require_valid(dimension: Dimension, value: Any, data: dict[str, Any]) -> None:
    """Raise `ConfigError` for a value that the key takes in no configuration."""
    if isinstance(value, str):
        value = plain_value(value)
    group, _, rest = dimension.name.partition(".")
    tree: dict[str, Any] = {}
    node = tree.setdefault(group, {}) if rest else tree
    if rest and isinstance(data.get(group), dict) and "name" in data[group]:
        node["name"] = data[group]["name"]
    *path, last = (rest or group).split(".")
    for part in path:
        node = node.setdefault(part, {})
    node[last] = value
    try:
        make(RunConfig, tree)
    except ConfigError as error:
        raise ConfigError(f"{dimension.source_text}: {error}") from error
