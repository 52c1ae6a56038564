"""DQN (Mnih et al. 2015, doi:10.1038/nature14236), with the components of Rainbow."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.configs.own_networks import idle_network_advice
from rlox.configs.params import Code, code, param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

# Fields that require another field: its name, its required value, and the reason in the error.
FIELD_REQUIREMENTS = {
    "noisy_sigma": ("noisy", True, "there is no noise"),
    "n_atoms": ("distribution", "categorical", "there are no atoms"),
    "v_min": ("distribution", "categorical", "there are no atoms"),
    "v_max": ("distribution", "categorical", "there are no atoms"),
    "n_quantiles": ("distribution", "quantile", "there are no quantiles"),
    "loss": ("distribution", "none", "a distribution has a loss of its own"),
}
EPSILON_FIELDS = ("exploration_initial_eps", "exploration_final_eps", "exploration_fraction")


@dataclass(frozen=True)
class DQNConfig(OffPolicyConfig):
    """Defaults follow Stable-Baselines3, which are for Atari; small tasks need their preset."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete",)
    supports_masks: ClassVar[bool] = True
    # the engine itself refuses some values of them, such as noisy=true
    native_fields: ClassVar[frozenset[str]] = OffPolicyConfig.native_fields | {
        "target_update_interval", "tau", "exploration_fraction", "exploration_initial_eps",
        "exploration_final_eps", "exploration_eps", "double_dqn", "dueling", "noisy", "noisy_sigma",
        "distribution", "n_atoms", "v_min", "v_max", "n_quantiles", "loss", "adam_eps", "max_grad_norm",
    }  # fmt: skip

    name: str = param("dqn", "the algorithm", choices=("dqn",))
    learning_rate: Schedule = schedule(1e-4, "Adam step size", within="(0, inf)", source="SB3")
    batch_size: int = param(32, "transitions in a batch", within="[1, inf)", source="Mnih et al. 2015")
    train_freq: int = param(
        4, "environment steps between trainings", within="[1, inf)", source="Mnih et al. 2015"
    )
    target_update_interval: int = param(
        10_000,
        "environment steps between copies to the target network",
        within="[1, inf)",
        source="Mnih et al. 2015",
    )
    tau: float = param(
        1.0,
        "Polyak coefficient of a copy to the target network; 1: a full copy",
        within="(0, 1]",
        source="SB3",
    )
    exploration_fraction: float = param(
        0.1,
        "fraction of total_steps over which epsilon falls; has no effect with noisy",
        within="(0, 1]",
        source="SB3",
    )
    exploration_initial_eps: float = param(
        1.0, "epsilon at the start; has no effect with noisy", within="[0, 1]", source="Mnih et al. 2015"
    )
    exploration_final_eps: float = param(
        0.05, "epsilon at the end; has no effect with noisy", within="[0, 1]", source="SB3"
    )
    exploration_eps: Schedule | None = schedule(
        None,
        "epsilon as a schedule, e.g. [[0,1],[0.1,0.1],[1,0.01]], in place of exploration_fraction and the "
        "two epsilons",
        within="[0, 1]",
        instead_of=EPSILON_FIELDS,
    )
    double_dqn: bool = param(
        False,
        "double Q-learning: the online network chooses the target's action",
        source="van Hasselt et al. 2016",
    )
    dueling: bool = param(
        False, "dueling network: separate outputs for value and advantages", source="Wang et al. 2016"
    )
    noisy: bool = param(
        False,
        "all linear layers have learned noise, which explores in place of epsilon",
        instead_of=(*EPSILON_FIELDS, "exploration_eps"),
        source="Fortunato et al. 2018; all linear layers: Hessel et al. 2018",
    )
    noisy_sigma: float = param(
        0.5,
        "initial noise scale, times 1 / sqrt(inputs of the layer); has an effect only with noisy",
        within="[0, inf)",
        source="Fortunato et al. 2018, section 3.2",
    )
    distribution: str = param(
        "none",
        "what the network learns about returns: their mean, probabilities of atoms (C51), quantiles (QR-DQN)",
        choices=("none", "categorical", "quantile"),
    )
    n_atoms: int = param(
        51,
        "atoms from v_min to v_max; with distribution=categorical",
        within="[2, 1024]",
        source="Bellemare et al. 2017, section 5",
    )
    v_min: float = param(
        -10.0,
        "return of the lowest atom; with distribution=categorical",
        within="(-inf, inf)",
        source="Bellemare et al. 2017, section 5, for rewards clipped to [-1, 1]",
    )
    v_max: float = param(
        10.0,
        "return of the highest atom; with distribution=categorical",
        within="(-inf, inf)",
        source="Bellemare et al. 2017, section 5, for rewards clipped to [-1, 1]",
    )
    n_quantiles: int = param(
        200,
        "number of quantiles; with distribution=quantile",
        within="[1, 1024]",
        source="Dabney et al. 2018, section 5",
    )
    loss: str = param(
        "huber",
        "loss of the temporal-difference error; huber is linear where |error| > 1; with distribution=none",
        choices=("huber", "mse"),
    )
    adam_eps: float = param(1e-8, "Adam's epsilon", within="(0, inf)", source="SB3, torch")
    max_grad_norm: float | None = param(
        10.0, "global gradient-norm limit; null: none", within="(0, inf)", source="SB3"
    )
    net_arch: tuple[int, ...] = param((64, 64), "hidden layer widths", within="[1, 65536]", source="SB3")
    policy: Code | None = code(
        "a Q-network of your own as module:Name: a factory that takes the spaces and returns a torch module, "
        "which maps rows of observations to a value for each action. In Python also the module"
    )

    def advice(self, env: EnvConfig) -> list[str]:
        """Warn about fields that have no effect with a Q-network of the user."""
        return [*super().advice(env), *idle_network_advice(self)]

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for two kinds of exploration, or for settings of a component that is off."""
        super().check(env, buffer)
        for name in ("dueling", "noisy"):
            if self.policy is not None and getattr(self, name):
                raise ConfigError(
                    f"algo.{name}=true and algo.policy: these layers would be part of your own network; "
                    f"leave algo.{name} out"
                )
        default = {f.name: f.default for f in fields(self)}
        changed = [name for name in EPSILON_FIELDS if getattr(self, name) != default[name]]
        if self.exploration_eps is not None and changed:
            raise ConfigError(
                f"algo.exploration_eps and algo.{changed[0]}={getattr(self, changed[0])}: give one of them"
            )
        changed += ["exploration_eps"] * (self.exploration_eps is not None)
        if self.noisy and changed:
            raise ConfigError(
                f"algo.noisy=true and algo.{changed[0]}={getattr(self, changed[0])}: noisy layers explore "
                "without epsilon; give one of them"
            )
        for name, (required_field, required_value, reason) in FIELD_REQUIREMENTS.items():
            value, current_value = getattr(self, name), getattr(self, required_field)
            if value != default[name] and current_value != required_value:
                raise ConfigError(
                    f"algo.{name}={value} with algo.{required_field}={_format_value(current_value)}: "
                    f"{reason}; set algo.{required_field}={_format_value(required_value)}, or leave "
                    f"algo.{name} at {default[name]}"
                )
        if self.v_min >= self.v_max:
            raise ConfigError(
                f"algo.v_min={self.v_min} and algo.v_max={self.v_max}: the atoms go from v_min up to "
                "v_max; set algo.v_min below algo.v_max"
            )

    @property
    def has_schedule(self) -> bool:
        """Whether a value changes over the run; epsilon counts if it is used."""
        if self.noisy or self.exploration_eps is not None:
            return super().has_schedule
        return super().has_schedule or self.exploration_initial_eps != self.exploration_final_eps

    @property
    def outputs_per_action(self) -> int:
        """The number of network outputs for each action."""
        return {"none": 1, "categorical": self.n_atoms, "quantile": self.n_quantiles}[self.distribution]

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = True) -> list[tuple[int, ...]]:
        """Return the widths of the network; noisy layers count twice, for their learned noise scales."""
        return [(obs_dim, *self.net_arch, actions * self.outputs_per_action)] * (2 if self.noisy else 1)

    def native_obstacle(self, discrete: bool, has_masks: bool) -> str:
        """Return the unsupported feature: masks, noisy layers or a distribution of returns."""
        if has_masks:
            return "native does not learn DQN with masks of actions (env.action_mask)"
        if self.noisy:
            return "native does not learn DQN with noisy layers (algo.noisy=true)"
        if self.distribution != "none":
            return f"native does not learn distributions of returns (algo.distribution={self.distribution})"
        return ""

    def activation_count(self, actions: int) -> int:
        """Return the number of activations; a distribution adds its outputs and all pairs of them."""
        hidden = super().activation_count(actions)
        if self.distribution == "none":
            return hidden
        return hidden + 3 * actions * self.outputs_per_action + 4 * self.outputs_per_action**2

    def policy_mismatch(self, other: AlgorithmConfig) -> str:
        """Return why weights do not fit; the same outputs mean other values if the atoms differ."""
        if isinstance(other, DQNConfig):
            names = ["distribution"]
            names += ["v_min", "v_max"] if self.distribution == "categorical" else []
            if wrong := self.first_difference(other, *names):
                return wrong
        return super().policy_mismatch(other)


def _format_value(value: object) -> str:
    return str(value).lower()
