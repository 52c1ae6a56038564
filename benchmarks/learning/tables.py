"""The results of a campaign's runs: interquartile means with intervals, a table, learning curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox.statistics import iqm

SYSTEMS = ("rlox", "sb3")
COLORS = ("#0b559f", "#d94801", "#2a8a43", "#7a3c9e")  # by system
MAX_PANEL_COLUMNS = 4  # panels in a row
CURVE_POINTS = 50  # points of a learning curve
LAST_EPISODES = 100  # episodes at the end of training
RESAMPLES = 10_000

Runs = dict[str, list[dict[str, Any]]]  # results by system, in order of seed


class CompleteLeg(NamedTuple):
    """A leg whose runs are complete.

    `task` names the environment; `solved` is the return that solves it, if the campaign asks for it.
    """

    name: str
    task: str
    steps: int
    runs: Runs
    solved: float | None = None


def learning_curve(episode_ends: Sequence[tuple[int, float]], steps: int) -> list[float | None]:
    """Return the mean return of the last 20 episodes at `CURVE_POINTS` equal steps.

    A point before the end of the first episode is `None`.
    """
    end_steps = np.array([s for s, _ in episode_ends])
    values = np.array([r for _, r in episode_ends])
    points: list[float | None] = []
    for step in np.linspace(steps / CURVE_POINTS, steps, CURVE_POINTS):
        returns_so_far = values[: int(np.searchsorted(end_steps, step, side="right"))]
        points.append(float(returns_so_far[-20:].mean()) if len(returns_so_far) else None)
    return points


def estimate(
    scores: dict[str, NDArray[Any]],
) -> tuple[dict[str, dict[str, Any]], dict[str, NDArray[Any]]]:
    """Return the IQM over seeds of each system with its interval, and its bootstrap estimates."""
    rng = np.random.default_rng(0)
    draws = {s: row_iqms(x[rng.integers(0, len(x), (RESAMPLES, len(x)))]) for s, x in scores.items()}
    estimates: dict[str, dict[str, Any]] = {
        s: {"iqm": iqm(x), "ci95": interval(draws[s]), "scores": [float(score) for score in x]}
        for s, x in scores.items()
    }
    return estimates, draws


def difference(
    estimates: dict[str, dict[str, Any]],
    draws: dict[str, NDArray[Any]],
    system: str,
    other_system: str,
) -> dict[str, Any]:
    """Return the difference of the first system to the other, with its interval."""
    iqm_difference = estimates[system]["iqm"] - estimates[other_system]["iqm"]
    return {"iqm": iqm_difference, "ci95": interval(draws[system] - draws[other_system])}


def compare(scores: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the estimates of both systems and of their difference."""
    estimates, draws = estimate(scores)
    return {**estimates, "difference": difference(estimates, draws, *SYSTEMS)}


def row_iqms(draws: NDArray[Any]) -> NDArray[Any]:
    """Return `iqm` of each row, in one vectorised call."""
    n_trimmed = draws.shape[1] // 4
    iqms: NDArray[Any] = np.sort(draws, axis=1)[:, n_trimmed : draws.shape[1] - n_trimmed].mean(axis=1)
    return iqms


def interval(draws: NDArray[Any]) -> list[float]:
    """Return the 95% percentile interval of bootstrap estimates."""
    return [float(q) for q in np.quantile(draws, [0.025, 0.975])]


def final_scores(runs: Runs) -> dict[str, NDArray[Any]]:
    """Return the scores of the final policies, by system `[seeds]`."""
    return {s: np.array([np.mean(r["returns"]) for r in system_runs]) for s, system_runs in runs.items()}


def training_returns(runs: Runs) -> dict[str, NDArray[Any]]:
    """Return the returns of the last training episodes, by system `[seeds]`."""
    return {s: np.array([r["training"] for r in system_runs]) for s, system_runs in runs.items()}


def summarize(leg: CompleteLeg) -> dict[str, Any]:
    """Return the final policies' scores, and the last episodes of training if all runs have them."""
    runs = leg.runs
    summary = {"total_steps": leg.steps, "seeds": len(runs["rlox"]), **compare(final_scores(runs))}
    if all("training" in r for system_runs in runs.values() for r in system_runs):
        summary["training"] = compare(training_returns(runs))
    return summary


def versions(legs: Sequence[CompleteLeg]) -> dict[str, Any]:
    """Return the versions that made the runs; all of them if there are several."""
    wheels: set[str] = set()
    commits: set[str] = set()
    packages: dict[str, set[str]] = {}
    for origin in (r["provenance"] for leg in legs for system_runs in leg.runs.values() for r in system_runs):
        for name, number in origin["packages"].items():
            packages.setdefault(name, set()).add(number)
        wheels |= {origin["wheel"]["sha256"]} if "wheel" in origin else set()
        commits |= {origin["commit"]} if "commit" in origin else set()
    names = {name: ", ".join(sorted(system_runs)) for name, system_runs in sorted(packages.items())}
    document = {"versions": names, "wheel_sha256": sorted(wheels)}
    return document | ({"commits": sorted(commits)} if commits else {})


