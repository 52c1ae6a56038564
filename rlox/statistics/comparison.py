"""Comparison of a later run's figures with those of `expected.json`: which agree and which differ.

The question is whether both figures come from the same algorithm. If both have scores, an interval by
Student's t decides, that of the difference of their trimmed means. With two or more runs it contains the
true difference as often as its level says (docs/statistics.md). Otherwise the interval of the difference
is computed from the two intervals.
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
from rlox.statistics.scores import Array, parse_scores
from rlox.statistics.trimmed_means import t_quantile, trimmed_difference

__all__ = ["Verdict", "compare"]

SCHEMA = 1
ESTIMATE_KEYS = ("iqm", "mean", "median", "estimate", "value")
SETTING_KEYS = ("total_steps", "solved_from")  # have to be equal for figures to be comparable
# keys that are no figures: metadata of the document and fields of a figure; `seeds` may differ
IGNORED_KEYS = ("schema_version", "versions", "wheel_sha256", "packages", "scores", "ci95", "seeds")
REPORTED_LEVEL = 0.95  # level of `ci95`
ROUNDING = 1e-9
# A rounded estimate may differ from the estimate that its scores give by this much, or by this part of the
# largest score.
MAX_ROUNDING, MAX_RELATIVE_ROUNDING = 0.05, 0.01


@dataclass(frozen=True)
class Verdict:
    """Whether a figure agrees; `None` if that cannot be decided, for the reason in `reason`.

    `difference` is the actual figure minus the expected one, with the interval that decided.
    """

    figure: str
    expected: Interval | None
    actual: Interval | None
    agrees: bool | None
    reason: str = ""
    difference: Interval | None = None

    @property
    def label(self) -> str:
        """`agrees`, `differs` or `unknown`."""
        return {True: "agrees", False: "differs", None: "unknown"}[self.agrees]


@dataclass(frozen=True)
class _Figure:
    interval: Interval
    kind: str  # the estimate's name, or `setting`
    scores: Array | None = None
    seeds: int | None = None  # number of runs, if the document has it


def compare(expected: Mapping[str, Any], actual: Mapping[str, Any], *, level: float = 0.99) -> list[Verdict]:
    """Return verdicts on all figures of two documents: those of `expected` in order, then extra ones.

    A figure is a mapping with an estimate (`iqm`, `mean`, `median`, `estimate`, `value`) and `scores`, `ci95`
    or both; or a list of scores, which are compared by their mean. The name of a figure is its path in the
    document. `total_steps` and `solved_from` have to be equal. A figure differs if the interval (at
    `level`) of the difference `actual - expected` excludes 0. At level 0.99, about one in a hundred figures
    is reported to differ by chance though nothing changed.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level={level}: expected a number between 0 and 1, such as 0.99")
    expected_figures, actual_figures = _figures(expected, "expected"), _figures(actual, "found")
    return [
        _verdict(name, expected_figures.get(name), actual_figures.get(name), level)
        for name in {**expected_figures, **actual_figures}
    ]


def _verdict(name: str, expected: _Figure | None, actual: _Figure | None, level: float) -> Verdict:
    if expected is None or actual is None:
        missing_from = "the expected figures" if expected is None else "what was found"
        expected_interval, actual_interval = (
            figure.interval if figure else None for figure in (expected, actual)
        )
        return Verdict(name, expected_interval, actual_interval, None, f"not in {missing_from}")
    shared_fields = (name, expected.interval, actual.interval)
    if expected.kind != actual.kind:
        return Verdict(*shared_fields, None, f"expected {expected.kind}, found {actual.kind}")
    if expected.kind == "setting":
        is_equal = expected.interval.estimate == actual.interval.estimate
        return Verdict(*shared_fields, is_equal, "" if is_equal else "not the same setting")
    difference = _difference(expected, actual, level)
    scale = max(1.0, abs(expected.interval.estimate), abs(actual.interval.estimate))
    if abs(difference.estimate) <= ROUNDING * scale:
        return Verdict(*shared_fields, True, difference=difference)
    if math.isnan(difference.low):
        has_scores = expected.scores is not None and actual.scores is not None
        return Verdict(
            *shared_fields, None, "too few runs" if has_scores else "not both have an interval", difference
        )
    return Verdict(*shared_fields, 0 in difference, difference=difference)


def _difference(expected: _Figure, actual: _Figure, level: float) -> Interval:
    if expected.scores is not None and actual.scores is not None and actual.kind in ("iqm", "mean"):
        return trimmed_difference(actual.scores, expected.scores, actual.kind == "iqm", level)
    # G. Zou and A. Donner (2008), Stat. Med. 27, 1693-1702: interval of a difference from two intervals
    below_x, above_x = _half_widths(actual, level)
    below_y, above_y = _half_widths(expected, level)
    estimate = actual.interval.estimate - expected.interval.estimate
    return Interval(
        estimate, estimate - math.hypot(below_x, above_y), estimate + math.hypot(above_x, below_y)
    )


