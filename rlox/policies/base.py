"""What a policy is: how it explores, how it scores what it did, how it acts when evaluated.

While collecting, only the actor runs at each step: the exploration noise of a whole rollout is drawn
ahead of it, and log-probabilities and values are computed afterwards in one batch over the rollout,
with the same parameters. That is what makes collection cheap, and it is exact: nothing a policy
returns for a row depends on when it is asked. A shared encoder does not look at images twice: what it made
of them for the actor is kept for the scores, the same but for the rounding of other batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any

import torch
from torch import Tensor, nn

from rlox.networks.traced import require_trainable_values
from rlox.policies.scored import Scored, graph

__all__ = [
    "ACTING_METHODS",
    "ActorCritic",
    "Policy",
    "Sampler",
    "dispatch_evaluation",
    "evaluation_mode",
    "find_most_derived",
]

# Maps the observations `[N, obs_dim]` of rollout step t to actions, rows of `rlox.envs.actions`: `[N]` or
# `[N, act_dim]`.
Sampler = Callable[[Tensor, int], Tensor]

# Methods of a policy that are given rows of a rollout or of a batch, on policy and off policy.
_ROW_METHODS = (
    "act",
    "action_values",
    "draw",
    "evaluate_actions",
    "forward",
    "get_action_and_logprob",
    "get_action_value",
    "get_logprob_and_entropy",
    "get_value",
    "mode",
    "outputs",
    "q_values",
    "sample",
    "score",
    "scored",
    "scoring_inputs",
    "trace",
    "value",
)

# What may draw the actions of a rollout: of those that the most derived class defines the first.
ACTING_METHODS = ("sampler", "get_action_and_logprob", "sample", "get_action_value")

# Noise is drawn in blocks of at most this many numbers.
NOISE_BLOCK = 1 << 20


@contextmanager
def evaluation_mode(policy: nn.Module) -> Iterator[None]:
    """Run a block with `policy` in evaluation mode: dropout off, statistics of batches frozen.

    Each part then goes back to the mode it was in, also one that its owner keeps in another mode.
    """
    training_flags, scripted_modules = _training_modules(policy)
    try:
        for flags in training_flags:
            flags["training"] = False
        for module in scripted_modules:
            module.training = False
        yield
    finally:
        for flags in training_flags:
            flags["training"] = True
        for module in scripted_modules:
            module.training = True


def _training_modules(policy: nn.Module) -> tuple[list[dict[str, Any]], list[nn.Module]]:
    """The attributes of the parts in training mode, and such parts that keep theirs elsewhere.

    Looked up at each call, as `train()` may be called at any time; by hand, as `modules()` and the
    setting of an attribute, which may be a parameter, take longer than an action.
    """
    training_flags: list[dict[str, Any]] = []
    scripted_modules: list[nn.Module] = []  # by TorchScript: in their graph
    pending = [policy]
    for module in pending:
        flags = module.__dict__
        if "training" not in flags:
            if module.training:
                scripted_modules.append(module)
        elif flags["training"]:
            training_flags.append(flags)
        if parts := module._modules:
            pending += [part for part in parts.values() if part is not None]
    return training_flags, scripted_modules


class Policy(nn.Module, ABC):
    """What acts once it has learned. Shapes: obs `[B, obs_dim]`, actions `[B]` or `[B, act_dim]`.

    Methods that a class outside of rlox defines are given copies of observations and actions, into which
    they may write (`obs /= 255`): the tensors themselves are what a rollout or a batch has.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] == "rlox":
            return
        for name in (*_ROW_METHODS, "sampler"):
            method = cls.__dict__.get(name)
            if isfunction(method):
                wrap = _with_cloned_rows if name == "sampler" else _with_cloned_arguments
                setattr(cls, name, wrap(method))

    @abstractmethod
    def mode(self, obs: Tensor) -> Tensor:
        """The best action."""

    @abstractmethod
    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled action; torch's default generator unless given."""


