"""Sound environments of many kinds, for which the check reports nothing."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .actions import Walled
from .base import Line, VectorLine
from .episodes import Endless, TruncatesItself, registered
from .observations import Cell, Cells, Parts

SOUND_ENVS: dict[str, Callable[..., Any]] = {}


def register_sound(make: Any) -> Any:
    """List a function or class that makes a sound environment."""
    SOUND_ENVS[make.__name__] = make
    return make


for sound in (Line, VectorLine, Parts, Cell, Cells, Walled):
    register_sound(sound)


@register_sound
class MaskByMethod(Walled):
    """Has its mask as a method, and refuses forbidden actions."""

    def make_info(self) -> Any:
        return {}

    def action_masks(self) -> Any:
        return self.mask().astype(bool)


@register_sound
class LargeConstantObs(Line):
    """Has large numbers that fit float32, constants with rounding errors, and negligible differences."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)

    def observe(self) -> Any:
        is_odd = self.t % 2
        return np.array([self.x, 3e7 + 4 * self.t, 0.5 + 1e-16 * is_odd, self.t + 1e-9 * is_odd])


@register_sound
class WalledTwoChoices(Walled):
    """Has two choices with masks; at a wall the first one may not go further out."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 2])

    def make_info(self) -> Any:
        return {"action_mask": np.append(self.mask(), [1, 1])}

    def action_force(self, action: Any) -> float:
        return super().action_force(int(action[0])) * (1 + int(action[1])) / 2


@register_sound
class WalledByParts(Walled):
    """Has a mask of its only part that is a choice."""

    def __init__(self) -> None:
        super().__init__()
        force = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Dict({"way": spaces.Discrete(3), "force": force})

    def make_info(self) -> Any:
        return {"action_mask": {"way": self.mask()}}

    def action_force(self, action: Any) -> float:
        return super().action_force(int(action["way"])) * abs(float(action["force"][0]))


@register_sound
class SeedsOf32Bits(Line):
    """Accepts 32-bit seeds only, as environments with NumPy's RandomState do."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.RandomState(seed)
        return super().reset(seed=seed)


@register_sound
class Bits(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(8)
        self.action_space = spaces.MultiBinary(4)

    def action_force(self, action: Any) -> float:
        return float(np.mean(action)) * 2 - 1

    def observe(self) -> Any:
        return np.array([self.x > limit for limit in np.linspace(-2, 2, 8)], np.int8)


@register_sound
class Picture(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)

    def observe(self) -> Any:
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[:, int(np.clip(8 + 3 * self.x, 0, 15))] = 255
        return picture


@register_sound
class UnitPicture(Picture):
    """Float pixels from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (16, 16, 3), np.float32)

    def observe(self) -> Any:
        return (super().observe() / 255).astype(np.float32)


@register_sound
class Mission(Line):
    """A small image of codes, a direction and a sentence, as in MiniGrid."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (5, 5, 3), np.uint8),
                "direction": spaces.Discrete(4),
                "mission": spaces.Text(40, charset=string.ascii_lowercase + " "),
            }
        )

    def observe(self) -> Any:
        image = np.full((5, 5, 3), min(self.t, 10), np.uint8)
        return {"image": image, "direction": self.t % 4, "mission": "get to the green goal"}


@register_sound
class Nested(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"inner": self.observation_space, "pair": spaces.Tuple([spaces.Discrete(21)] * 2)}
        )

    def observe(self) -> Any:
        return {"inner": super().observe(), "pair": (self.t, 20 - self.t)}


@register_sound
class TwoChoices(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 4])

    def action_force(self, action: Any) -> float:
        first, second = action
        return (float(first) - 1 + (float(second) - 1.5) / 1.5) / 2


@register_sound
class ActionOfParts(Line):
    """Actions with names, which few algorithms accept."""

    def __init__(self) -> None:
        super().__init__()
        force = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Dict({"gear": spaces.Discrete(2), "force": force})

    def action_force(self, action: Any) -> float:
        return float(action["force"][0]) * (1 + int(action["gear"])) / 2


