"""The interface of policies: exploration, evaluation of past actions, and the best actions.

While collecting, only the policy network runs at each step, not the value network. The exploration noise of
a whole rollout is drawn in advance. Log-probabilities and values ("scores" in this package) are computed
afterwards in one batch over the rollout. The parameters do not change before that, so the results are those
of a computation at each step. A shared encoder does not process images twice: the features of each step are
kept and used again for the scores. Features of a larger batch could differ from them in the last bits.
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

from rlox.networks.gradients import require_gradient, require_trainable_values

__all__ = [
    "ACTING_METHODS",
    "ActorCritic",
    "Policy",
    "Sampler",
    "dispatch_evaluation",
    "evaluate_for_update",
    "evaluation_mode",
    "find_most_derived",
]

# Maps the observations `[N, obs_dim]` of rollout step t to action rows, `[N]` or `[N, act_dim]`; their format
# is described in `rlox.envs.actions`.
Sampler = Callable[[Tensor, int], Tensor]

# Methods of on-policy and off-policy policies whose arguments are rows of a rollout or a batch.
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
    "scoring_inputs",
    "value",
)

# Methods that can sample the actions of a rollout. rlox calls the method that the most derived class defines;
# if that class defines several, the first in this order.
ACTING_METHODS = ("sampler", "get_action_and_logprob", "sample", "get_action_value")

# Maximum number of random values in a block of noise.
NOISE_BLOCK = 1 << 20


@contextmanager
def evaluation_mode(policy: nn.Module) -> Iterator[None]:
    """Run a block with `policy` in evaluation mode: dropout off, batch statistics frozen.

    Afterwards each submodule returns to its previous mode, which may differ between submodules.
    """
    attribute_dicts, scripted_modules = _training_modules(policy)
    try:
        for attributes in attribute_dicts:
            attributes["training"] = False
        for module in scripted_modules:
            module.training = False
        yield
    finally:
        for attributes in attribute_dicts:
            attributes["training"] = True
        for module in scripted_modules:
            module.training = True


def _training_modules(policy: nn.Module) -> tuple[list[dict[str, Any]], list[nn.Module]]:
    """Return the modules in training mode: attribute dicts of Python modules, and TorchScript modules.

    They are collected at each call, as `train()` may be called at any time. Attribute dicts are used because
    `modules()` and `nn.Module.__setattr__`, which looks for parameters, would take longer than computing an
    action.
    """
    attribute_dicts: list[dict[str, Any]] = []
    scripted_modules: list[nn.Module] = []  # from TorchScript: their flag is no Python attribute
    pending = [policy]
    for module in pending:
        attributes = module.__dict__
        if "training" not in attributes:
            if module.training:
                scripted_modules.append(module)
        elif attributes["training"]:
            attribute_dicts.append(attributes)
        if children := module._modules:
            pending += [part for part in children.values() if part is not None]
    return attribute_dicts, scripted_modules


class Policy(nn.Module, ABC):
    """The base class of policies. Shapes: obs `[B, obs_dim]`, actions `[B]` or `[B, act_dim]`.

    Methods that a class outside of rlox defines get copies of observations and actions, which they may modify
    (`obs /= 255`); the rollout or batch keeps the originals.
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
        """Return the best action."""

    @abstractmethod
    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action; `generator` defaults to torch's default generator."""


class ActorCritic(Policy):
    """A policy and a value function.

    A subclass may override any method. Of methods that can replace each other, callers use the one that the
    most derived class defines (`find_most_derived`). A method that is set on the object has precedence.
    """

    has_checked_values = False  # whether `evaluate_for_update` checked the gradient of the values

    @abstractmethod
    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return the function that samples the actions of one rollout; all randomness is from `generator`."""

    def scoring_inputs(self, obs: Tensor) -> tuple[Tensor, ActorCritic]:
        """Return the inputs and the policy that score the rollout's rows `obs` `[T * N, obs_dim]`.

        It is called once, at the end of the rollout. By default it returns `obs` and the policy itself. A
        policy with a costly encoder returns the encoder's features and the policy without its encoder.
        """
        return obs, self

    @abstractmethod
    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-probability of `actions`, the entropy and the value, each `[B]`."""

    @abstractmethod
    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action."""
        return self.get_action_and_logprob(obs, generator)[0]

    @abstractmethod
    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action; return it and its log-probability `[B]`.

        `generator` defaults to torch's default generator.
        """

    def get_action_value(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sample an action; return it, its log-probability and the value."""
        action, log_prob = self.get_action_and_logprob(obs, generator)
        return action, log_prob, self.get_value(obs)

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of `actions` and the entropy, each `[B]`."""
        log_prob, entropy, _ = self.evaluate_actions(obs, actions)
        return log_prob, entropy


def find_most_derived(policy: object, *names: str) -> str:
    """Return which of `names` the most derived class defines; if it defines several, the first of these.

    Attributes of the object itself come before those of any class.
    """
    for namespace in (vars(policy), *map(vars, type(policy).__mro__)):
        for name in names:
            if name in namespace:
                return name
    raise AttributeError(f"{type(policy).__name__} has none of {', '.join(names)}")


def dispatch_evaluation(policy: ActorCritic, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability, entropy and value, each `[B]`; call the method of the most derived class."""
    if find_most_derived(policy, "evaluate_actions", "get_logprob_and_entropy") == "evaluate_actions":
        return policy.evaluate_actions(obs, actions)
    return *policy.get_logprob_and_entropy(obs, actions), policy.get_value(obs)


def evaluate_for_update(policy: ActorCritic, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability, entropy and value, each `[B]`, for a loss; autograd must be on.

    `ConfigError` if the log-probability has no gradient. The first call also raises it if the value has none
    although it depends on parameters that nothing else trains.
    """
    log_prob, entropy, value = dispatch_evaluation(policy, obs, actions)
    require_gradient("the policy's log-probability has", log_prob)
    if not policy.has_checked_values:
        if not value.requires_grad:
            require_trainable_values(lambda: policy.get_value(obs), log_prob, policy)
        policy.has_checked_values = True
    return log_prob, entropy, value


def _with_cloned_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with its tensor arguments cloned."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(
            *map(_clone_tensor, args), **{name: _clone_tensor(value) for name, value in kwargs.items()}
        )

    return call


def _with_cloned_rows(sampler: Callable[..., Sampler]) -> Callable[..., Sampler]:
    """Wrap the method `sampler`: the function that it returns gets clones of its tensor arguments."""

    @wraps(sampler)
    def call(*args: Any, **kwargs: Any) -> Sampler:
        return _with_cloned_arguments(sampler(*args, **kwargs))

    return call


def _clone_tensor(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class NoiseBlocks:
    """Exploration noise of shape `shape` for the steps 0, 1, 2, ..., drawn for a block of steps at a time."""

    def __init__(
        self,
        draw: Callable[[tuple[int, ...]], Tensor],
        n_steps: int,
        shape: tuple[int, ...],
    ) -> None:
        self._draw = draw
        self._shape = shape
        numbers_per_step = 1
        for size in shape:
            numbers_per_step *= size
        self._steps_per_block = max(1, min(n_steps, NOISE_BLOCK // max(numbers_per_step, 1)))
        self._block: tuple[Tensor, ...] = ()

    def __getitem__(self, t: int) -> Tensor:
        row = t % self._steps_per_block
        if row == 0:
            self._block = self._draw((self._steps_per_block, *self._shape)).unbind(0)
        return self._block[row]
