"""Parse Hydra's sweep syntax into dimensions of a search space: intervals, ranges and choices."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    RangeSweep,
    Sweep,
)
from omegaconf import OmegaConf

from rlox.errors import ConfigError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LOG_TAG = "log"
SEED = "seed"
BOOLEAN_TEXTS = {"True": "true", "False": "false"}  # text of a Python value -> text on the command line
ENVIRONMENT_KEYS = ("env", "env.id")
NON_DIMENSION_KEYS = ("exp", "search", "run_root", "dry_run", "run.name", "run.tags", "resume")


@dataclass(frozen=True)
class Dimension:
    """A key and its possible values: between `low` and `high`, or one of `choices`."""

    prefix: str  # of the override: `+`, `++` or nothing
    name: str
    source_text: str  # the override it was read from
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    is_log: bool = False
    is_integer: bool = False
    choices: tuple[str, ...] = ()  # each as the text after `=` in an override

    @property
    def extreme_values(self) -> list[Any]:
        """All choices, or else the lowest and the highest value."""
        return list(self.choices) or [self.low, self.high]

    def override(self, value: Any) -> str:
        """Return the text of the override that gives the key a value."""
        text = value if isinstance(value, str) else repr(value)
        return f"{self.prefix}{self.name}={text}"

    def to_plain(self, value: Any) -> Any:
        """Parse a choice, which is stored as text, into a number, list or text; keep other values."""
        return plain_value(value) if isinstance(value, str) else value

    def to_distribution(self) -> BaseDistribution:
        """Return Optuna's distribution of the dimension."""
        from optuna import distributions

        if self.choices:
            return distributions.CategoricalDistribution(self.choices)
        if self.is_integer:
            return distributions.IntDistribution(
                int(self.low), int(self.high), log=self.is_log, step=int(self.step or 1)
            )
        return distributions.FloatDistribution(self.low, self.high, log=self.is_log, step=self.step)

    def signature(self) -> list[Any]:
        """Return values and scale as plain data, to compare them with the dimension of a stored study."""
        return [self.low, self.high, self.step, self.is_log, self.is_integer, list(self.choices)]


@dataclass(frozen=True)
class SearchSpace:
    """A search space: fixed overrides, searched dimensions, seeds; a trial's score is the mean over seeds."""

    fixed_overrides: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    seeds: tuple[int, ...]

    def job_overrides(self, values: dict[str, Any], seed: int) -> list[str]:
        """Return the overrides of a run with these values of the dimensions."""
        value_overrides = [d.override(values[d.name]) for d in self.dimensions]
        return [*self.fixed_overrides, *value_overrides, f"{SEED}={seed}"]


def read_space(overrides: Iterable[Override]) -> SearchSpace:
    """Read a space from overrides, of which later ones win; raise `ConfigError` if none varies."""
    last_overrides = {override.key_or_group: override for override in overrides}
    fixed_overrides: list[str] = []
    dimensions: list[Dimension] = []
    seeds: tuple[int, ...] = (0,)
    for name, override in last_overrides.items():
        if name == SEED:
            seeds = _read_seeds(override)
        elif override.is_sweep_override():
            dimensions.append(_read_dimension(override))
        elif override.is_delete():
            fixed_overrides.append(str(override.input_line))
        else:
            fixed_overrides.append(f"{override.get_key_element()}={override.get_value_element_as_str()}")
    if not dimensions:
        raise ConfigError(
            "the search varies nothing; name a space (search=ppo) or say what to vary, e.g.\n"
            "  'algo.learning_rate=tag(log,interval(1e-5,1e-2))'"
        )
    return SearchSpace(tuple(fixed_overrides), tuple(dimensions), seeds)


def plain_value(text: str) -> Any:
    """Parse the value of an override: `64`, `[64,64]`, `true`, `null`, or text."""
    node = OmegaConf.from_dotlist([f"it={text}"])
    data = OmegaConf.to_container(node)
    assert isinstance(data, dict)
    return data["it"]


