"""A later run's figures beside those of `expected.json`: which agree and which differ.

The question is whether both are runs of the same thing. Where both have their scores, the answer is the
interval of the difference of the trimmed means by Student's t, which holds its level from two runs on
(docs/statistics.md); else the interval of the difference that follows from the two intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from rlox.errors import ConfigError, NonFiniteError
from rlox.statistics.bootstrap import Interval
from rlox.statistics.estimators import iqm, mean
from rlox.statistics.scores import Array, tasks_of
from rlox.statistics.student import t_quantile, trimmed_difference

__all__ = ["Verdict", "compare"]

SCHEMA = 1
ESTIMATES = ("iqm", "mean", "median", "estimate", "value")
SETTINGS = ("total_steps", "solved_from")  # what has to be equal for anything to be comparable
# what a document holds beside figures, and what is in a figure; `seeds` may differ
ASIDE = ("schema_version", "versions", "wheel_sha256", "packages", "scores", "ci95", "seeds")
GIVEN_LEVEL = 0.95  # of `ci95`
ROUNDING = 1e-9
# How far a rounded estimate may be from that of its scores: this, or this part of the greatest score.
ROUNDED, ROUNDED_PART = 0.05, 0.01


@dataclass(frozen=True)
class Verdict:
    """Whether a figure agrees; `None` where nothing can be said, with the reason in `because`.

    `difference` is found minus expected, with the interval that decided.
    """

    figure: str
    expected: Interval | None
    found: Interval | None
    agrees: bool | None
    because: str = ""
    difference: Interval | None = None

    @property
    def word(self) -> str:
        """`agrees`, `differs` or `unknown`."""
        return {True: "agrees", False: "differs", None: "unknown"}[self.agrees]


@dataclass(frozen=True)
class _Figure:
    shown: Interval
    kind: str  # the estimate's name, or `setting`
    scores: Array | None = None
    seeds: int | None = None  # how many runs it is of, if the document says


def compare(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, level: float = 0.99
) -> list[Verdict]:
    """Verdicts on all figures of two documents, in the order of `expected`, then what only `found` has.

    A figure is a mapping with an estimate (`iqm`, `mean`, `median`, `estimate`, `value`) and `scores`, `ci95`
    or both, or a list of scores, whose mean is meant; its name is the path to it. `total_steps` and
    `solved_from` have to be equal. A figure differs where the `level` interval of found - expected does not
    hold 0: of a hundred that are the same, one is said to differ at 0.99.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level={level}: expected a number between 0 and 1, such as 0.99")
    wanted, got = _figures(expected, "expected"), _figures(found, "found")
    return [_verdict(name, wanted.get(name), got.get(name), level) for name in {**wanted, **got}]


def _verdict(name: str, expected: _Figure | None, found: _Figure | None, level: float) -> Verdict:
    if expected is None or found is None:
        where = "the expected figures" if expected is None else "what was found"
        one, other = (figure.shown if figure else None for figure in (expected, found))
        return Verdict(name, one, other, None, f"not in {where}")
    both = (name, expected.shown, found.shown)
    if expected.kind != found.kind:
        return Verdict(*both, None, f"expected {expected.kind}, found {found.kind}")
    if expected.kind == "setting":
        same = expected.shown.estimate == found.shown.estimate
        return Verdict(*both, same, "" if same else "not the same setting")
    apart = _difference(expected, found, level)
    scale = max(1.0, abs(expected.shown.estimate), abs(found.shown.estimate))
    if abs(apart.estimate) <= ROUNDING * scale:
        return Verdict(*both, True, difference=apart)
    if math.isnan(apart.low):
        scored = expected.scores is not None and found.scores is not None
        return Verdict(*both, None, "too few runs" if scored else "no interval of both", apart)
    return Verdict(*both, 0 in apart, difference=apart)


def _difference(expected: _Figure, found: _Figure, level: float) -> Interval:
    if expected.scores is not None and found.scores is not None and found.kind in ("iqm", "mean"):
        return trimmed_difference(found.scores, expected.scores, found.kind == "iqm", level)
    # G. Zou and A. Donner (2008), Stat. Med. 27, 1693-1702: the ends of a difference from those of its parts
    below_x, above_x = _reach(found, level)
    below_y, above_y = _reach(expected, level)
    apart = found.shown.estimate - expected.shown.estimate
    return Interval(
        apart, apart - math.hypot(below_x, above_y), apart + math.hypot(above_x, below_y)
    )


