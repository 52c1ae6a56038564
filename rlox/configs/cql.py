"""CQL(H), conservative Q-learning (Kumar, Zhou, Tucker & Levine 2020, arXiv:2006.04779)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.offline import OfflineCriticsConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError


@dataclass(frozen=True)
class CQLConfig(OfflineCriticsConfig):
    """Box actions use soft actor-critic, Discrete actions double DQN, as in the paper."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box")

    name: str = param("cql", "the algorithm", choices=("cql",))
    actor_learning_rate: Schedule = schedule(
        1e-4,
        "Adam step size of the policy and its temperature (Box actions)",
        within="(0, inf)",
        source="Kumar et al. 2020, authors' code",
    )
    cql_alpha: float = param(
        5.0,
        "weight of log sum_a exp Q(s, a) - Q(s, a of the dataset); with auto_alpha the initial weight",
        within="[0, inf)",
        source="Kumar et al. 2020, authors' code",
    )
    n_random_actions: int = param(
        10,
        "sampled actions that estimate the sum (Box actions): this many from the uniform distribution, as "
        "many from the policy, and as many from the policy in the next state",
        within="[1, inf)",
        source="Kumar et al. 2020, authors' code",
    )
    auto_alpha: bool = param(False, "learn cql_alpha so that the penalty stays below cql_target_value")
    cql_target_value: float = param(
        -1.0,
        "tau of the paper: the limit of the penalty for auto_alpha",
        within="(-inf, inf)",
        only_with="auto_alpha",
    )
    ent_coef: float = param(
        1.0,
        "entropy temperature (Box actions); with auto_entropy the initial temperature",
        within="(0, inf)",
    )
    auto_entropy: bool = param(True, "learn the entropy temperature")
    target_entropy: float | None = param(
        None,
        "target entropy of a learned temperature; null or auto: -dim(A)",
        within="(-inf, inf)",
        null_word="auto",
        only_with="auto_entropy",
    )
    target_update_interval: int = param(1, "updates between steps of the target network", within="[1, inf)")
    # attributes of the soft actor-critic policy, which has no gSDE here
    use_sde: ClassVar[bool] = False
    log_std_init: ClassVar[float] = 0.0

    @property
    def temperature(self) -> tuple[bool, float]:
        """Whether alpha is learned, and its initial value."""
        return self.auto_entropy, self.ent_coef

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of actor (means and standard deviations) and critics; if Discrete, of critics."""
        actor, critic = self.hidden_widths
        if discrete:
            return [(obs_dim, *actor, actions)] * self.n_critics
        return [(obs_dim, *actor, 2 * actions), *[(obs_dim + actions, *critic, 1)] * self.n_critics]

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for settings of a learned value that is not learned."""
        super().check(env, buffer)
        if self.auto_alpha and not self.cql_alpha:
            raise ConfigError(
                "algo.auto_alpha=true and algo.cql_alpha=0: a weight that is learned begins above 0"
            )
        self.reject_without_switch()

    def advice(self, env: EnvConfig) -> list[str]:
        """Return warnings about settings that are valid but probably not intended."""
        lines = super().advice(env)
        if self.auto_alpha and self.cql_target_value <= 0.0:
            lines.append(
                f"algo.auto_alpha=true and algo.cql_target_value={self.cql_target_value:g}: the penalty is "
                f"seldom or never below 0, so that its weight grows to its limit of 1e6; a "
                "target above 0, e.g. algo.cql_target_value=5, makes the weight fall if the penalty is small"
            )
        return lines
