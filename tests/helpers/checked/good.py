"""Sound environments of many kinds, of which a check has nothing to say."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .actions import Walled
from .episodes import CutsItself, Endless, registered
from .kinds import Line, VectorLine
from .observations import Cell, Cells, Parts

GOOD: dict[str, Callable[..., Any]] = {}


def good(make: Any) -> Any:
    """Lists what makes a sound environment."""
    GOOD[make.__name__] = make
    return make


for sound in (Line, VectorLine, Parts, Cell, Cells, Walled):
    good(sound)


@good
class MaskByMethod(Walled):
    """Tells what is allowed when it is asked, and refuses the rest."""

    def told(self) -> Any:
        return {}

    def action_masks(self) -> Any:
        return self.mask().astype(bool)


@good
class FarAndSettled(Line):
    """Large numbers that float32 has, constants but for rounding, and differences that nobody needs."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)

    def seen(self) -> Any:
        odd = self.t % 2
        return np.array([self.x, 3e7 + 4 * self.t, 0.5 + 1e-16 * odd, self.t + 1e-9 * odd])


@good
class WalledWithSpeed(Walled):
    """Two choices, of which the first may not go on where it stands at the side; told of both."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 2])

    def told(self) -> Any:
        return {"action_mask": np.append(self.mask(), [1, 1])}

    def push(self, action: Any) -> float:
        return super().push(int(action[0])) * (1 + int(action[1])) / 2


@good
class WalledByParts(Walled):
    """Tells what is allowed of the only part that is a choice."""

    def __init__(self) -> None:
        super().__init__()
        force = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Dict({"way": spaces.Discrete(3), "force": force})

    def told(self) -> Any:
        return {"action_mask": {"way": self.mask()}}

    def push(self, action: Any) -> float:
        return super().push(int(action["way"])) * abs(float(action["force"][0]))


@good
class SeedsOf32Bits(Line):
    """As environments do that draw from NumPy's RandomState."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.RandomState(seed)
        return super().reset(seed=seed)


@good
class Bits(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(8)
        self.action_space = spaces.MultiBinary(4)

    def push(self, action: Any) -> float:
        return float(np.mean(action)) * 2 - 1

    def seen(self) -> Any:
        return np.array([self.x > limit for limit in np.linspace(-2, 2, 8)], np.int8)


@good
class Picture(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)

    def seen(self) -> Any:
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[:, int(np.clip(8 + 3 * self.x, 0, 15))] = 255
        return picture


@good
class UnitPicture(Picture):
    """Floats, scaled as floats are."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (16, 16, 3), np.float32)

    def seen(self) -> Any:
        return (super().seen() / 255).astype(np.float32)


@good
class Mission(Line):
    """A small picture of codes, a direction and a sentence, as MiniGrid has them."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (5, 5, 3), np.uint8),
                "direction": spaces.Discrete(4),
                "mission": spaces.Text(40, charset=string.ascii_lowercase + " "),
            }
        )

    def seen(self) -> Any:
        image = np.full((5, 5, 3), min(self.t, 10), np.uint8)
        return {"image": image, "direction": self.t % 4, "mission": "get to the green goal"}


@good
class Nested(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"inner": self.observation_space, "pair": spaces.Tuple([spaces.Discrete(21)] * 2)}
        )

    def seen(self) -> Any:
        return {"inner": super().seen(), "pair": (self.t, 20 - self.t)}


@good
class TwoChoices(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 4])

    def push(self, action: Any) -> float:
        first, second = action
        return (float(first) - 1 + (float(second) - 1.5) / 1.5) / 2


@good
class ActionOfParts(Line):
    """Actions with names, as few algorithms take them."""

    def __init__(self) -> None:
        super().__init__()
        force = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Dict({"gear": spaces.Discrete(2), "force": force})

    def push(self, action: Any) -> float:
        return float(action["force"][0]) * (1 + int(action["gear"])) / 2


@good
class ChoicesFromFive(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3, start=5)

    def push(self, action: Any) -> float:
        assert 5 <= action < 8
        return super().push(action - 5)


@good
class DoubleLine(VectorLine):
    """All numbers in float64, flags of NumPy, a reward of NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-10, 10, (2,), np.float64)
        self.action_space = spaces.Box(-100, 100, (2,), np.float64)

    def push(self, action: Any) -> float:
        return super().push(action) / 100

    def seen(self) -> Any:
        return np.array([self.x, self.t / 20])

    def paid(self) -> Any:
        return np.float32(super().paid())

    def over(self) -> Any:
        return np.bool_(super().over())


@good
class AllTheSame(Line):
    """Shows nothing, pays the same, and begins as it ends."""

    def seen(self) -> Any:
        return np.zeros(2, np.float32)

    def paid(self) -> Any:
        return 1


@good
class OneStep(Line):
    """A bandit: each episode is one choice."""

    def over(self) -> Any:
        return True


@good
def one_step_with_a_limit_of_one() -> Any:
    """Whose time limit says nothing new."""
    return registered(OneStep, 1)


@good
class HomeAgain(Line):
    """Over where it began: at 0, after a way out of one or two steps and back."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = 0.0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.x += 2 * action - 1
        self.t += 1
        home = self.x == 0 or abs(self.x) > 5
        return self.seen(), -1.0, home, self.t >= 200, {}

    def seen(self) -> Any:
        return np.array([self.x, 0], np.float32)


@good
def limited_from_outside() -> Any:
    return registered(Endless, 12)


@good
def limited_twice_alike() -> Any:
    return registered(CutsItself, CutsItself.limit)


@good
def ends_by_itself_within_its_limit() -> Any:
    return registered(Line, 20)


@good
class GeneratorOfItsOwn(Line):
    """Two generators besides Gymnasium's, one of the old kind, seeded only when there is a seed."""

    def __init__(self) -> None:
        super().__init__()
        self.wind, self.old = np.random.default_rng(), np.random.RandomState()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.wind = np.random.default_rng(seed)
            self.old = np.random.RandomState(seed % 2**32)
        return super().reset(seed=seed)

    def push(self, action: Any) -> float:
        return super().push(action) + 0.1 * float(self.wind.normal() + self.old.normal())


@good
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


@good
class Remembers(VectorLine):
    """Pays for smooth actions, and keeps a copy of the last."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = np.zeros(2, np.float32)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        seen, _, *rest = super().step(action)
        cost, self.last = float(np.abs(action - self.last).sum()), np.array(action)
        return seen, -cost, *rest


@good
class StartsByOptions(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seen, told = super().reset(seed=seed)
        if options and "x" in options:
            self.x = float(options["x"])
            seen = self.seen()
        return seen, told


@good
class ShownToPeople(Line):
    metadata = {"render_modes": ["human"], "render_fps": 4}  # noqa: RUF012

    def render(self) -> Any:
        return None


@good
def in_five_wrappers() -> Any:
    env: Any = gym.wrappers.TransformReward(VectorLine(), lambda reward: 0.1 * reward)
    env = gym.wrappers.RescaleAction(env, np.float32(-2), np.float32(2))
    env = gym.wrappers.TimeAwareObservation(gym.wrappers.TimeLimit(env, 15))
    return gym.wrappers.RecordEpisodeStatistics(gym.wrappers.FrameStackObservation(env, 3))