def _reach(figure: _Figure, level: float) -> tuple[float, float]:
    """How far the figure's interval reaches down and up, made one of `level` and of its few runs."""
    wide = NormalDist().inv_cdf((1 + level) / 2)
    if figure.seeds is not None:
        if figure.seeds < 2:
            return math.nan, math.nan
        wide = t_quantile(level, figure.seeds - 1) * math.sqrt(figure.seeds / (figure.seeds - 1))
    wide /= NormalDist().inv_cdf((1 + GIVEN_LEVEL) / 2)
    shown = figure.shown
    return (shown.estimate - shown.low) * wide, (shown.high - shown.estimate) * wide


def _figures(document: Mapping[str, Any], name: str) -> dict[str, _Figure]:
    schema = document.get("schema_version", SCHEMA)
    if schema != SCHEMA:
        raise ConfigError(f"{name}: schema_version is {schema!r}; this rlox reads {SCHEMA}")
    try:
        figures = dict(_walk(document, "", None))
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply to be a document of figures") from None
    if not figures:
        raise ConfigError(
            f"{name} has no figures: expected mappings with ci95 and one of {', '.join(ESTIMATES)}"
        )
    return figures


def _walk(node: Mapping[str, Any], path: str, seeds: int | None) -> Iterator[tuple[str, _Figure]]:
    seeds = node.get("seeds", seeds)
    if seeds is not None and not isinstance(seeds, int):
        raise ConfigError(f"{path}/seeds is {seeds!r}: expected a number of runs")
    if "ci95" in node or ("scores" in node and any(kind in node for kind in ESTIMATES)):
        yield path, _estimate(node, path, seeds)
    for key, value in node.items():
        below = f"{path}/{key}" if path else str(key)
        if key in SETTINGS:
            number = _number(value, below)
            yield below, _Figure(Interval(number, math.nan, math.nan), "setting")
        elif key in ASIDE:
            continue
        elif isinstance(value, Mapping):
            yield from _walk(value, below, seeds)
        elif isinstance(value, list) and all(isinstance(of, int | float) for of in value):
            scores = _scores(value, below)
            yield below, _Figure(Interval(float(scores.mean()), math.nan, math.nan), "mean", scores)


def _estimate(node: Mapping[str, Any], path: str, seeds: int | None) -> _Figure:
    kinds = [kind for kind in ESTIMATES if kind in node]
    if len(kinds) != 1:
        raise ConfigError(f"{path}: it has ci95 and {len(kinds)} of {', '.join(ESTIMATES)}")
    estimate = _number(node[kinds[0]], f"{path}/{kinds[0]}")
    scores = _scores(node["scores"], f"{path}/scores") if "scores" in node else None
    low, high = _ends(node.get("ci95", (None, None)), f"{path}/ci95")
    if scores is not None:
        _require_own(estimate, kinds[0], scores, path)
    return _Figure(Interval(estimate, low, high), kinds[0], scores, seeds)


def _ends(given: Any, name: str) -> tuple[float, float]:
    """The ends of an interval; NaN where they are null, as of one run alone."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ConfigError(f"{name} is {given!r}: expected the two ends of an interval")
    low, high = (math.nan if end is None else end for end in given)
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        raise ConfigError(f"{name} is {given!r}: expected two numbers")
    if low > high:
        raise ConfigError(f"{name} is {given!r}: expected the lower end first")
    return float(low), float(high)


def _require_own(estimate: float, kind: str, scores: Array, path: str) -> None:
    """`ConfigError` for an estimate that its own scores do not have, however it was rounded."""
    own = {"iqm": iqm, "mean": mean}.get(kind)
    if own is None:
        return
    there = own(scores)
    if abs(estimate - there) > max(ROUNDED, ROUNDED_PART * float(np.abs(scores).max())):
        raise ConfigError(
            f"{path}/{kind} is {estimate:g}, and that of its scores is {there:g}: expected the {kind} of the "
            "scores beside it; leave one of them out"
        )


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float):
        raise ConfigError(f"{name} is {value!r}: expected a number")
    if not math.isfinite(value):
        raise NonFiniteError(f"{name} is {value}: expected a finite number")
    return float(value)


def _scores(values: Any, name: str) -> Array:
    tasks = tasks_of(values, name)
    if len(tasks.values) != 1:
        raise ConfigError(f"{name}: expected scores of one task, [runs]")
    return np.asarray(tasks.values[0])
