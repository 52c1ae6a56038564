"""Shared parts of torch learners: state, noise, loop over batches, coefficients, the check for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from rlox.devices import to_device
from rlox.errors import NonFiniteError
from rlox.losses import temperature_loss
from rlox.optim import Adam, Optimizer, TargetNetwork
from rlox.rng import Streams, update_noise
from rlox.training.loop import Stateful
from rlox.types import Transitions, Update, build_update

__all__ = [
    "ActorCriticLearner",
    "FixedCoefficient",
    "LearnedCoefficient",
    "NoiseFunction",
    "PolicyLearner",
    "Temperature",
    "UpdateNoise",
    "cast_obs",
    "learn_each",
    "make_temperature",
    "require_finite",
    "require_finite_parameters",
    "to_tensors",
]


def require_finite(metrics: Tensor, names: Sequence[str], update_label: str) -> None:
    """Raise `NonFiniteError` naming the first non-finite entry of `metrics` `[minibatches, names]`."""
    if _is_surely_finite(metrics):
        return
    bad = torch.nonzero(~torch.isfinite(metrics))
    if len(bad):
        row, column = bad[0].tolist()
        raise NonFiniteError(
            f"{names[column]} is {metrics[row, column].item()} in minibatch {row} of the {update_label}; "
            "lower algo.learning_rate or algo.max_grad_norm, or check the rewards"
        )


def require_finite_parameters(module: nn.Module, vector: Tensor, update_label: str) -> None:
    """Raise `NonFiniteError` naming the first parameter of `module` that is not finite.

    `vector` is the flat vector of the parameters; if its sum is finite, nothing else is checked.
    """
    if _is_surely_finite(vector):
        return
    for name, parameter in module.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NonFiniteError(
                f"parameter {name} is not finite after the {update_label}; "
                "lower algo.learning_rate or algo.max_grad_norm"
            )


def _is_surely_finite(values: Tensor) -> bool:
    """Whether the sum is finite, so that all values must be; takes a third of the time of `isfinite`.

    False if any value is not finite, or if the sum overflows.
    """
    return math.isfinite(float(values.sum()))


# Maps an update's number, a shape and a tensor to standard normal numbers of the tensor's dtype and device.
NoiseFunction = Callable[[int, tuple[int, ...], Tensor], Tensor]

P = TypeVar("P", bound=nn.Module)


class PolicyLearner(Generic[P]):
    """A learner with a policy and one optimizer of all its parameters."""

    def __init__(self, policy: P, optimizer: Optimizer) -> None:
        self.policy = policy
        self.optimizer = optimizer

    def state(self) -> dict[str, Any]:
        """Return copies of the weights and optimizer moments, by parameter name."""
        return {"weights": _copy_weights(self.policy), "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Start from these weights instead of the initial ones."""
        self.policy.load_state_dict(to_tensors(weights))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(to_tensors(state["weights"]))
        self.optimizer.restore(state["optimizer"])


class ActorCriticLearner(Generic[P]):
    """A learner with a policy and target networks; `parts` are its other objects with a state, by name.

    These are optimizers, target networks and learned coefficients; a checkpoint saves them as `optimizer`.
    Target networks start as copies of the online networks.
    """

    def __init__(
        self, policy: P, parts: Mapping[str, Stateful], targets: Sequence[TargetNetwork[Any]]
    ) -> None:
        self.policy = policy
        self._parts, self._targets = parts, targets

    def state(self) -> dict[str, Any]:
        """Return copies of the weights, and the state of every part."""
        part_states = {name: part.state() for name, part in self._parts.items()}
        return {"weights": _copy_weights(self.policy), "optimizer": part_states}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Start from these weights instead of the initial ones; target networks copy them."""
        self.policy.load_state_dict(to_tensors(weights))
        for target in self._targets:
            target.copy_online()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(to_tensors(state["weights"]))
        for name, part in self._parts.items():
            part.restore(state["optimizer"][name])


def to_tensors(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Convert weights to tensors; a native learner's are arrays."""
    return {name: torch.as_tensor(value) for name, value in weights.items()}


def _copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the parameters and buffers by name."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