class ActorCritic(Policy):
    """A policy and a value function.

    A subclass may override what it likes: whoever acts or scores asks the method that the most derived class
    defines (`find_most_derived`), which is that of the object itself where it has one.
    """

    _has_checked_values = False  # whether they were seen to, or to be constants

    @abstractmethod
    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Exploration for one rollout; all its randomness comes from `generator`."""

    def scoring_inputs(self, obs: Tensor) -> tuple[Tensor, ActorCritic]:
        """What the sampler made of the rollout's rows `obs` `[T * N, obs_dim]`, and who scores that.

        Asked once, when the rollout is over; the rows and the policy itself unless a look at them is costly.
        """
        return obs, self

    @abstractmethod
    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of `actions`, entropy and value, each `[B]`."""

    def scored(self, obs: Tensor, actions: Tensor) -> Scored:
        """`evaluate_actions` without gradient, and the way back to the parameters."""
        return graph(lambda: self._evaluate_and_check(obs, actions), self.parameters())

    def _evaluate_and_check(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_prob, entropy, value = dispatch_evaluation(self, obs, actions)
        if not self._has_checked_values and log_prob.requires_grad:
            if not value.requires_grad:
                require_trainable_values(lambda: self.get_value(obs), log_prob, self)
            self._has_checked_values = True
        return log_prob, entropy, value

    @abstractmethod
    def get_value(self, obs: Tensor) -> Tensor:
        """V(obs), `[B]`."""

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled action."""
        return self.get_action_and_logprob(obs, generator)[0]

    @abstractmethod
    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """A sampled action and its log-probability `[B]`; torch's default generator unless given."""

    def get_action_value(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A sampled action, its log-probability and the value."""
        action, log_prob = self.get_action_and_logprob(obs, generator)
        return action, log_prob, self.get_value(obs)

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of `actions` and entropy, each `[B]`."""
        log_prob, entropy, _ = self.evaluate_actions(obs, actions)
        return log_prob, entropy


def find_most_derived(policy: object, *names: str) -> str:
    """Of methods the one that the most derived class defines, of those of one class the first.

    What the object itself has comes before that of any class.
    """
    for namespace in (vars(policy), *map(vars, type(policy).__mro__)):
        for name in names:
            if name in namespace:
                return name
    raise AttributeError(f"{type(policy).__name__} has none of {', '.join(names)}")


def dispatch_evaluation(policy: ActorCritic, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability, entropy and value, each `[B]`, by the method that the most derived class defines."""
    if find_most_derived(policy, "evaluate_actions", "get_logprob_and_entropy") == "evaluate_actions":
        return policy.evaluate_actions(obs, actions)
    return *policy.get_logprob_and_entropy(obs, actions), policy.get_value(obs)


def _with_cloned_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, called with copies of the tensors that it is called with."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(
            *map(_clone_tensor, args), **{name: _clone_tensor(value) for name, value in kwargs.items()}
        )

    return call


def _with_cloned_rows(sampler: Callable[..., Sampler]) -> Callable[..., Sampler]:
    """The method `sampler`, what it returns is called with copies."""

    @wraps(sampler)
    def call(*args: Any, **kwargs: Any) -> Sampler:
        return _with_cloned_arguments(sampler(*args, **kwargs))

    return call


def _clone_tensor(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class NoiseBlocks:
    """Exploration noise for steps 0, 1, 2, ... `[n_envs, *shape]`, drawn a block of steps at a time."""

    def __init__(
        self,
        draw: Callable[[tuple[int, ...]], Tensor],
        n_steps: int,
        shape: tuple[int, ...],
    ) -> None:
        self._draw = draw
        self._shape = shape
        row = 1
        for size in shape:
            row *= size
        self._length = max(1, min(n_steps, NOISE_BLOCK // max(row, 1)))
        self._rows: tuple[Tensor, ...] = ()

    def __getitem__(self, t: int) -> Tensor:
        row = t % self._length
        if row == 0:
            self._rows = self._draw((self._length, *self._shape)).unbind(0)
        return self._rows[row]
