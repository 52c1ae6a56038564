"""Figures of several systems together: overlaid learning curves, performance profiles, speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tables import draw_band

from rlox.statistics import Profile

COLORS = {
    "rlox": "#0b559f", "SB3": "#d94801",
    "PPO": "#0b559f", "A2C": "#d94801", "DQN": "#2a8a43", "SAC": "#7a3c9e", "TD3": "#8a6d00",
}  # fmt: skip
LOG_AXIS_START = 0.01  # fraction of the longest run at which a logarithmic axis begins


class Line(NamedTuple):
    """The runs of one system and their number of steps."""

    steps: int
    runs: Sequence[dict[str, Any]]


def draw_curves(path: Path, panels: Mapping[str, Mapping[str, Line]]) -> None:
    """Draw a panel for each environment with its systems, by the logarithm of the steps."""
    figure, axes = _axes(len(panels))
    rng = np.random.default_rng(0)
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for name, (steps, runs) in lines.items():
            label = f"{name}, {steps:,} steps"
            draw_band(axis, steps, runs, rng, color=COLORS[name], label=label)
        max_steps = max(line.steps for line in lines.values())
        axis.set_xscale("log")
        axis.set_xlim(max_steps * LOG_AXIS_START, max_steps)
        # The legend is below, because the curves leave no corner free in every panel.
        legend_options = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 2}
        _finish_axis(axis, title, "environment steps", **legend_options)
    axes[0].set_ylabel("training return, last 20 episodes")
    figure.savefig(path, dpi=120)


def draw_profiles(path: Path, panels: Mapping[str, Mapping[str, Profile]]) -> None:
    """Draw a panel for each set of tasks: the fraction of the runs above each normalised score."""
    figure, axes = _axes(len(panels))
    for axis, (title, systems) in zip(axes, panels.items(), strict=True):
        for name, profile in systems.items():
            axis.plot(profile.thresholds, profile.fraction, color=COLORS[name], label=name, lw=2)
            axis.fill_between(
                profile.thresholds, profile.low, profile.high, color=COLORS[name], alpha=0.2, lw=0
            )
        _finish_axis(axis, title, "normalised score, 0 random, 1 published")
    axes[0].set_ylabel("part of runs that score more")
    figure.savefig(path, dpi=120)


def draw_speeds(path: Path, bars: Mapping[str, Mapping[str, float]]) -> None:
    """Draw the steps per second of each system, by algorithm, on a logarithmic axis."""
    figure, (axis,) = _axes(1, width_factor=2)
    systems = list(next(iter(bars.values())))
    width = 0.8 / len(systems)
    for index, system in enumerate(systems):
        bar_positions = np.arange(len(bars)) + (index - (len(systems) - 1) / 2) * width
        heights = [rates[system] for rates in bars.values()]
        bar_container = axis.bar(bar_positions, heights, width, color=COLORS[system], label=system)
        axis.bar_label(bar_container, [f"{height:,.0f}" for height in heights], padding=2)
    axis.set_xticks(np.arange(len(bars)), list(bars))
    axis.set_yscale("log")
    axis.set_ylim(top=2 * axis.get_ylim()[1])  # room for the numbers
    _finish_axis(axis, "Training with one thread, systems in turns", "")
    axis.grid(visible=False, axis="x")
    axis.set_ylabel("environment steps a second")
    figure.savefig(path, dpi=120)


def _axes(count: int, width_factor: int = 1) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = (13 / 3 * count * width_factor, 4.4)
    figure, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes[0])


def _finish_axis(axis: Any, title: str, xlabel: str, **legend: Any) -> None:
    axis.set_title(title, loc="left", fontweight="bold")
    axis.set_xlabel(xlabel)
    axis.grid(alpha=0.3)
    axis.legend(edgecolor="none", framealpha=0.8, **legend)