class UpdateNoise:
    """Standard normal numbers that are a function of the run's seed and the update's number."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __call__(self, update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return the noise of an update, with the dtype and device of `like`."""
        noise = torch.from_numpy(update_noise(self._streams.seed, update, shape))
        return to_device(noise.to(like.dtype), like.device)


def cast_obs(obs: Tensor, like: Tensor) -> Tensor:
    """Cast observations to the dtype and device of `like`; bytes, which encoders read, are unchanged."""
    return obs.to(like) if obs.is_floating_point() else obs


def learn_each(
    batch: Transitions,
    step: Callable[[int], tuple[Tensor, Tensor]],
    names: Sequence[str],
    update_label: str,
) -> Update:
    """Learn from each batch in turn.

    `step(i)` learns from batch i. It returns its metrics, in the order of `names`, and an error of each row,
    `[B]`. The absolute value of the error becomes the row's priority if the buffer is prioritized; rounding
    may make even an error that is a divergence (of distributions) negative. `update_label` names the update
    in messages.
    """
    # detached, so that the graph of a batch is freed before the next one
    results = [[tensor.detach() for tensor in step(i)] for i in range(len(batch))]
    rows, errors = zip(*results, strict=True)
    metrics_table = torch.stack(rows)
    require_finite(metrics_table, names, update_label)
    metrics = dict(zip(names, metrics_table.mean(0).tolist(), strict=True))
    all_errors = None if batch.weights is None else torch.stack(errors).cpu().numpy()
    return build_update(batch, metrics, all_errors)


class FixedCoefficient:
    """A positive constant."""

    def __init__(self, alpha: float, like: Tensor) -> None:
        self._alpha = torch.full((), alpha, dtype=like.dtype, device=like.device)

    @property
    def alpha(self) -> Tensor:
        """The current value, without gradient."""
        return self._alpha

    def state(self) -> dict[str, Any]:
        """Return an empty state: nothing changes."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


class LearnedCoefficient(FixedCoefficient):
    """A coefficient whose logarithm Adam learns."""

    def __init__(self, alpha: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, like)
        log = torch.full((), math.log(alpha), dtype=like.dtype, device=like.device)
        self._module = nn.ParameterDict({"log": nn.Parameter(log)})
        self.optimizer = Adam(self._module, lr, eps=1e-8)

    @property
    def log_alpha(self) -> Tensor:
        """The learned logarithm, a parameter."""
        log: Tensor = self._module["log"]
        return log

    @property
    def alpha(self) -> Tensor:
        """The exponential of the learned logarithm, without gradient."""
        return self.log_alpha.detach().exp()

    def minimize(self, loss: Tensor, lr: float) -> Tensor:
        """Take one step down the gradient of `loss` with respect to the logarithm; return the loss."""
        self.optimizer.lr = lr
        self.optimizer.minimize(loss, None)
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """Return copies of log alpha and of its optimizer's moments."""
        return {"log": self.log_alpha.detach().clone(), "adam": self.optimizer.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._module.load_state_dict({"log": torch.as_tensor(state["log"])})
        self.optimizer.restore(state["adam"])


class Temperature(FixedCoefficient):
    """A fixed weight of the entropy in the reward."""

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """Learn nothing and return a loss of 0."""
        return torch.zeros_like(self._alpha)


class LearnedTemperature(LearnedCoefficient, Temperature):
    """A temperature that moves the policy's entropy to `target_entropy` (Haarnoja et al. 2018, section 5)."""

    def __init__(self, alpha: float, target_entropy: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, lr, like)
        self.target_entropy = target_entropy

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """Take one step for log-probabilities `[B]` of the policy's actions; return the loss before it."""
        return self.minimize(temperature_loss(self.log_alpha, log_prob, self.target_entropy), lr)


def make_temperature(
    coefficient: tuple[bool, float], target_entropy: float, lr: float, like: Tensor
) -> Temperature:
    """Make the temperature of a configuration, whose `coefficient` is (whether it is learned, its start).

    `lr` is its step size. `like` has its dtype and device.
    """
    is_learned, alpha = coefficient
    return LearnedTemperature(alpha, target_entropy, lr, like) if is_learned else Temperature(alpha, like)