def _half_widths(figure: _Figure, level: float) -> tuple[float, float]:
    """Return the interval's widths below and above the estimate, for `level` and the number of runs."""
    factor = NormalDist().inv_cdf((1 + level) / 2)
    if figure.seeds is not None:
        if figure.seeds < 2:
            return math.nan, math.nan
        factor = t_quantile(level, figure.seeds - 1) * math.sqrt(figure.seeds / (figure.seeds - 1))
    factor /= NormalDist().inv_cdf((1 + REPORTED_LEVEL) / 2)
    interval = figure.interval
    return (interval.estimate - interval.low) * factor, (interval.high - interval.estimate) * factor


def _figures(document: Mapping[str, Any], name: str) -> dict[str, _Figure]:
    schema = document.get("schema_version", SCHEMA)
    if schema != SCHEMA:
        raise ConfigError(f"{name}: schema_version is {schema!r}; this rlox reads {SCHEMA}")
    try:
        figures = dict(_walk_figures(document, "", None))
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply to be a document of figures") from None
    if not figures:
        raise ConfigError(
            f"{name} has no figures: expected mappings with ci95 and one of {', '.join(ESTIMATE_KEYS)}"
        )
    return figures


def _walk_figures(node: Mapping[str, Any], path: str, seeds: int | None) -> Iterator[tuple[str, _Figure]]:
    seeds = node.get("seeds", seeds)
    if seeds is not None and not isinstance(seeds, int):
        raise ConfigError(f"{path}/seeds is {seeds!r}: expected a number of runs")
    if "ci95" in node or ("scores" in node and any(kind in node for kind in ESTIMATE_KEYS)):
        yield path, _estimate(node, path, seeds)
    for key, value in node.items():
        child_path = f"{path}/{key}" if path else str(key)
        if key in SETTING_KEYS:
            number = _number(value, child_path)
            yield child_path, _Figure(Interval(number, math.nan, math.nan), "setting")
        elif key in IGNORED_KEYS:
            continue
        elif isinstance(value, Mapping):
            yield from _walk_figures(value, child_path, seeds)
        elif isinstance(value, list) and all(isinstance(item, int | float) for item in value):
            scores = _scores(value, child_path)
            yield child_path, _Figure(Interval(float(scores.mean()), math.nan, math.nan), "mean", scores)


def _estimate(node: Mapping[str, Any], path: str, seeds: int | None) -> _Figure:
    kinds = [kind for kind in ESTIMATE_KEYS if kind in node]
    if len(kinds) != 1:
        raise ConfigError(f"{path}: it has {len(kinds)} of {', '.join(ESTIMATE_KEYS)}, expected one")
    estimate = _number(node[kinds[0]], f"{path}/{kinds[0]}")
    scores = _scores(node["scores"], f"{path}/scores") if "scores" in node else None
    low, high = _parse_ends(node.get("ci95", (None, None)), f"{path}/ci95")
    if scores is not None:
        _require_consistent_estimate(estimate, kinds[0], scores, path)
    return _Figure(Interval(estimate, low, high), kinds[0], scores, seeds)


def _parse_ends(value: Any, name: str) -> tuple[float, float]:
    """Parse the ends of an interval; null becomes NaN, as for a single run."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"{name} is {value!r}: expected the two ends of an interval")
    low, high = (math.nan if end is None else end for end in value)
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        raise ConfigError(f"{name} is {value!r}: expected two numbers")
    if low > high:
        raise ConfigError(f"{name} is {value!r}: expected the lower end first")
    return float(low), float(high)


def _require_consistent_estimate(estimate: float, kind: str, scores: Array, path: str) -> None:
    """Raise `ConfigError` if an estimate contradicts its own scores by more than rounding."""
    statistic = {"iqm": iqm, "mean": mean}.get(kind)
    if statistic is None:
        return
    score_estimate = statistic(scores)
    if abs(estimate - score_estimate) > max(
        MAX_ROUNDING, MAX_RELATIVE_ROUNDING * float(np.abs(scores).max())
    ):
        raise ConfigError(
            f"{path}/{kind} is {estimate:g}, and that of its scores is {score_estimate:g}: expected the "
            f"same; leave {kind} or the scores out"
        )


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float):
        raise ConfigError(f"{name} is {value!r}: expected a number")
    if not math.isfinite(value):
        raise NonFiniteError(f"{name} is {value}: expected a finite number")
    return float(value)


def _scores(values: Any, name: str) -> Array:
    tasks = parse_scores(values, name)
    if len(tasks.values) != 1:
        raise ConfigError(f"{name}: expected scores of one task, [runs]")
    return np.asarray(tasks.values[0])
