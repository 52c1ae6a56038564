"""What a campaign's runs come to: interquartile means with intervals, a table, learning curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.statistics import iqm

SYSTEMS = ("rlox", "sb3")
COLORS = ("#0b559f", "#d94801")
GRID = 50  # points of a learning curve
LAST = 100  # episodes at the end of training
RESAMPLES = 10_000

Runs = dict[str, list[dict[str, Any]]]  # results by system, in order of seed
Whole = tuple[str, str, int, Runs]  # a complete leg: name, environment, steps, results


def curve(ends: Sequence[tuple[int, float]], steps: int) -> list[float | None]:
    """Mean return of the last 20 episodes at `GRID` equal steps; `None` before the first end."""
    at = np.array([s for s, _ in ends])
    values = np.array([r for _, r in ends])
    points: list[float | None] = []
    for step in np.linspace(steps / GRID, steps, GRID):
        before = values[: int(np.searchsorted(at, step, side="right"))]
        points.append(float(before[-20:].mean()) if len(before) else None)
    return points


def compare(scores: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """IQM over seeds of each system with its interval, and the interval of the difference."""
    rng = np.random.default_rng(0)
    draws = {s: middle(x[rng.integers(0, len(x), (RESAMPLES, len(x)))]) for s, x in scores.items()}
    found: dict[str, Any] = {
        s: {"iqm": iqm(x), "ci95": interval(draws[s]), "scores": [float(score) for score in x]}
        for s, x in scores.items()
    }
    found["difference"] = {
        "iqm": found["rlox"]["iqm"] - found["sb3"]["iqm"],
        "ci95": interval(draws["rlox"] - draws["sb3"]),
    }
    return found


def middle(draws: NDArray[Any]) -> NDArray[Any]:
    """`iqm` of each row, all at once."""
    cut = draws.shape[1] // 4
    found: NDArray[Any] = np.sort(draws, axis=1)[:, cut : draws.shape[1] - cut].mean(axis=1)
    return found


def interval(draws: NDArray[Any]) -> list[float]:
    """95% percentile interval of bootstrap estimates."""
    return [float(q) for q in np.quantile(draws, [0.025, 0.975])]


def summarize(steps: int, runs: Runs) -> dict[str, Any]:
    """The final policies' scores, and beside them the last episodes of training where runs have them."""
    scores = {s: np.array([np.mean(r["returns"]) for r in of]) for s, of in runs.items()}
    found = {"total_steps": steps, "seeds": len(runs["rlox"]), **compare(scores)}
    if all("training" in r for of in runs.values() for r in of):
        found["training"] = compare({s: np.array([r["training"] for r in runs[s]]) for s in runs})
    return found


def versions(legs: Sequence[Whole]) -> dict[str, Any]:
    """What the runs say they were made with; several of a kind are all named."""
    wheels: set[str] = set()
    packages: dict[str, set[str]] = {}
    for origin in (r["provenance"] for *_, runs in legs for of in runs.values() for r in of):
        for name, number in origin["packages"].items():
            packages.setdefault(name, set()).add(number)
        wheels |= {origin["wheel"]["sha256"]} if "wheel" in origin else set()
    names = {name: ", ".join(sorted(of)) for name, of in sorted(packages.items())}
    return {"versions": names, "wheel_sha256": sorted(wheels)}


def report(folder: Path, legs: Sequence[Whole]) -> None:
    """Write expected.json, the table and the figure of complete legs."""
    tables = {name: summarize(steps, runs) for name, _, steps, runs in legs}
    document: dict[str, Any] = {"schema_version": 1}
    if all("provenance" in r for *_, runs in legs for of in runs.values() for r in of):
        document |= versions(legs)
    else:  # runs that do not say keep what was said of them
        document["versions"] = json.loads((folder / "expected.json").read_text())["versions"]
    (folder / "expected.json").write_text(json.dumps(document | tables, indent=1) + "\n")
    text = render([(env, tables[name]) for name, env, *_ in legs])
    (folder / "table.md").write_text(text)
    print(text, end="")
    draw(folder / "learning_curves.png", legs)


def render(tables: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """A line for each leg, or two where training is beside it."""
    both = any("training" in table for _, table in tables)
    head = ["env", "steps", "seeds", *(["return of"] if both else [])]
    head += ["rlox IQM [95% CI]", "SB3 IQM [95% CI]", "difference [95% CI]"]
    rows = [head]
    for env, table in tables:
        leg = [env, f"{table['total_steps']:,}", str(table["seeds"])]
        rows.append([*leg, *(["final policy"] if both else []), *cells(table)])
        if "training" in table:
            rows.append(["", "", "", f"last {LAST} training episodes", *cells(table["training"])])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def cells(table: dict[str, Any]) -> list[str]:
    """Estimates with their intervals."""
    return [
        f"{table[k]['iqm']:.1f} [{table[k]['ci95'][0]:.1f}, {table[k]['ci95'][1]:.1f}]"
        for k in (*SYSTEMS, "difference")
    ]


def draw(path: Path, legs: Sequence[Whole]) -> None:
    """Learning curves: mean over seeds with the 95% bootstrap band, one panel a leg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = (13 / 3 * len(legs), 4)
    figure, axes = plt.subplots(1, len(legs), figsize=size, layout="constrained", squeeze=False)
    rng = np.random.default_rng(0)
    for axis, (_, env, steps, found) in zip(axes[0], legs, strict=True):
        at = np.linspace(steps / GRID, steps, GRID)
        for system, color in zip(SYSTEMS, COLORS, strict=True):
            runs = np.array([r["curve"] for r in found[system]], np.float64)
            shown = ~np.isnan(runs).any(axis=0)
            draws = runs[rng.integers(0, len(runs), (2000, len(runs)))].mean(axis=1)
            low, high = np.quantile(draws[:, shown], [0.025, 0.975], axis=0)
            axis.plot(at[shown], runs.mean(axis=0)[shown], color=color, label=system, lw=2)
            axis.fill_between(at[shown], low, high, color=color, alpha=0.2, lw=0)
        axis.set_title(f"{env} ({len(found['rlox'])} seeds)", loc="left", fontweight="bold")
        axis.set_xlabel("environment steps")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("training return, last 20 episodes")
    axes[0][0].legend(frameon=False)
    figure.savefig(path, dpi=120)
