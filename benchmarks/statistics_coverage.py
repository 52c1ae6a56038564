"""Simulate how reliable the intervals and verdicts of rlox.statistics are with few runs.

Coverage: how often the nominal 95% bootstrap interval of the IQM contains the true value, with n runs of one
task or of each of five tasks. Verdicts: how often `compare` says that n repeated runs differ from n earlier
ones, if nothing has changed (false alarms) and if each run is worse by some standard deviations; also how
often the 95% bootstrap interval of the difference would say so. A thousand samples take a minute.

    python benchmarks/statistics_coverage.py --samples 10000
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.statistics import compare, difference, iqm, stratified_bootstrap

RESULTS = Path(__file__).resolve().parent / "results"
RUNS, REPEATED_RUNS = (3, 5, 10, 20), (3, 5, 10)
TASKS = (1, 5)
DROPS = (0, 1, 2, 3, 5)  # in standard deviations
RESAMPLES = 1000
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Normal:
    """Scores around 0, which is their IQM."""

    name: str = "normal"
    truth: float = 0.0
    deviation: float = 1.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw scores `[runs, tasks]`."""
        return rng.normal(size=shape)


@dataclass(frozen=True)
class Capped:
    """As on CartPole-v1: four of five runs reach 500, the IQM; the others end between 80 and 400."""

    name: str = "capped"
    truth: float = 500.0
    deviation: float = 111.9

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw scores `[runs, tasks]`."""
        return np.where(rng.random(shape) < 0.8, 500.0, rng.uniform(80, 400, shape))


DISTRIBUTIONS = (Normal(), Capped())


def coverage(kind: Any, runs: int, tasks: int, samples: int) -> float:
    """Return the fraction of `samples` studies whose interval contains the true value."""
    rng = np.random.default_rng(runs + 100 * tasks)
    intervals = (
        stratified_bootstrap(kind.draw(rng, (runs, tasks)), rng=rng, resamples=RESAMPLES)
        for _ in range(samples)
    )
    return sum(kind.truth in interval for interval in intervals) / samples


def differing_share(kind: Any, runs: int, drop: float, samples: int) -> tuple[float, float]:
    """Return the fraction of `samples` repetitions, worse by `drop`, that differ: by `compare`, by the
    bootstrap.
    """
    rng = np.random.default_rng(runs)
    by_verdict = by_bootstrap = 0
    for _ in range(samples):
        first_scores = kind.draw(rng, (runs,))
        second_scores = kind.draw(rng, (runs,)) - drop * kind.deviation
        (verdict,) = compare({"task": figure(first_scores)}, {"task": figure(second_scores)})
        by_verdict += verdict.agrees is False
        by_bootstrap += 0 not in difference(second_scores, first_scores, rng=rng, resamples=RESAMPLES)
    return by_verdict / samples, by_bootstrap / samples


def figure(scores: Array) -> dict[str, Any]:
    """Return scores in the form of `expected.json`; the interval is not used."""
    return {"iqm": iqm(scores), "ci95": [0.0, 0.0], "scores": scores}


def simulate(samples: int) -> dict[str, Any]:
    """Return all cells: rows by kind, and the numbers of each column."""
    return {
        "samples": samples,
        "resamples": RESAMPLES,
        "coverage": [
            {"kind": k.name, "runs": n, "tasks": t, "covered": coverage(k, n, t, samples)}
            for k in DISTRIBUTIONS
            for t in TASKS
            for n in RUNS
        ],
        "verdicts": [
            {"kind": k.name, "runs": n, "drop": d, "differ": shares[0], "bootstrap": shares[1]}
            for k in DISTRIBUTIONS
            for n in REPEATED_RUNS
            for d in DROPS
            for shares in [differing_share(k, n, d, samples)]
        ],
    }


def tables(results: dict[str, Any]) -> str:
    """Return both tables in Markdown."""
    covered = {(r["kind"], r["tasks"], r["runs"]): r["covered"] for r in results["coverage"]}
    rows = [["scores", "tasks", *(f"{n} runs" for n in RUNS)]]
    for kind, tasks in dict.fromkeys(key[:2] for key in covered):
        rows.append([kind, str(tasks), *(f"{covered[kind, tasks, n]:.1%}" for n in RUNS)])
    verdicts_by_cell = {(r["kind"], r["runs"], r["drop"]): r for r in results["verdicts"]}
    verdicts = [["scores", "runs of each", "nothing changed", *(f"{d} sd worse" for d in DROPS[1:])]]
    for kind, runs in dict.fromkeys(key[:2] for key in verdicts_by_cell):
        entries = [verdicts_by_cell[kind, runs, drop] for drop in DROPS]
        cells = [f"{r['differ']:.1%} ({r['bootstrap']:.1%})" for r in entries]
        verdicts.append([kind, str(runs), *cells])
    return f"{markdown(rows)}\n{markdown(verdicts)}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def main() -> None:
    """Simulate, write the figures and show the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=10_000, help="studies in each cell")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    results = simulate(arguments.samples)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / "statistics_coverage"
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(tables(results), encoding="utf-8")
    print(tables(results), end="")


if __name__ == "__main__":
    main()
