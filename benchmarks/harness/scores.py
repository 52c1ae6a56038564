"""Whether the scores that a run tells are those of the games: as ALE paid them, or played again in ALE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

NOOP, FIRE = 0, 1
OPENINGS = 32  # frames at the start of a game: up to `env.atari.noop_max`, which is 30, and FIRE


class Game(NamedTuple):
    """What was done in a game, and the sign of what it paid, by step."""

    actions: list[int]
    signs: list[float]
    whole: bool  # whether every frame of it is known but for those before the first action


@contextmanager
def paid() -> Iterator[list[float]]:
    """Scores of games that end in ale-py's environments meanwhile, in this process, beneath all wrappers."""
    from ale_py.env import AtariEnv
    from ale_py.vector_env import AtariVectorEnv

    scores: list[float] = []
    under_way: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
    sums: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # of games side by side
    step, reset, step_all = AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step

    def stepped(env: Any, action: Any) -> Any:
        result = step(env, action)
        under_way[env] = under_way.get(env, 0.0) + result[1]
        if result[2] or result[3]:
            scores.append(under_way.pop(env))
        return result

    def begun(env: Any, **options: Any) -> Any:
        under_way.pop(env, None)
        return reset(env, **options)

    def stepped_all(env: Any, actions: Any) -> Any:
        result = step_all(env, actions)
        _, rewards, terminated, truncated, infos = result
        totals = sums.setdefault(env, np.zeros(len(rewards)))
        totals += rewards
        over = (terminated & (infos["lives"] == 0)) | truncated
        scores.extend(totals[over].tolist())
        totals[over] = 0.0
        return result

    AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step = stepped, begun, stepped_all
    try:
        yield scores
    finally:
        AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step = step, reset, step_all


@contextmanager
def played() -> Iterator[list[Game]]:
    """Games of the first environment of the first engine that is stepped meanwhile, in their order."""
    from rlox.envs.base import GOES_ON
    from rlox.envs.engines.vector import VectorEngine

    games: list[Game] = []
    now, first, step_into = Game([], [], True), None, VectorEngine.step_into

    def stepped(engine: Any, actions: Any, obs: Any, rewards: Any, *ends: Any) -> Any:
        nonlocal now, first
        finals = step_into(engine, actions, obs, rewards, *ends)
        first = first or engine
        if engine is not first:
            return finals
        if finals is not None and 0 in finals.idle:
            # frames that nobody chose: before a game, or in the middle of one behind a lost life
            now = now._replace(whole=not now.actions)
            return finals
        now.actions.append(int(engine.actions.to_env(actions)[0]))
        now.signs.append(float(np.sign(rewards[0])))
        if ends[0][0] or ends[1][0]:
            info = finals.infos[finals.envs.tolist().index(0)]
            if not info.get(GOES_ON):
                games.append(now)
                now = Game([], [], True)
        return finals

    VectorEngine.step_into = stepped  # type: ignore[method-assign]
    try:
        yield games
    finally:
        VectorEngine.step_into = step_into  # type: ignore[method-assign]


def again(env_id: str, game: Game, frame_skip: int = 4) -> float | None:
    """The score of the game played again, frame by frame, in ale-py's environment without sticky actions.

    How many frames passed before the first action is tried out; `None` where no number of them makes a
    game that pays as this one did at every step and is over when it was.
    """
    from gymnasium import make

    from rlox.envs.ids import find_spec

    find_spec(env_id)
    env = make(env_id, frameskip=1, repeat_action_probability=0.0, obs_type="ram")
    inner: Any = env.unwrapped
    fire = [FIRE] if inner.get_action_meanings()[FIRE:2] == ["FIRE"] else []
    try:
        for frames in range(OPENINGS):
            env.reset(seed=0)
            owed = sum(float(env.step(action)[1]) for action in [NOOP] * frames + fire)
            if (score := _followed(env, game, owed, frame_skip)) is not None:
                return score
        return None
    finally:
        env.close()


def _followed(env: Any, game: Game, owed: float, frame_skip: int) -> float | None:
    """The score, if the game goes from here as it went."""
    score, last = owed, len(game.actions) - 1
    for step, (action, sign) in enumerate(zip(game.actions, game.signs, strict=True)):
        total, owed, over = owed, 0.0, False
        for _ in range(frame_skip):
            _, reward, terminated, truncated, _ = env.step(action)
            total, score = total + float(reward), score + float(reward)
            over = terminated or truncated
            if over:
                break
        if np.sign(total) != sign or over != (step == last):
            return None
    return score


def wrong(run: Mapping[str, Any], lowest: float, highest: float) -> list[str]:
    """What shows that a run's scores are not those of its games; nothing where all is well.

    `run["scores"]` are the told ones; `run["paid"]`, where ALE's environments were stepped in the process,
    those of ALE, and `run["again"]` pairs of what was told and of the game played again.
    """
    told: Sequence[float] = run["scores"]
    found = [
        f"a score of {score:g}, expected a whole number from {lowest:g} to {highest:g}"
        for score in dict.fromkeys(told)
        if score != round(score) or not lowest <= score <= highest
    ]
    if run.get("paid") is not None and Counter(told) != Counter(run["paid"]):
        found.append(f"told {sorted(told)}, ALE paid {sorted(run['paid'])}")
    for score, repeated in run.get("again") or ():
        if score != repeated:
            found.append(f"told {score:g}, the same actions in ALE: {repeated}")
    return found
