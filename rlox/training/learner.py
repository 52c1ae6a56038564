"""What learners have in common: the state they keep, the noise they draw, the batches they go through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from rlox.devices import to_device
from rlox.optim import Optimizer, TargetNetwork
from rlox.rng import Streams
from rlox.training.finite import require_finite
from rlox.training.replay_update import Stateful, build_update, update_noise
from rlox.types import Transitions, Update

__all__ = [
    "ActorCriticLearner",
    "NoiseFunction",
    "PolicyLearner",
    "UpdateNoise",
    "cast_obs",
    "copy_weights",
    "learn_each",
    "to_tensors",
]

# Standard normal numbers of an update, by its number: in a shape, of the kind of a tensor.
NoiseFunction = Callable[[int, tuple[int, ...], Tensor], Tensor]

P = TypeVar("P", bound=nn.Module)


class PolicyLearner(Generic[P]):
    """A policy and the optimizer of all its parameters, which are the state of a learner."""

    def __init__(self, policy: P, optimizer: Optimizer) -> None:
        self.policy = policy
        self.optimizer = optimizer

    def state(self) -> dict[str, Any]:
        """Copies of the weights and optimizer moments, by parameter name."""
        return {"weights": copy_weights(self.policy), "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones."""
        self.policy.load_state_dict(to_tensors(weights))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(to_tensors(state["weights"]))
        self.optimizer.restore(state["optimizer"])


class ActorCriticLearner(Generic[P]):
    """A policy with `parts` by name, of which `targets` begin as the networks do that they follow."""

    def __init__(
        self, policy: P, parts: Mapping[str, Stateful], targets: Sequence[TargetNetwork[Any]]
    ) -> None:
        self.policy = policy
        self._parts, self._targets = parts, targets

    def state(self) -> dict[str, Any]:
        """Copies of the weights, and the state of every part."""
        part_states = {name: part.state() for name, part in self._parts.items()}
        return {"weights": copy_weights(self.policy), "optimizer": part_states}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones, the targets too."""
        self.policy.load_state_dict(to_tensors(weights))
        for target in self._targets:
            target.copy_online()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(to_tensors(state["weights"]))
        for name, part in self._parts.items():
            part.restore(state["optimizer"][name])


def to_tensors(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights as torch takes them; a native learner's are arrays."""
    return {name: torch.as_tensor(value) for name, value in weights.items()}


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers by name, apart from those that go on changing."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


class UpdateNoise:
    """Standard normal numbers that are a function of the run's seed and the update's number."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __call__(self, update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Those of an update, of the dtype and on the device of `like`."""
        noise = torch.from_numpy(update_noise(self._streams.seed, update, shape))
        return to_device(noise.to(like.dtype), like.device)


def cast_obs(obs: Tensor, like: Tensor) -> Tensor:
    """Observations in the numbers of the networks, as `like`; bytes, which encoders read, as they are."""
    return obs.to(like) if obs.is_floating_point() else obs


def learn_each(
    batch: Transitions,
    step: Callable[[int], tuple[Tensor, Tensor]],
    names: Sequence[str],
    update_label: str,
) -> Update:
    """Learn from one batch after the other.

    `step(i)` learns from batch i; it returns its numbers, called `names`, and an error of each row
    `[B]`, whose size becomes the row's priority where rows have one (also of a divergence, which
    rounding takes below 0). `update_label` is what a message says.
    """
    rows, errors = zip(*(step(i) for i in range(len(batch))), strict=True)
    metrics_table = torch.stack(rows)
    require_finite(metrics_table, names, update_label)
    metrics = dict(zip(names, metrics_table.mean(0).tolist(), strict=True))
    all_errors = None if batch.weights is None else torch.stack(errors).cpu().numpy()
    return build_update(batch, metrics, all_errors)
