"""`plots/learning_curve.png`: episode returns and their moving mean; losses if no episodes are played."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs import make_run
from rlox.configs.env import is_text
from rlox.errors import ConfigError
from rlox.loggers import read_rows
from rlox_cli.runs.run_folder import read_config, read_result
from rlox_cli.runs.summary import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPISODE_COLOR, MEAN_COLOR, EVALUATION_COLOR = "#6baed6", "#08519c", "#d94801"
MAX_POINTS = 20_000
LOSS_PREFIX = "loss/"  # the prefix of loss names
AXIS_LABELS = {"env_steps": "environment steps", "updates": "updates", "samples": "samples"}


def learning_curve(run: Path) -> Path | None:
    """Draw the learning curve of a run folder and return its path; `None` if there is nothing to draw."""
    figure = curve_figure(run)
    if figure is None:
        return None
    target = run / "plots" / "learning_curve.png"
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target)
    return target


def curve_figure(run: Path) -> Figure | None:
    """Return a figure of the learning curve over the run's unit; `None` if there is nothing to draw.

    If no episodes were played for training, as with datasets, the losses are drawn below the returns.
    """
    result, unit, env = read_result(run), *_unit_and_env(run)
    rows, episodes = read_rows(run / "metrics.jsonl"), read_rows(run / "episodes.jsonl")
    evaluations = [row for row in rows if row.get("eval/return_mean") is not None]
    has_score = result is not None and result["score"] is not None
    has_returns = bool(episodes or evaluations or has_score)
    losses = {} if episodes else _losses(rows, unit)
    if not (has_returns or losses):
        return None
    # if the home folder is read-only, matplotlib logs where its cache is; a user need not know
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    n_panels = has_returns + bool(losses)
    figure = Figure(figsize=(8, 1.5 + 3 * n_panels), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(n_panels, sharex=True, squeeze=False)[:, 0]
    if has_returns:
        axes = all_axes[0]
        if episodes:
            _draw_episodes(axes, _episode_steps(episodes, rows, unit), [row["return"] for row in episodes])
        _draw_evaluations(axes, evaluations, result, unit)
        axes.set_ylabel("reward of a completion" if is_text(env) else "episode return")
    if losses:
        for name, points in losses.items():
            all_axes[-1].plot(*zip(*points, strict=True), lw=1.5, label=name.removeprefix(LOSS_PREFIX))
        all_axes[-1].set_ylabel("loss")
    title = f"{result['algo']} on {result['env']}, seed {result['seed']}" if result else run.name
    all_axes[0].set_title(title, loc="left", fontsize=12, fontweight="bold")
    all_axes[-1].set_xlabel(AXIS_LABELS[unit])
    for axes in all_axes:
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
        axes.grid(True, color="#e5e5e5", lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="best", fontsize=9)
    return figure


def _losses(rows: list[dict[str, Any]], unit: str) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each loss that was logged twice or more."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(LOSS_PREFIX))
    points = {name: [(row[unit], row[name]) for row in rows if row.get(name) is not None] for name in names}
    return {name: curve for name, curve in points.items() if len(curve) > 1}


def moving_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the mean of the last `window` values at each position, of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - window)
    mean: NDArray[np.float64] = (sums[end] - sums[start]) / (end - start)
    return mean


def _unit_and_env(run: Path) -> tuple[str, str]:
    """Return the run's unit and environment, from its result, else from its configuration.

    Results of early versions name no unit: these runs counted environment steps.
    """
    result = read_result(run)
    if result is not None:
        return str(result.get("unit", "env_steps")), str(result["env"])
    try:
        config = make_run(read_config(run))
    except (ConfigError, OSError):
        return "env_steps", ""
    return config.algo.unit, config.env.id


def _episode_steps(
    episodes: list[dict[str, Any]], rows: list[dict[str, Any]], unit: str
) -> NDArray[np.float64]:
    """Return where episodes ended, in `unit`; `rows` relate the unit to environment steps."""
    known_unit = "samples" if unit == "samples" else "env_steps"
    steps = np.array([row[known_unit] for row in episodes], float)
    if unit == known_unit:
        return steps
    points = [(0, 0), *((row["env_steps"], row[unit]) for row in rows)]
    steps_in_unit: NDArray[np.float64] = np.interp(steps, *np.array(points, float).T)
    return steps_in_unit


def _draw_episodes(axes: Axes, steps: NDArray[np.float64], episode_returns: list[float]) -> None:
    returns = np.array(episode_returns, float)
    window = min(100, max(1, len(returns) // 10))
    indices = np.unique(np.linspace(0, len(returns) - 1, MAX_POINTS).astype(int))
    style: dict[str, Any] = {"color": EPISODE_COLOR, "ms": 5, "mew": 0, "alpha": 0.45, "zorder": 1}
    axes.plot(steps[indices], returns[indices], ".", label="episode", **style)
    if window > 1:
        mean = moving_mean(returns, window)
        axes.plot(steps, mean, color=MEAN_COLOR, lw=2, label=f"mean of {window} episodes", zorder=3)


def _draw_evaluations(
    axes: Axes, rows: list[dict[str, Any]], result: dict[str, Any] | None, unit: str
) -> None:
    earlier_rows = [row for row in rows if result is None or row[unit] < result[unit]]
    if earlier_rows:
        style: dict[str, Any] = {"color": EVALUATION_COLOR, "ms": 4, "lw": 1, "alpha": 0.7, "zorder": 4}
        values = [row["eval/return_mean"] for row in earlier_rows]
        axes.plot([row[unit] for row in earlier_rows], values, "o-", label="evaluation", **style)
    if result is not None and result["score"] is not None:
        low, high = result["score_ci95"] or (result["score"], result["score"])
        axes.errorbar(
            [result[unit]],
            [result["score"]],
            yerr=[[result["score"] - low], [high - result["score"]]],
            fmt="D",
            color=EVALUATION_COLOR,
            ms=7,
            capsize=4,
            label=f"final evaluation: {format_number(result['score'])}",
            zorder=5,
            clip_on=False,
        )


def short_number(value: float) -> str:
    """Return a number of steps in few characters."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
