"""`plots/learning_curve.png`: raw episode returns light, their moving mean strong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.loggers import read_rows

RAW, MEAN, FINAL = "#6baed6", "#08519c", "#d94801"
MAX_POINTS = 20_000


def learning_curve(run: Path) -> Path | None:
    """Draw the learning curve of a run folder; `None` when no episode has ended."""
    episodes = read_rows(run / "episodes.jsonl")
    if not episodes:
        return None
    steps = np.array([row["env_steps"] for row in episodes], float)
    returns = np.array([row["return"] for row in episodes], float)
    return _draw(run, steps, returns)


def moving_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Mean of the last `window` values at each place, of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - window)
    mean: NDArray[np.float64] = (sums[end] - sums[start]) / (end - start)
    return mean


def _draw(run: Path, steps: NDArray[np.float64], returns: NDArray[np.float64]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    result = _result(run)
    window = min(100, max(1, len(returns) // 10))
    shown = np.unique(np.linspace(0, len(returns) - 1, MAX_POINTS).astype(int))
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(
        steps[shown],
        returns[shown],
        ".",
        color=RAW,
        ms=5,
        mew=0,
        alpha=0.45,
        label="episode",
        zorder=1,
    )
    axes.plot(
        steps, moving_mean(returns, window), color=MEAN, lw=2, label=f"mean of {window}", zorder=3
    )
    _evaluations(axes, run, result)
    title = f"{result['algo']} on {result['env']}, seed {result['seed']}" if result else run.name
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("episode return")
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.grid(True, color="#e5e5e5", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize=9)
    target = run / "plots" / "learning_curve.png"
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target)
    return target


def _evaluations(axes: Any, run: Path, result: dict[str, Any] | None) -> None:
    rows = [r for r in read_rows(run / "metrics.jsonl") if r.get("eval/return_mean") is not None]
    during = [r for r in rows if result is None or r["env_steps"] < result["env_steps"]]
    if during:
        axes.plot(
            [r["env_steps"] for r in during],
            [r["eval/return_mean"] for r in during],
            "o-",
            color=FINAL,
            ms=4,
            lw=1,
            alpha=0.7,
            label="evaluation",
            zorder=4,
        )
    if result is not None and result["score"] is not None:
        low, high = result["score_ci95"]
        axes.errorbar(
            [result["env_steps"]],
            [result["score"]],
            yerr=[[result["score"] - low], [high - result["score"]]],
            fmt="D",
            color=FINAL,
            ms=7,
            capsize=4,
            label=f"final evaluation: {result['score']:.1f}",
            zorder=5,
            clip_on=False,
        )


def _result(run: Path) -> dict[str, Any] | None:
    path = run / "result.json"
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
