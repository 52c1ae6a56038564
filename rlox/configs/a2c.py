"""A2C: synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, without the asynchrony)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.on_policy import OnPolicyConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError


@dataclass(frozen=True)
class A2CConfig(OnPolicyConfig):
    """Defaults follow Stable-Baselines3: one RMSprop step on each rollout of five steps."""

    supports_masks: ClassVar[bool] = True
    native_fields: ClassVar[frozenset[str]] = OnPolicyConfig.native_fields | {
        "use_rms_prop", "rms_prop_eps", "rms_prop_tf_like"
    }  # fmt: skip

    name: str = param("a2c", "the algorithm", choices=("a2c",))
    n_steps: int = param(5, "rollout length per environment", within="[1, inf)", source="SB3")
    learning_rate: Schedule = schedule(7e-4, "step size", within="(0, inf)", source="SB3")
    gae_lambda: float = param(
        1.0, "lambda of GAE; 1: discounted returns to the end of the rollout", within="[0, 1]", source="SB3"
    )
    normalize_advantages: bool = param(
        False, "standardise advantages within each rollout; 5 steps x 8 environments are too few rows for it"
    )
    use_rms_prop: bool = param(True, "torch's RMSprop with alpha=0.99; false: Adam")
    rms_prop_eps: float = param(
        1e-5, "epsilon of RMSprop", within="(0, inf)", source="SB3", only_with="use_rms_prop"
    )
    rms_prop_tf_like: bool = param(
        False, "like TensorFlow: epsilon inside the square root, running mean of squares starts at 1"
    )

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        super().check(env, buffer)
        self.reject_without_switch({"use_rms_prop": "RMSprop"})
        if self.rms_prop_tf_like and not self.use_rms_prop:
            raise ConfigError(
                "algo.rms_prop_tf_like=true and algo.use_rms_prop=false contradict each other: false means "
                "Adam, which has no such option; set algo.use_rms_prop=true or leave "
                "algo.rms_prop_tf_like out"
            )