def report(
    folder: Path,
    legs: Sequence[CompleteLeg],
    summarize: Callable[[CompleteLeg], dict[str, Any]],
    render: Callable[[Sequence[tuple[str, dict[str, Any]]]], str],
) -> None:
    """Write expected.json, the table and the figure of complete legs."""
    tables = {leg.name: summarize(leg) for leg in legs}
    document: dict[str, Any] = {"schema_version": 1}
    if all("provenance" in r for leg in legs for system_runs in leg.runs.values() for r in system_runs):
        document |= versions(legs)
    else:  # runs without provenance keep the recorded versions
        document["versions"] = json.loads((folder / "expected.json").read_text())["versions"]
    (folder / "expected.json").write_text(json.dumps(document | tables, indent=1) + "\n")
    text = render([(leg.task, tables[leg.name]) for leg in legs])
    publish(folder, text)
    draw(folder / "learning_curves.png", legs)


def publish(folder: Path, text: str) -> None:
    """Write and print the table; in the README it replaces the earlier one."""
    table, readme = folder / "table.md", folder / "README.md"
    if table.exists() and readme.exists():
        readme.write_text(readme.read_text().replace(table.read_text(), text))
    table.write_text(text)
    print(text, end="")


def render(tables: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return a row for each leg, or two if the leg also has training returns."""
    has_training = any("training" in table for _, table in tables)
    head = ["env", "steps", "seeds", *(["return of"] if has_training else [])]
    head += ["rlox IQM [95% CI]", "SB3 IQM [95% CI]", "difference [95% CI]"]
    rows = [head]
    for env, table in tables:
        leg_cells = [env, f"{table['total_steps']:,}", str(table["seeds"])]
        rows.append([*leg_cells, *(["final policy"] if has_training else []), *cells(table)])
        if "training" in table:
            rows.append(["", "", "", f"last {LAST_EPISODES} training episodes", *cells(table["training"])])
    return markdown(rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def cells(table: dict[str, Any]) -> list[str]:
    """Return estimates with their intervals; small scores get more digits."""
    largest = max(abs(score) for system in SYSTEMS for score in table[system]["scores"])
    return [cell(table[k], 1 if largest >= 10 else 3) for k in (*SYSTEMS, "difference")]


def cell(estimate_entry: dict[str, Any], digits: int = 1) -> str:
    """Return an estimate with its interval."""
    low, high = (f"{end:.{digits}f}" for end in estimate_entry["ci95"])
    return f"{estimate_entry['iqm']:.{digits}f} [{low}, {high}]"


def draw(path: Path, legs: Sequence[CompleteLeg], columns: int = MAX_PANEL_COLUMNS) -> None:
    """Draw learning curves: the mean over seeds with the 95% bootstrap band, one panel for each leg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(len(legs), columns)
    rows = -(-len(legs) // columns)
    size = (13 / 3 * columns, 4 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    rng = np.random.default_rng(0)
    legend_systems: list[str] = []  # in the last legend
    for axis, leg in zip(axes.flat, legs, strict=False):
        draw_panel(axis, leg, rng)
        if legend_systems != list(leg.runs):
            axis.legend(frameon=False)
            legend_systems = list(leg.runs)
    for axis in axes.flat[len(legs) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel("training return, last 20 episodes")
    figure.savefig(path, dpi=120)


def draw_panel(axis: Any, leg: CompleteLeg, rng: np.random.Generator) -> None:
    """Draw the curves of one leg, and the return that solves it."""
    for (system, system_runs), color in zip(leg.runs.items(), COLORS, strict=False):
        draw_band(axis, leg.steps, system_runs, rng, color=color, label=system)
    if leg.solved is not None:
        axis.axhline(leg.solved, color="0.4", lw=1, ls="--")
    seeds = len(next(iter(leg.runs.values())))
    axis.set_title(f"{leg.task} ({seeds} seeds)", loc="left", fontweight="bold")
    axis.set_xlabel("environment steps")
    axis.grid(alpha=0.3)


def draw_band(
    axis: Any,
    steps: int,
    system_runs: Sequence[dict[str, Any]],
    rng: np.random.Generator,
    **style: Any,
) -> None:
    """Draw the mean curve of runs of `steps` steps, with its interval."""
    steps_grid = np.linspace(steps / CURVE_POINTS, steps, CURVE_POINTS)
    runs = np.array([r["curve"] for r in system_runs], np.float64)
    has_value = ~np.isnan(runs).any(axis=0)
    draws = runs[rng.integers(0, len(runs), (2000, len(runs)))].mean(axis=1)
    low, high = np.quantile(draws[:, has_value], [0.025, 0.975], axis=0)
    axis.plot(steps_grid[has_value], runs.mean(axis=0)[has_value], lw=2, **style)
    axis.fill_between(steps_grid[has_value], low, high, color=style["color"], alpha=0.2, lw=0)
