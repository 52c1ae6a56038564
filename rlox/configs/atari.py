"""Standard preprocessing of games in the Arcade Learning Environment."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.params import param

__all__ = ["AtariConfig", "is_ale"]

_DQN = "Mnih et al. 2015, methods and extended data table 1"


def is_ale(env_id: str) -> bool:
    """Return whether an id names a game of the Arcade Learning Environment."""
    return env_id.rpartition(":")[2].startswith("ALE/")


@dataclass(frozen=True)
class AtariConfig:
    """The preprocessing of `ALE/*` ids; each step can be changed or left out."""

    preprocess: bool = param(
        True, "false: the environment as it is registered, RGB [210, 160, 3], without the steps below"
    )
    noop_max: int = param(
        30,
        "no-op frames at the start of a game, drawn from 1 to this number, the FIRE frame included; 0: none",
        within="[0, inf)",
        source=_DQN,
    )
    frame_skip: int = param(4, "frames that each action is repeated for", within="[1, inf)", source=_DQN)
    max_pool: bool = param(True, "observe the pixel-wise maximum of the last two frames", source=_DQN)
    screen_size: int = param(
        84, "height and width of observed frames, resized by area", within="[8, 160]", source=_DQN
    )
    stack: int = param(4, "frames in an observation, newest last", within="[1, 64]", source=_DQN)
    fire_reset: bool = param(
        True,
        "press FIRE at the start and after a lost life, in games that have this action",
        source="OpenAI Baselines, FireResetEnv",
    )
    life_loss: bool = param(
        True,
        "training episodes end with a lost life; reported returns are the scores of whole games",
        source=_DQN,
    )
    clip_rewards: bool = param(
        True, "training uses the sign of rewards; env.reward_clip takes precedence", source=_DQN
    )
