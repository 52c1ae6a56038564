"""Checks of an environment's declarations before any step: its spaces, its `reset` signature, its copies."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox.envs.action_parts import leaf_spaces
from rlox.envs.check.findings import Report
from rlox.envs.check.subject import Subject, close_quietly
from rlox.envs.check.values import short_repr
from rlox.envs.frame_stacks import stacked_frames
from rlox.envs.identity import list_unwrapped

__all__ = ["check_declarations"]

CHANNELS = (1, 3, 4)
ACTIONS_LABEL = "its actions"


def check_declarations(subject: Subject) -> None:
    """Check the spaces and arguments of one environment, and compare it with another copy."""
    env = subject.make()
    if not isinstance(env, gym.Env):
        subject.report.stop(
            "no-environment",
            f"its factory returned a {type(env).__name__}, expected a gymnasium.Env; derive its class from "
            "gymnasium.Env",
        )
    for name in ("observation_space", "action_space"):
        _require_space(subject.report, env, name)
    subject.observation_space = copy.deepcopy(env.observation_space)
    subject.action_space = copy.deepcopy(env.action_space)
    subject.n_frames = stacked_frames(env)
    _check_algorithms(subject)
    _check_reset_signature(subject.report, env)
    _check_actions(subject.report, env.action_space)
    _check_observations(subject, env.observation_space)
    _compare_copies(subject, env)
    if env is not subject.instance:
        close_quietly(env)


def _require_space(report: Report, env: Any, name: str) -> None:
    space, code = None, name.replace("_", "-")
    with suppress(AttributeError):
        space = getattr(env, name)
    if space is None:
        report.stop(f"no-{code}", f"it has no {name}, expected a space of gymnasium.spaces; set self.{name}")
    if not isinstance(space, spaces.Space):
        report.stop(
            f"{code}-kind",
            f"its {name} is {short_repr(space)} ({type(space).__name__}), expected a space of "
            "gymnasium.spaces; use Discrete(n) for choices, Box(low, high, shape, dtype) for numbers",
        )


def _check_reset_signature(report: Report, env: Any) -> None:
    """Check that the environment's own reset accepts the arguments that wrappers pass."""
    parameters: Any = {}
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(env.unwrapped.reset).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    if "seed" not in parameters:
        report.stop(
            "seed-refused",
            f"its reset takes ({', '.join(parameters)}), expected reset(self, *, seed=None, options=None) as "
            "Gymnasium has it (Gym had seed() instead); pass the seed to super().reset(seed=seed)",
        )
    if "options" not in parameters:
        report.stop(
            "options-refused",
            f"its reset takes ({', '.join(parameters)}) and no options, which gymnasium.make's wrappers "
            "always pass, expected reset(self, *, seed=None, options=None); add options=None",
        )


def _check_actions(report: Report, space: Any) -> None:
    """Report action Boxes, also in Dicts and Tuples, in which policies learn badly or not at all."""
    for part, box in leaf_spaces(space):
        if isinstance(box, spaces.Box) and box.dtype.kind in "fiu":
            _check_box(report, box, f"{ACTIONS_LABEL} {part}".strip())


def _check_box(report: Report, box: spaces.Box, label: str) -> None:
    low, high = box.low, box.high
    with np.errstate(over="ignore"):
        is_bounded = bool(np.isfinite(high - low).all()) if box.dtype.kind == "f" else True
    if box.dtype.kind != "f":
        report.warning(
            "actions-whole",
            f"{label} are a Box of {box.dtype}, expected float32: policies of a Box give real numbers, "
            "which are rounded to integers; use MultiDiscrete, or Discrete",
        )
    elif not is_bounded:
        report.warning(
            "actions-unbounded",
            f"{label} {short_repr(box)} have infinite bounds or an infinite width, expected finite ones: "
            "algorithms that squash actions (SAC, TD3) need them; set the bounds and scale within the "
            "environment",
        )
    elif (low == high).any():
        report.warning(
            "actions-constant",
            f"number {int(np.flatnonzero(low == high)[0])} of {label} can only be "
            f"{low[low == high][0]}, expected a range; leave it out of the action_space",
        )
    elif (low != -high).any():
        at = int(np.flatnonzero(low != -high)[0])
        is_whole = label == ACTIONS_LABEL  # rescale_action cannot scale only a part
        remedy = "set env.wrappers=[rescale_action], or scale it" if is_whole else "scale it"
        report.warning(
            "actions-uneven",
            f"number {at} of {label} goes from {low.flat[at]} to {high.flat[at]}, expected a range "
            "around 0, where Gaussian policies begin; "
            f"{remedy} within the environment",
        )


def _check_algorithms(subject: Subject) -> None:
    """Check that at least one algorithm accepts the spaces, with the wrappers of the run."""
    reasons = subject.algorithm_obstacles("it")
    if subject.is_run_config and all(reasons.values()):
        reasons_text = "; ".join(dict.fromkeys(reasons.values()))
        subject.report.error("no-algorithm", f"no algorithm takes it: {reasons_text}")


def _check_observations(subject: Subject, space: Any) -> None:
    """Report float images, and sizes at which memory runs out."""
    size = 0
    for box in _boxes(space):
        size += int(np.prod(box.shape)) * box.dtype.itemsize
        is_image = len(box.shape) == 3 and (box.shape[0] in CHANNELS or box.shape[-1] in CHANNELS)
        if is_image and box.dtype.kind == "f" and box.high.max() == 255:
            subject.report.warning(
                "image-float",
                f"its images {box.shape} are {box.dtype} from {box.low.min():g} to 255, expected uint8, "
                "which takes a quarter of the memory and is recognised as an image; return "
                ".astype(np.uint8), or scale them to [0, 1]",
            )
    if size >= subject.limits.large_observation:
        subject.is_shortened = True
        subject.report.warning(
            "observation-large",
            f"an observation takes {size / 2**20:.1f} MiB, expected less than "
            f"{subject.limits.large_observation / 2**20:g}: a replay buffer for 100,000 takes "
            f"{size * 100_000 / 2**30:,.0f} GiB; make it smaller, or uint8",
        )


def _boxes(space: Any) -> Iterator[spaces.Box]:
    if isinstance(space, spaces.Box):
        yield space
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in inner:
            yield from _boxes(part)


def _compare_copies(subject: Subject, env: gym.Env[Any, Any]) -> None:
    if subject.is_uncopyable:
        return
    other = subject.make()
    if list_unwrapped(other)[0] is list_unwrapped(env)[0]:
        subject.report.stop(
            "copies-same",
            f"its factory returned the same {type(list_unwrapped(env)[0]).__name__} twice, expected another "
            "object each time: n_envs of them run side by side, and evaluations beside training; make a new "
            "one in each call: lambda: MyEnv()",
        )
    for name in ("observation_space", "action_space"):
        first, second = getattr(subject, name), getattr(other, name)
        if first != second:
            subject.report.error(
                "spaces-differ",
                f"two copies differ in their {name}, {short_repr(first)} and {short_repr(second)}, expected "
                "the same: a run trains on all copies together; let an argument decide it, not chance or a "
                "counter",
            )
    close_quietly(other)