def is_integer_type(hint: Any) -> bool:
    """Return whether a field's type takes integers and no other numbers."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    types_in_hint = typing.get_args(hint) if is_union else (hint,)
    return int in types_in_hint and float not in types_in_hint


def _read_seeds(override: Override) -> tuple[int, ...]:
    values: list[Any] = []
    if override.is_discrete_sweep():
        values = list(override.sweep_iterator())
    elif not override.is_sweep_override():
        values = [override.value()]
    if not values or not all(type(value) is int for value in values):
        raise ConfigError(
            f"{override.input_line}: seeds are not searched: list integers, e.g. seed=0,1,2; the "
            "score of a trial is the mean over them"
        )
    if len(set(values)) < len(values):
        raise ConfigError(f"{override.input_line}: a seed is listed twice")
    return tuple(values)


def _read_dimension(override: Override) -> Dimension:
    source_text, sweep, name = str(override.input_line), override.value(), override.key_or_group
    assert isinstance(sweep, Sweep) or override.is_choice_sweep()
    if name in ENVIRONMENT_KEYS:
        raise ConfigError(
            f"{source_text}: scores of different environments cannot be compared; search in one of them"
        )
    if name in NON_DIMENSION_KEYS:
        raise ConfigError(f"{source_text}: this is no hyperparameter; give it one value")
    is_log = _is_log(sweep, source_text)
    base = Dimension(_prefix(override), name, source_text)
    if isinstance(sweep, IntervalSweep):
        return _read_interval(sweep, base, is_log)
    if isinstance(sweep, RangeSweep):
        return _read_range(sweep, base, is_log)
    if is_log or not isinstance(sweep, ChoiceSweep):
        raise ConfigError(f"{source_text}: expected interval(low,high), range(start,stop), or untagged a,b,c")
    choices = tuple(BOOLEAN_TEXTS.get(text, text) for text in override.sweep_string_iterator())
    if len(set(choices)) < len(choices) or not choices:
        raise ConfigError(f"{source_text}: expected at least one choice, and none twice")
    return replace(base, choices=choices)


def _read_interval(sweep: IntervalSweep, base: Dimension, is_log: bool) -> Dimension:
    low, high = sweep.start, sweep.end
    assert low is not None and high is not None
    is_integer = isinstance(low, int) and isinstance(high, int)
    _require_order(low, high, base.source_text, is_log)
    return replace(base, low=low, high=high, is_log=is_log, is_integer=is_integer)


def _read_range(sweep: RangeSweep, base: Dimension, is_log: bool) -> Dimension:
    """Read a range; as in Hydra, its stop is exclusive."""
    source_text = base.source_text
    if sweep.step == 0:
        raise ConfigError(f"{source_text}: the step must not be 0")
    values: Sequence[float] = sorted(sweep.range())
    if not values:
        raise ConfigError(f"{source_text}: the range is empty; its stop is exclusive")
    is_integer = all(isinstance(value, int) for value in values)
    step = abs(sweep.step)
    if is_log and not (is_integer and step == 1):
        raise ConfigError(f"{source_text}: a log scale needs interval(low,high) or an integer range, step 1")
    _require_order(values[0], values[-1], source_text, is_log)
    return replace(
        base,
        low=values[0],
        high=values[-1],
        is_log=is_log,
        is_integer=is_integer,
        step=None if is_log else step,
    )


def _require_order(low: float, high: float, source_text: str, is_log: bool) -> None:
    if low > high:
        raise ConfigError(f"{source_text}: the interval is empty: {low} is above {high}")
    if is_log and low <= 0:
        raise ConfigError(f"{source_text}: a log scale needs values above 0")


def _is_log(sweep: Any, source_text: str) -> bool:
    tags = set(getattr(sweep, "tags", ()))
    if unknown := sorted(tags - {LOG_TAG}):
        raise ConfigError(f"{source_text}: unknown tag '{unknown[0]}'; the only one is {LOG_TAG}")
    return bool(tags)


def _prefix(override: Override) -> str:
    key = override.get_key_element()
    return key[: len(key) - len(key.lstrip("+"))]
