"""Environments: id, number of copies, backend, wrappers, normalisation, and the preprocessing of games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlox.configs.params import Code, code, param
from rlox.errors import ConfigError

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


WRAPPER_NAMES = (
    "flatten_observation",
    "hide_velocities",
    "minigrid_flat",
    "minigrid_image",
    "rescale_action",
    "time_aware_observation",
)

TEXT = "text"  # the id that stands for text, alone or before a task: text/copy
INFO_PREFIX = "info."  # of parts of observations that come from the info
KEYED, LEGACY = "keyed", "long"  # long: for runs from before env.seeding existed


@dataclass(frozen=True)
class EnvConfig:
    """One vectorised environment; any Gymnasium id works, native ids run in Rust."""

    id: str = param("CartPole-v1", "Gymnasium id, or module:Id-v0 to import a module first", code="id")
    n_envs: int = param(8, "parallel copies", within="[1, 1048576]", source="SB3 zoo, CartPole-v1")
    backend: str = param(
        "auto",
        "native: Rust; gymnasium: any registered id; auto: native where it exists; envpool: EnvPool; ale: "
        "ALE's own vectorised games",
        choices=("auto", "native", "gymnasium", "envpool", "ale"),
        argument="env_backend",
    )
    precision: str = param(
        "f64",
        "native only: f64 steps as Gymnasium does, f32 is faster with a stated deviation per step",
        choices=("f64", "f32"),
    )
    workers: str = param(
        "sync",
        "gymnasium only: step in this process or in supervised subprocesses",
        choices=("sync", "subprocess"),
    )
    step_timeout: float = param(
        60.0,
        "seconds a subprocess may take for a step or a reset before it is killed and replaced",
        within="(0, inf)",
    )
    max_restarts: int = param(
        5,
        "how many times in a row an environment in a subprocess may fail before the run stops; a finished "
        "episode resets the count",
        within="[0, inf)",
    )
    worker_envs: int | None = param(
        None,
        "environments per subprocess; null: divided among as many subprocesses as CPUs. If a subprocess "
        "dies or hangs, all its episodes are lost",
        within="[1, 1048576]",
    )
    seeding: str = param(
        KEYED,
        "seeds that the copies are reset with. keyed: numbers below 2^31, different for each copy, restart "
        "and seed of the run; offset: seed + i for copy i at first, as in Stable-Baselines3 "
        "(the gymnasium backend is used); long: only in runs from before this key existed",
        choices=(KEYED, "offset"),
        besides=(LEGACY,),
    )
    max_episode_steps: int | None = param(
        None,
        "environment steps after which an episode is truncated, instead of the registered limit; null: "
        "the registered limit",
        within="[1, inf)",
    )
    action_repeat: int = param(
        1,
        "environment steps with each action, fewer if the episode ends; their rewards are summed",
        within="[1, inf)",
    )
    repeat_action_probability: float | None = param(
        None,
        "probability that an environment step repeats the last action instead of the given one; null: "
        "never, or as the environment is registered (0.25 for ALE/*-v5)",
        within="[0, 1)",
        source="Machado et al. 2018, section 5.2",
    )
    obs_keys: tuple[str, ...] = param((), "parts of Dict observations to keep; without names: all of them")
    kwargs: dict[str, Any] = param(
        doc="keyword arguments for gymnasium.make (the gymnasium backend is used)",
        argument="env_kwargs",
        default_factory=dict,
    )
    wrappers: tuple[Code, ...] = code(
        "wrappers, innermost first: by name, or your own as module:Name",
        names=WRAPPER_NAMES,
        many=True,
        plugin="wrapper",
    )
    reward_wrappers: tuple[Code, ...] = code(
        "wrappers for training only; reported returns and evaluations do not use them",
        many=True,
        plugin="wrapper",
    )
    reward_scale: float = param(
        1.0,
        "factor of rewards, in training only, after env.reward_wrappers",
        within="(-inf, inf)",
    )
    reward_clip: float | None = param(
        None,
        "rewards are clipped to [-reward_clip, reward_clip], in training only, after env.reward_scale; 1 "
        "gives the sign of integer rewards",
        within="(0, inf)",
    )
    record_every: int = param(
        0,
        "record a video of every N-th episode of the first environment, into videos/; 0: none. Needs the "
        "extra video",
        within="[0, inf)",
    )
    atari: AtariConfig = param(doc="the preprocessing of ALE ids", default_factory=AtariConfig)
    action_mask: str = param(
        "none",
        "source of the mask of allowed actions, 0 or 1 for each action. info: the info of "
        "reset and steps; method: action_masks(); observation: a part of a Dict, hidden from the policy",
        choices=("none", "info", "method", "observation"),
        source="Huang and Ontanon 2020",
    )
    action_mask_key: str = param(
        "action_mask", "the name of the mask in the info, or of that part of the observation"
    )
    critic_obs: tuple[str, ...] = param(
        (),
        "parts of Dict observations that the critic sees and the actor does not: env.critic_obs=[state]. "
        "info.NAME is NAME in the info of reset and steps (Gymnasium environments)",
        source="Pinto et al. 2018, asymmetric actor-critic",
    )
    normalize_obs: bool = param(False, "standardise observations by running mean and std, clipped to +-10")
    normalize_reward: bool = param(
        False, "divide rewards by the running std of discounted returns, clipped to +-10"
    )
    normalize_rule: str = param(
        "relative",
        "the rule of normalize_obs and normalize_reward. relative: the first rows give the first mean and "
        "variance, and only components that are constant in float32 are not divided, so units play no part; "
        "sb3: Stable-Baselines3's start (mean 0, variance 1, weight 1e-4) and epsilon (1e-8), as in presets "
        "of rl-zoo3",
        choices=("relative", "sb3"),
    )

    @property
    def critic_infos(self) -> tuple[str, ...]:
        """The keys of the info that `critic_obs` names."""
        return tuple(
            name.removeprefix(INFO_PREFIX) for name in self.critic_obs if name.startswith(INFO_PREFIX)
        )

    @property
    def gymnasium_only(self) -> tuple[str, ...]:
        """The changed settings that only Gymnasium environments support, as `env.<name>`."""
        default = EnvConfig(seeding=LEGACY if self.seeding == LEGACY else KEYED)
        return tuple(
            f"env.{name}" for name in _GYMNASIUM_ONLY_FIELDS if getattr(self, name) != getattr(default, name)
        )

    @property
    def has_normalization(self) -> bool:
        """Whether `normalize_rule` has an effect."""
        return self.normalize_obs or self.normalize_reward

    def require_normalization(self) -> None:
        """Raise `ConfigError` for a rule other than the default if nothing is normalised.

        Only settings from the user are checked: a preset or a saved run may contain an unused rule.
        """
        if not self.has_normalization and self.normalize_rule != type(self).normalize_rule:
            raise ConfigError(
                f"env.normalize_rule={self.normalize_rule} without env.normalize_obs and "
                "env.normalize_reward: it applies to these only; set one of them to true, or leave "
                "env.normalize_rule out"
            )


_GYMNASIUM_ONLY_FIELDS = (
    "kwargs",
    "seeding",
    "max_episode_steps",
    "action_repeat",
    "repeat_action_probability",
    "obs_keys",
    "wrappers",
    "reward_wrappers",
    "reward_scale",
    "reward_clip",
    "record_every",
    "workers",
)


def is_preprocessed_game(config: EnvConfig) -> bool:
    """Tell whether the environment is a game with preprocessing."""
    return is_ale(config.id) and config.atari.preprocess


def training_reward_clip(config: EnvConfig) -> float | None:
    """Return the clip of training rewards; game rewards are integers, so a clip of 1 gives their sign."""
    if config.reward_clip is None and is_preprocessed_game(config) and config.atari.clip_rewards:
        return 1.0
    return config.reward_clip


def is_text(env: str) -> bool:
    """Return whether an environment's id stands for text."""
    return env == TEXT or env.startswith(f"{TEXT}/")
