"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.off_policy import ActorCriticConfig
from rlox.configs.own_networks import idle_network_advice, require_no_critic_obs
from rlox.configs.params import Code, code, param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

_AUTO = re.compile(r"auto(?:_(\d+\.?\d*(?:[eE][-+]?\d+)?))?")


@dataclass(frozen=True)
class SACConfig(ActorCriticConfig):
    """Defaults follow Stable-Baselines3."""

    native_fields: ClassVar[frozenset[str]] = ActorCriticConfig.native_fields | {
        "ent_coef", "target_entropy", "target_update_interval", "use_sde", "sde_sample_freq", "log_std_init"
    }  # fmt: skip

    name: str = param("sac", "the algorithm", choices=("sac",))
    learning_rate: Schedule = schedule(
        3e-4,
        "Adam step size of actor, critics and temperature",
        within="(0, inf)",
        source="Haarnoja et al. 2018, table 1",
    )
    ent_coef: str = param(
        "auto",
        "entropy temperature alpha: auto learns it from 1 on, auto_0.1 from 0.1 on; a number is fixed",
        source="SB3",
    )
    target_entropy: float | None = param(
        None,
        "target entropy of a learned temperature; null or auto: -dim(A), for Discrete actions 0.98 log|A|",
        within="(-inf, inf)",
        source="Haarnoja et al. 2018; Christodoulou 2019",
        hint="null or auto: -dim(A) for Box actions, 0.98 log|A| for Discrete ones",
        null_word="auto",
    )
    target_update_interval: int = param(
        1, "updates between steps of the target network", within="[1, inf)", source="SB3"
    )
    use_sde: bool = param(
        False, "state-dependent exploration, gSDE (Box actions)", source="Raffin et al. 2021"
    )
    sde_sample_freq: int = param(
        -1,
        "steps of each environment between new gSDE noise matrices; -1: the steps between two trainings",
        within="[-1, inf)",
        only_with="use_sde",
    )
    log_std_init: float = param(
        -3.0,
        "initial log standard deviation of gSDE",
        within="[-20, 2]",
        only_with="use_sde",
        source="SB3",
    )
    policy: Code | None = code(
        "networks of your own as module:Name: a factory that takes the spaces and returns a torch module "
        "with the modules actor and critic (docs/python.md). In Python also the module"
    )

    @property
    def temperature(self) -> tuple[bool, float]:
        """Whether alpha is learned, and its initial value."""
        if match := _AUTO.fullmatch(self.ent_coef):
            return True, float(match[1] or 1.0)
        return False, float(self.ent_coef)

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of the actor (means and standard deviations) and critics; others if Discrete."""
        if not discrete:
            (_, *hidden, _), *critics = super().layer_widths(obs_dim, actions)
            return [(obs_dim, *hidden, 2 * actions), *critics]
        actor, critic = self.hidden_widths
        return [(obs_dim, *actor, actions), *[(obs_dim, *critic, actions)] * self.n_critics]

    def native_obstacle(self, discrete: bool, has_masks: bool) -> str:
        """Return the unsupported feature: Discrete actions or gSDE."""
        if discrete:
            return "native learns SAC of Box actions, not of Discrete ones"
        if self.use_sde:
            return "native does not learn SAC with state-dependent exploration (algo.use_sde=true)"
        return ""

    def advice(self, env: EnvConfig) -> list[str]:
        """Warn about fields that have no effect with networks of the user."""
        return [*super().advice(env), *idle_network_advice(self)]

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for an invalid temperature, or gSDE settings without gSDE."""
        super().check(env, buffer)
        require_no_critic_obs(self, env)
        if self.policy is not None and self.use_sde:
            raise ConfigError(
                "algo.use_sde=true and algo.policy: gSDE needs the last hidden layer of rlox's own actor; "
                "leave one of them out"
            )
        try:
            is_learned, alpha = self.temperature
        except ValueError:
            is_learned, alpha = False, -1.0
        if not 0.0 <= alpha < float("inf") or (is_learned and not alpha):
            raise ConfigError(
                f"algo.ent_coef={self.ent_coef}: expected auto, auto_0.1 (learned from there) or a "
                "number of at least 0"
            )
        if not is_learned and self.target_entropy is not None:
            raise ConfigError(
                f"algo.target_entropy={self.target_entropy:g} and algo.ent_coef={self.ent_coef}: only "
                "a temperature that is learned has a target; set algo.ent_coef=auto"
            )
        self.reject_without_switch({"use_sde": "gSDE"})
        if self.sde_sample_freq == 0:
            raise ConfigError("algo.sde_sample_freq is 0, expected -1 (as train_freq) or at least 1")