@register_sound
class ChoicesFromFive(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3, start=5)

    def action_force(self, action: Any) -> float:
        assert 5 <= action < 8
        return super().action_force(action - 5)


@register_sound
class DoubleLine(VectorLine):
    """Float64 observations and actions, with NumPy flags and a NumPy reward."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-10, 10, (2,), np.float64)
        self.action_space = spaces.Box(-100, 100, (2,), np.float64)

    def action_force(self, action: Any) -> float:
        return super().action_force(action) / 100

    def observe(self) -> Any:
        return np.array([self.x, self.t / 20])

    def compute_reward(self) -> Any:
        return np.float32(super().compute_reward())

    def is_terminated(self) -> Any:
        return np.bool_(super().is_terminated())


@register_sound
class ConstantEnv(Line):
    """Has constant observations and rewards: the first and last observations are equal."""

    def observe(self) -> Any:
        return np.zeros(2, np.float32)

    def compute_reward(self) -> Any:
        return 1


@register_sound
class OneStep(Line):
    """A bandit: each episode has one choice."""

    def is_terminated(self) -> Any:
        return True


@register_sound
def one_step_with_a_limit_of_one() -> Any:
    """Return an environment whose time limit adds nothing."""
    return registered(OneStep, 1)


@register_sound
class EndsAtStart(Line):
    """Ends where it began: at 0, after one or two steps out and back."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = 0.0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.x += 2 * action - 1
        self.t += 1
        home = self.x == 0 or abs(self.x) > 5
        return self.observe(), -1.0, home, self.t >= 200, {}

    def observe(self) -> Any:
        return np.array([self.x, 0], np.float32)


@register_sound
def limited_from_outside() -> Any:
    return registered(Endless, 12)


@register_sound
def limited_twice_alike() -> Any:
    return registered(TruncatesItself, TruncatesItself.limit)


@register_sound
def ends_by_itself_within_its_limit() -> Any:
    return registered(Line, 20)


@register_sound
class GeneratorOfItsOwn(Line):
    """Has two more generators, one of the old kind, which it seeds only if a seed is given."""

    def __init__(self) -> None:
        super().__init__()
        self.wind, self.old = np.random.default_rng(), np.random.RandomState()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.wind = np.random.default_rng(seed)
            self.old = np.random.RandomState(seed % 2**32)
        return super().reset(seed=seed)

    def action_force(self, action: Any) -> float:
        return super().action_force(action) + 0.1 * float(self.wind.normal() + self.old.normal())


@register_sound
class ThreadOfItsOwn(Line):
    """Has a thread while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.end.wait, args=(60,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.end.set()
        self.thread.join()


@register_sound
class SmoothActionReward(VectorLine):
    """Rewards smooth actions, and keeps a copy of the last one."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = np.zeros(2, np.float32)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        cost, self.last = float(np.abs(action - self.last).sum()), np.array(action)
        return obs, -cost, *rest


@register_sound
class StartsByOptions(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed)
        if options and "x" in options:
            self.x = float(options["x"])
            obs = self.observe()
        return obs, info


@register_sound
class HumanRenderMode(Line):
    metadata = {"render_modes": ["human"], "render_fps": 4}  # noqa: RUF012

    def render(self) -> Any:
        return None


@register_sound
def wrapped_five_times() -> Any:
    env: Any = gym.wrappers.TransformReward(VectorLine(), lambda reward: 0.1 * reward)
    env = gym.wrappers.RescaleAction(env, np.float32(-2), np.float32(2))
    env = gym.wrappers.TimeAwareObservation(gym.wrappers.TimeLimit(env, 15))
    return gym.wrappers.RecordEpisodeStatistics(gym.wrappers.FrameStackObservation(env, 3))
