"""What the configuration of every algorithm says besides its own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from rlox.configs.buffers import BufferConfig
from rlox.configs.code import display_name
from rlox.configs.env import EnvConfig
from rlox.configs.params import default_of
from rlox.configs.schedules import anneal_switches, is_constant, is_known, schedule_value
from rlox.errors import ConfigError


@dataclass(frozen=True)
class AlgorithmConfig:
    """A family overrides what is different; the rest of the house reads nothing else of an algorithm."""

    # What total_steps, eval.every, checkpoint.every and log.every count.
    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "env_steps"
    # What one batch is called where totals are rounded up to whole ones.
    batch_name: ClassVar[str] = "batches"
    # How to have smaller batches, where a total is rounded up by much.
    shrink_hint: ClassVar[str] = "use fewer environments (env.n_envs)"
    # The buffers it can learn from; the first is its own, which `buffer: auto` becomes.
    buffers: ClassVar[tuple[str, ...]] = ("rollout",)
    # Defaults outside `algo` that it brings, by dotted key such as "env.n_envs".
    default_overrides: ClassVar[Mapping[str, Any]] = {}
    # The kinds of action spaces that it learns in; factored are those of several parts with choices.
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box", "factored")
    # Whether it stretches [-1, 1] over Boxes of actions, which then need bounds.
    needs_bounds: ClassVar[bool] = False
    # Whether it keeps to masks of actions (env.action_mask).
    supports_masks: ClassVar[bool] = False
    # Whether it steps environments in Rust only.
    is_native_only: ClassVar[bool] = False
    # Inherited fields that it does not use, and why: no --help has them, and only the default is taken.
    drops: ClassVar[Mapping[str, str]] = {}

    @property
    def default_buffer(self) -> str:
        """The buffer that these settings use unless one is named."""
        return self.buffers[0]

    @property
    def has_custom_policy(self) -> bool:
        """Whether its policy is one of the user's own."""
        return getattr(self, "policy", None) is not None

    @property
    def requests_native(self) -> bool:
        """Whether the native engine is asked for."""
        return getattr(self, "backend", "") == "native"

    @property
    def widest_hidden(self) -> int:
        """The width of its widest hidden layer; 0 where none is configured."""
        arches = (getattr(self, name, None) or () for name in ("net_arch", "critic_net_arch"))
        return max((width for arch in arches for width in arch), default=0)

    def widest_layer(self, features: int, actions: int, discrete: bool) -> int:
        """The largest number of inputs or outputs that a layer of its networks has."""
        return max(features, actions, self.widest_hidden)

    def update_rows(self, n_envs: int) -> int:
        """Rows of an update: those of a batch, or of a whole rollout."""
        return int(getattr(self, "batch_size", self.batch_steps(n_envs)))

    def shuffle_bytes(self, n_envs: int) -> int:
        """Memory of the orders in which the native engine goes through a rollout."""
        return 0

    def native_obstacle(self, discrete: bool, has_masks: bool) -> str:
        """Why the native engine does not learn these settings of actions; empty where it does."""
        return ""

    @property
    def has_schedule(self) -> bool:
        """Whether something changes with the part of the total that is over: a larger one stretches it."""
        return any(
            getattr(self, f.name) is True
            if f.metadata.get("anneals")
            else f.metadata.get("scheduled") and not is_constant(getattr(self, f.name))
            for f in fields(self)
        )

    def at(self, field: str, remaining: float) -> float:
        """The value of a field that may change over the run when the part `remaining` of it is left."""
        kind: Any = type(self)
        within = kind.__dataclass_fields__[field].metadata["within"]
        value = schedule_value(getattr(self, field), remaining, f"algo.{field}", within)
        anneal = anneal_switches(kind).get(field)
        return value * remaining if anneal and getattr(self, anneal) else value

    def initial(self, field: str) -> float:
        """The value at the start; 0 of a callable that was not given again, which only training asks for."""
        return self.at(field, 1.0) if is_known(getattr(self, field)) else 0.0

    def policy_mismatch(self, other: AlgorithmConfig) -> str:
        """Why weights of that algorithm's policy are another function here; empty if they are the same.

        Shapes say the rest. A policy of the user's own has what it has.
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
        """The first of these fields that is set otherwise there, and how to set it; empty if none is."""
        for name in names:
            own_value, other_value = (getattr(algo, name, None) for algo in (self, other))
            if own_value != other_value:
                return f"algo.{name}={other_value}, this one {own_value}; set algo.{name}={other_value}"
        return ""

    def batch_steps(self, n_envs: int) -> int:
        """How far one batch takes the run, in its unit: totals are rounded up to whole ones."""
        return 1

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for fields that contradict each other, the environment's or the buffer's."""

    def reject_unused(self) -> None:
        """`ConfigError` for a value of a field that the algorithm does not use (`drops`)."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in self.drops and value != default_of(f):
                value_text = display_name(value) if f.metadata.get("code") else value
                algo: Any = self  # each declares its name
                raise ConfigError(
                    f"algo.{f.name}={value_text}: {algo.name} {self.drops[f.name]}; leave algo.{f.name} out"
                )

    def reject_without_switch(self, switch_names: Mapping[str, str] | None = None) -> None:
        """`ConfigError` for a field `only_with` a switch that is off; `switch_names` is what the switches are
        of.
        """
        for f in fields(self):
            switch, value = f.metadata.get("only_with"), getattr(self, f.name)
            if switch and not getattr(self, switch) and value != f.default:
                subject = (switch_names or {}).get(switch, "that")
                raise ConfigError(
                    f"algo.{f.name}={value} without algo.{switch}: it says something of {subject} alone; set "
                    f"algo.{switch}=true, or leave algo.{f.name} out"
                )

    def advice(self, env: EnvConfig) -> list[str]:
        """What is valid and probably not meant, with the remedy."""
        return []

    def check_total(self, total: int) -> None:
        """Raise `ConfigError` for what a run that begins, and ends at `total`, must not have.

        Runs that began so before it was refused go on.
        """
