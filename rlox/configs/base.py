"""The base class of algorithm configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import default_of, display_name
from rlox.configs.schedules import anneal_switches, is_constant, is_known, schedule_value
from rlox.errors import ConfigError

# Fields of learning rates, networks and engines, which several algorithms have.
COMMON_NATIVE_FIELDS = frozenset(
    [
        *("name", "learning_rate", "anneal_lr", "backend", "net_arch", "activation"),
        *("encoder", "encoder_features", "image_channels"),
    ]
)


@dataclass(frozen=True)
class AlgorithmConfig:
    """The interface of every algorithm configuration; families override what differs.

    Code outside of an algorithm's own modules reads only these attributes of its configuration.
    """

    if TYPE_CHECKING:
        name: str  # each algorithm declares it, with its own name as the only choice
    # The unit of total_steps, eval.every, checkpoint.every and log.every.
    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "env_steps"
    # The name of a batch in messages about totals that are rounded up.
    batch_name: ClassVar[str] = "batches"
    # How to get smaller batches, for the warning that rounding up makes a run much longer.
    shrink_hint: ClassVar[str] = "use fewer environments (env.n_envs)"
    # The buffers that the algorithm can learn from; the first one replaces `buffer: auto`.
    buffers: ClassVar[tuple[str, ...]] = ("rollout",)
    # The algorithm's defaults for keys outside `algo`, by dotted key such as "env.n_envs".
    default_overrides: ClassVar[Mapping[str, Any]] = {}
    # The supported action spaces; a factored one has several parts, at least one of them discrete.
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box", "factored")
    # Whether the algorithm scales [-1, 1] to Box actions, which then need bounds.
    needs_bounds: ClassVar[bool] = False
    # Whether the algorithm supports action masks (env.action_mask).
    supports_masks: ClassVar[bool] = False
    # Whether the critic can see parts of observations that the actor does not see (env.critic_obs).
    supports_critic_obs: ClassVar[bool] = False
    # Whether the algorithm only supports environments in Rust.
    is_native_only: ClassVar[bool] = False
    # The fields that the native engine implements, if backend=native is a choice. If another field differs
    # from its default, torch learns. Add a field when Rust implements it.
    native_fields: ClassVar[frozenset[str]] = frozenset()
    # The fields of `env` that it does not use, of which only the default is accepted; None: it uses none.
    unused_env_fields: ClassVar[frozenset[str] | None] = frozenset()
    # Inherited fields that the algorithm does not use, and why: --help omits them, and only the default is
    # accepted.
    drops: ClassVar[Mapping[str, str]] = {}

    @property
    def default_buffer(self) -> str:
        """The buffer of these settings, unless the user names one."""
        return self.buffers[0]

    @property
    def has_custom_policy(self) -> bool:
        """Whether the user supplies the policy."""
        return getattr(self, "policy", None) is not None

    @property
    def requests_native(self) -> bool:
        """Whether the configuration asks for the native engine."""
        return getattr(self, "backend", "") == "native"

    @property
    def widest_hidden(self) -> int:
        """The width of the widest hidden layer; 0 if none is configured."""
        arches = (getattr(self, name, None) or () for name in ("net_arch", "critic_net_arch"))
        return max((width for arch in arches for width in arch), default=0)

    def widest_layer(self, features: int, actions: int, discrete: bool) -> int:
        """Return the largest number of inputs or outputs of a layer in its networks."""
        return max(features, actions, self.widest_hidden)

    def update_rows(self, n_envs: int) -> int:
        """Return the number of rows in an update: a batch, or a whole rollout."""
        return int(getattr(self, "batch_size", self.batch_steps(n_envs)))

    def shuffle_bytes(self, n_envs: int) -> int:
        """Return the memory, in bytes, of the native engine's permutations of a rollout."""
        return 0

    def native_obstacle(self, discrete: bool, has_masks: bool) -> str:
        """Return why the native engine does not support these action settings; empty if it does."""
        return ""

    @property
    def has_schedule(self) -> bool:
        """Whether a value depends on the fraction of the run that is over, and so on the run's length."""
        return any(
            getattr(self, f.name) is True
            if f.metadata.get("anneals")
            else f.metadata.get("scheduled") and not is_constant(getattr(self, f.name))
            for f in fields(self)
        )

    def at(self, field: str, remaining: float) -> float:
        """Return the value of a schedulable field when the fraction `remaining` of the run is left."""
        kind: Any = type(self)
        within = kind.__dataclass_fields__[field].metadata["within"]
        value = schedule_value(getattr(self, field), remaining, f"algo.{field}", within)
        anneal = anneal_switches(kind).get(field)
        return value * remaining if anneal and getattr(self, anneal) else value

    def is_constant(self, field: str) -> bool:
        """Return whether a schedulable field keeps its value over the run."""
        kind: Any = type(self)
        anneal = anneal_switches(kind).get(field)
        return is_constant(getattr(self, field)) and not (anneal and getattr(self, anneal))

    def initial(self, field: str) -> float:
        """Return a field's value at the start; 0 for a saved callable that was not given again."""
        return self.at(field, 1.0) if is_known(getattr(self, field)) else 0.0

    def policy_mismatch(self, other: AlgorithmConfig) -> str:
        """Return why weights of a policy of `other` would make another policy here; empty if they would not.

        Shapes are checked elsewhere. A user's own policy is not checked.
        """
        if getattr(self, "policy", None) is not None:
            return ""
        for name, undecided_values in (("activation", ()), ("image_channels", ("auto", None))):
            own_value, other_value = (getattr(algo, name, None) for algo in (self, other))
            if (
                own_value not in undecided_values
                and other_value not in undecided_values
                and (wrong := self.first_difference(other, name))
            ):
                return wrong
        return ""

    def first_difference(self, other: AlgorithmConfig, *names: str) -> str:
        """Describe the first of these fields that differs in `other`, and the remedy; empty if none does."""
        for name in names:
            own_value, other_value = (getattr(algo, name, None) for algo in (self, other))
            if own_value != other_value:
                return (
                    f"algo.{name}={other_value}, but this run has {own_value}; set algo.{name}={other_value}"
                )
        return ""

    def batch_steps(self, n_envs: int) -> int:
        """Return the length of one batch in the run's unit; totals are rounded up to whole batches."""
        return 1

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for fields that contradict each other, the environment or the buffer."""

    def reject_unused(self) -> None:
        """Raise `ConfigError` for a value of a field that the algorithm does not use (`drops`)."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in self.drops and value != default_of(f):
                value_text = display_name(value) if f.metadata.get("code") else value
                algo: Any = self  # each subclass declares name
                raise ConfigError(
                    f"algo.{f.name}={value_text}: {algo.name} {self.drops[f.name]}; leave algo.{f.name} out"
                )

    def reject_without_switch(self, switch_names: Mapping[str, str] | None = None) -> None:
        """Raise `ConfigError` for a field that is set although its switch (`only_with`) is off.

        `switch_names` describes, for the message, what each switch controls.
        """
        for f in fields(self):
            switch, value = f.metadata.get("only_with"), getattr(self, f.name)
            if switch and not getattr(self, switch) and value != f.default:
                subject = (switch_names or {}).get(switch, "that setting")
                raise ConfigError(
                    f"algo.{f.name}={value} without algo.{switch}: it applies to {subject} only; set "
                    f"algo.{switch}=true, or leave algo.{f.name} out"
                )

    def advice(self, env: EnvConfig) -> list[str]:
        """Return warnings about settings that are valid but probably not intended, with the remedy."""
        return []

    def check_total(self, total: int) -> None:
        """Raise `ConfigError` for settings that a new run of length `total` must not have.

        Runs that earlier versions began with such settings can continue.
        """
