"""What the configuration of every algorithm says besides its own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from rlox.configs.buffers import BufferConfig
from rlox.configs.code import name_of
from rlox.configs.env import EnvConfig
from rlox.configs.params import default_of
from rlox.configs.schedules import annealing, is_constant, is_known, value_at
from rlox.errors import ConfigError


@dataclass(frozen=True)
class AlgorithmConfig:
    """A family overrides what is different; the rest of the house reads nothing else of an algorithm."""

    # What total_steps, eval.every, checkpoint.every and log.every count.
    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "env_steps"
    # What one batch is called where totals are rounded up to whole ones.
    batches: ClassVar[str] = "batches"
    # How to have smaller batches, where a total is rounded up by much.
    shorter: ClassVar[str] = "use fewer environments (env.n_envs)"
    # The buffers it can learn from; the first is its own, which `buffer: auto` becomes.
    buffers: ClassVar[tuple[str, ...]] = ("rollout",)
    # Defaults outside `algo` that it brings, by dotted key such as "env.n_envs".
    brings: ClassVar[Mapping[str, Any]] = {}
    # The kinds of action spaces that it learns in; factored are those of several parts with choices.
    actions: ClassVar[tuple[str, ...]] = ("Discrete", "Box", "factored")
    # Whether it stretches [-1, 1] over Boxes of actions, which then need bounds.
    bounded: ClassVar[bool] = False
    # Whether it keeps to masks of actions (env.action_mask).
    masks: ClassVar[bool] = False
    # Whether it steps environments in Rust only.
    native_only: ClassVar[bool] = False
    # Inherited fields that it does not use, and why: no --help has them, and only the default is taken.
    drops: ClassVar[Mapping[str, str]] = {}

    @property
    def buffer(self) -> str:
        """The buffer that these settings use unless one is named."""
        return self.buffers[0]

    @property
    def own_policy(self) -> bool:
        """Whether its policy is one of the user's own."""
        return getattr(self, "policy", None) is not None

    @property
    def asks_native(self) -> bool:
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
        return int(getattr(self, "batch_size", self.quantum(n_envs)))

    def orders_bytes(self, n_envs: int) -> int:
        """Memory of the orders in which the native engine goes through a rollout."""
        return 0

    def not_native(self, discrete: bool, masked: bool) -> str:
        """Why the native engine does not learn these settings of actions; empty where it does."""
        return ""

    @property
    def scheduled(self) -> bool:
        """Whether something changes with the part of the total that is over: a larger one stretches it."""
        return any(
            getattr(self, f.name) is True
            if f.metadata.get("anneals")
            else f.metadata.get("scheduled") and not is_constant(getattr(self, f.name))
            for f in fields(self)
        )

    def at(self, field: str, left: float) -> float:
        """The value of a field that may change over the run when the part `left` of it is left."""
        kind: Any = type(self)
        within = kind.__dataclass_fields__[field].metadata["within"]
        value = value_at(getattr(self, field), left, f"algo.{field}", within)
        anneal = annealing(kind).get(field)
        return value * left if anneal and getattr(self, anneal) else value

    def initial(self, field: str) -> float:
        """The value at the start; 0 of a callable that was not given again, which only training asks for."""
        return self.at(field, 1.0) if is_known(getattr(self, field)) else 0.0

    def other_function(self, there: AlgorithmConfig) -> str:
        """Why weights of that algorithm's policy are another function here; empty if they are the same.

        Shapes say the rest. A policy of the user's own has what it has.
        """
        if getattr(self, "policy", None) is not None:
            return ""
        for name, told in (("activation", ()), ("image_channels", ("auto", None))):
            mine, theirs = (getattr(algo, name, None) for algo in (self, there))
            if mine not in told and theirs not in told and (wrong := self.otherwise(there, name)):
                return wrong
        return ""

    def otherwise(self, there: AlgorithmConfig, *names: str) -> str:
        """The first of these fields that is set otherwise there, and how to set it; empty if none is."""
        for name in names:
            mine, theirs = (getattr(algo, name, None) for algo in (self, there))
            if mine != theirs:
                return f"algo.{name}={theirs}, this one {mine}; set algo.{name}={theirs}"
        return ""

    def quantum(self, n_envs: int) -> int:
        """How far one batch takes the run, in its unit: totals are rounded up to whole ones."""
        return 1

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for fields that contradict each other, the environment's or the buffer's."""

    def require_used(self) -> None:
        """`ConfigError` for a value of a field that the algorithm does not use (`drops`)."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in self.drops and value != default_of(f):
                given = name_of(value) if f.metadata.get("code") else value
                algo: Any = self  # each declares its name
                raise ConfigError(
                    f"algo.{f.name}={given}: {algo.name} {self.drops[f.name]}; leave algo.{f.name} out"
                )

    def require_switches(self, of: Mapping[str, str] | None = None) -> None:
        """`ConfigError` for a field `only_with` a switch that is off; `of` is what the switches are of."""
        for f in fields(self):
            switch, value = f.metadata.get("only_with"), getattr(self, f.name)
            if switch and not getattr(self, switch) and value != f.default:
                what = (of or {}).get(switch, "that")
                raise ConfigError(
                    f"algo.{f.name}={value} without algo.{switch}: it says something of {what} alone; set "
                    f"algo.{switch}=true, or leave algo.{f.name} out"
                )

    def advice(self, env: EnvConfig) -> list[str]:
        """What is valid and probably not meant, with the remedy."""
        return []

    def check_total(self, total: int) -> None:
        """Raise `ConfigError` for what a run that begins, and ends at `total`, must not have.

        Runs that began so before it was refused go on.
        """
