"""Check a run's reported scores against ALE: against its rewards, or by replaying the games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

NOOP, FIRE = 0, 1
MAX_OPENING_FRAMES = 32  # frames before the first action: up to `env.atari.noop_max` (30), and FIRE


class Game(NamedTuple):
    """The actions of a game and the sign of the reward, by step."""

    actions: list[int]
    signs: list[float]
    is_complete: bool  # whether every frame is known, except those before the first action


@contextmanager
def record_ale_scores() -> Iterator[list[float]]:
    """Yield a list of scores of the games that end in ale-py's environments while it is open.

    It counts the rewards of this process below all wrappers.
    """
    from ale_py.env import AtariEnv
    from ale_py.vector_env import AtariVectorEnv

    scores: list[float] = []
    running_scores: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
    vector_scores: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # of the games of a vector environment
    step, reset, step_all = AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step

    def counting_step(env: Any, action: Any) -> Any:
        result = step(env, action)
        running_scores[env] = running_scores.get(env, 0.0) + result[1]
        if result[2] or result[3]:
            scores.append(running_scores.pop(env))
        return result

    def counting_reset(env: Any, **options: Any) -> Any:
        running_scores.pop(env, None)
        return reset(env, **options)

    def counting_vector_step(env: Any, actions: Any) -> Any:
        result = step_all(env, actions)
        _, rewards, terminated, truncated, infos = result
        totals = vector_scores.setdefault(env, np.zeros(len(rewards)))
        totals += rewards
        is_over = (terminated & (infos["lives"] == 0)) | truncated
        scores.extend(totals[is_over].tolist())
        totals[is_over] = 0.0
        return result

    AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step = (
        counting_step,
        counting_reset,
        counting_vector_step,
    )
    try:
        yield scores
    finally:
        AtariEnv.step, AtariEnv.reset, AtariVectorEnv.step = step, reset, step_all


@contextmanager
def record_games() -> Iterator[list[Game]]:
    """Yield a list of the games, in order, that the first environment of the first stepped engine plays."""
    from rlox.envs.base import LIFE_LOST
    from rlox.envs.engines.vector import VectorEngine

    games: list[Game] = []
    current_game, first, step_into = Game([], [], True), None, VectorEngine.step_into

    def recording_step(engine: Any, actions: Any, obs: Any, rewards: Any, *ends: Any) -> Any:
        nonlocal current_game, first
        finals = step_into(engine, actions, obs, rewards, *ends)
        first = first or engine
        if engine is not first:
            return finals
        if finals is not None and 0 in finals.autoreset_envs:
            # Frames without a chosen action: before a game, or in its middle after a lost life.
            current_game = current_game._replace(is_complete=not current_game.actions)
            return finals
        current_game.actions.append(int(engine.actions.to_env(actions)[0]))
        current_game.signs.append(float(np.sign(rewards[0])))
        if ends[0][0] or ends[1][0]:
            info = finals.infos[finals.envs.tolist().index(0)]
            if not info.get(LIFE_LOST):
                games.append(current_game)
                current_game = Game([], [], True)
        return finals

    VectorEngine.step_into = recording_step  # type: ignore[method-assign]
    try:
        yield games
    finally:
        VectorEngine.step_into = step_into  # type: ignore[method-assign]


def replay_score(env_id: str, game: Game, frame_skip: int = 4) -> float | None:
    """Replay the game frame by frame in ale-py's environment without sticky actions; return its score.

    The number of frames before the first action is found by trial. `None` if no number gives a game with the
    same reward signs at every step and the same end.
    """
    from gymnasium import make

    from rlox.envs.ids import find_spec

    find_spec(env_id)
    env = make(env_id, frameskip=1, repeat_action_probability=0.0, obs_type="ram")
    inner: Any = env.unwrapped
    fire = [FIRE] if inner.get_action_meanings()[FIRE:2] == ["FIRE"] else []
    try:
        for frames in range(MAX_OPENING_FRAMES):
            env.reset(seed=0)
            opening_reward = sum(float(env.step(action)[1]) for action in [NOOP] * frames + fire)
            if (score := _replay_actions(env, game, opening_reward, frame_skip)) is not None:
                return score
        return None
    finally:
        env.close()


def _replay_actions(env: Any, game: Game, opening_reward: float, frame_skip: int) -> float | None:
    """Return the score if the rest of the game repeats the recorded one, else None."""
    score, last = opening_reward, len(game.actions) - 1
    for step, (action, sign) in enumerate(zip(game.actions, game.signs, strict=True)):
        total, opening_reward, is_over = opening_reward, 0.0, False
        for _ in range(frame_skip):
            _, reward, terminated, truncated, _ = env.step(action)
            total, score = total + float(reward), score + float(reward)
            is_over = terminated or truncated
            if is_over:
                break
        if np.sign(total) != sign or is_over != (step == last):
            return None
    return score


def score_problems(run: Mapping[str, Any], lowest: float, highest: float) -> list[str]:
    """Return the evidence that a run's scores differ from those of its games; empty if there is none.

    `run["scores"]` has the reported scores. `run["paid"]` has the scores by ALE, if ALE's environments were
    stepped in the process. `run["again"]` has pairs of a reported score and that of the replayed game.
    """
    reported_scores: Sequence[float] = run["scores"]
    problems = [
        f"a score of {score:g}, expected a whole number from {lowest:g} to {highest:g}"
        for score in dict.fromkeys(reported_scores)
        if score != round(score) or not lowest <= score <= highest
    ]
    if run.get("paid") is not None and Counter(reported_scores) != Counter(run["paid"]):
        problems.append(f"told {sorted(reported_scores)}, ALE paid {sorted(run['paid'])}")
    for score, repeated in run.get("again") or ():
        if score != repeated:
            problems.append(f"told {score:g}, the same actions in ALE: {repeated}")
    return problems
