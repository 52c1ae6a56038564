"""Hydra's sweep syntax as dimensions of a search space: intervals, ranges and lists of choices."""

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

LOG = "log"
SEED = "seed"
FLAGS = {"True": "true", "False": "false"}  # as people write them
ENVIRONMENT = ("env", "env.id")
NO_DIMENSION = ("exp", "search", "run_root", "dry_run", "run.name", "run.tags", "resume")


@dataclass(frozen=True)
class Dimension:
    """A key and what it may be: between `low` and `high`, or one of `choices`."""

    prefix: str  # of the override: `+`, `++` or nothing
    name: str
    written: str  # the override it was read from
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()  # as the values of overrides

    @property
    def ends(self) -> list[Any]:
        """The values between which, or of which, one is chosen."""
        return list(self.choices) or [self.low, self.high]

    def override(self, value: Any) -> str:
        """The override that gives the key a value."""
        text = value if isinstance(value, str) else repr(value)
        return f"{self.prefix}{self.name}={text}"

    def plain(self, value: Any) -> Any:
        """The value as data: a choice is the text of an override, which may be a number or a list."""
        return plain_value(value) if isinstance(value, str) else value

    def distribution(self) -> BaseDistribution:
        """The same for Optuna."""
        from optuna import distributions as of

        if self.choices:
            return of.CategoricalDistribution(self.choices)
        if self.whole:
            return of.IntDistribution(
                int(self.low), int(self.high), log=self.log, step=int(self.step or 1)
            )
        return of.FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def described(self) -> list[Any]:
        """All that sets it apart from another, as plain data."""
        return [self.low, self.high, self.step, self.log, self.whole, list(self.choices)]


@dataclass(frozen=True)
class Space:
    """What is given, what is searched, and the seeds whose scores a trial is the mean of."""

    fixed: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    seeds: tuple[int, ...]

    def job(self, values: dict[str, Any], seed: int) -> list[str]:
        """The overrides of a run."""
        chosen = [d.override(values[d.name]) for d in self.dimensions]
        return [*self.fixed, *chosen, f"{SEED}={seed}"]


def read_space(overrides: Iterable[Override]) -> Space:
    """The space that overrides say, of which later ones win; `ConfigError` for what makes none."""
    last = {override.key_or_group: override for override in overrides}
    fixed: list[str] = []
    dimensions: list[Dimension] = []
    seeds: tuple[int, ...] = (0,)
    for name, override in last.items():
        if name == SEED:
            seeds = _seeds(override)
        elif override.is_sweep_override():
            dimensions.append(_dimension(override))
        elif override.is_delete():
            fixed.append(str(override.input_line))
        else:
            fixed.append(f"{override.get_key_element()}={override.get_value_element_as_str()}")
    if not dimensions:
        raise ConfigError(
            "the search varies nothing; name a space (search=ppo) or say what to vary, e.g.\n"
            "  'algo.learning_rate=tag(log,interval(1e-5,1e-2))'"
        )
    return Space(tuple(fixed), tuple(dimensions), seeds)


def plain_value(text: str) -> Any:
    """What the value of an override is as data: `64`, `[64,64]`, `true`, `null`, or text."""
    node = OmegaConf.from_dotlist([f"it={text}"])
    data = OmegaConf.to_container(node)
    assert isinstance(data, dict)
    return data["it"]


def is_whole(hint: Any) -> bool:
    """Whether a field's type takes whole numbers and no others."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    return int in kinds and float not in kinds


def _seeds(override: Override) -> tuple[int, ...]:
    values: list[Any] = []
    if override.is_discrete_sweep():
        values = list(override.sweep_iterator())
    elif not override.is_sweep_override():
        values = [override.value()]
    if not values or not all(type(value) is int for value in values):
        raise ConfigError(
            f"{override.input_line}: a seed is not searched; each trial is the mean of those that are "
            "listed, e.g. seed=0,1,2"
        )
    if len(set(values)) < len(values):
        raise ConfigError(f"{override.input_line}: a seed is there twice")
    return tuple(values)


def _dimension(override: Override) -> Dimension:
    written, sweep, name = str(override.input_line), override.value(), override.key_or_group
    assert isinstance(sweep, Sweep) or override.is_choice_sweep()
    if name in ENVIRONMENT:
        raise ConfigError(
            f"{written}: scores of different environments cannot be compared; search in one of them"
        )
    if name in NO_DIMENSION:
        raise ConfigError(f"{written}: this is no hyperparameter; give it one value")
    log = _is_log(sweep, written)
    bare = Dimension(_prefix(override), name, written)
    if isinstance(sweep, IntervalSweep):
        return _interval(sweep, bare, log)
    if isinstance(sweep, RangeSweep):
        return _range(sweep, bare, log)
    if log or not isinstance(sweep, ChoiceSweep):
        raise ConfigError(f"{written}: expected interval(low,high), range(start,stop) or a,b,c")
    choices = tuple(FLAGS.get(text, text) for text in override.sweep_string_iterator())
    if len(set(choices)) < len(choices) or not choices:
        raise ConfigError(f"{written}: expected different choices, at least one")
    return replace(bare, choices=choices)


def _interval(sweep: IntervalSweep, bare: Dimension, log: bool) -> Dimension:
    low, high = sweep.start, sweep.end
    assert low is not None and high is not None
    whole = isinstance(low, int) and isinstance(high, int)
    _require_order(low, high, bare.written, log)
    return replace(bare, low=low, high=high, log=log, whole=whole)


def _range(sweep: RangeSweep, bare: Dimension, log: bool) -> Dimension:
    """As Hydra has it: the stop is no longer part of it."""
    written = bare.written
    if sweep.step == 0:
        raise ConfigError(f"{written}: a step of 0 goes nowhere")
    values: Sequence[float] = sorted(sweep.range())
    if not values:
        raise ConfigError(f"{written}: the range is empty; its stop is not part of it")
    whole = all(isinstance(value, int) for value in values)
    step = abs(sweep.step)
    if log and not (whole and step == 1):
        raise ConfigError(f"{written}: on a log scale there are no steps; use interval(low,high)")
    _require_order(values[0], values[-1], written, log)
    return replace(
        bare, low=values[0], high=values[-1], log=log, whole=whole, step=None if log else step
    )


def _require_order(low: float, high: float, written: str, log: bool) -> None:
    if low > high:
        raise ConfigError(f"{written}: the interval is empty: {low} is above {high}")
    if log and low <= 0:
        raise ConfigError(f"{written}: a log scale begins above 0")


def _is_log(sweep: Any, written: str) -> bool:
    tags = set(getattr(sweep, "tags", ()))
    if unknown := sorted(tags - {LOG}):
        raise ConfigError(f"{written}: unknown tag '{unknown[0]}'; the only one is {LOG}")
    return bool(tags)


def _prefix(override: Override) -> str:
    key = override.get_key_element()
    return key[: len(key) - len(key.lstrip("+"))]
