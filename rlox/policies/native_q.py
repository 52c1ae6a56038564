"""Action values as the native engine knows them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlox._core import DQNEngine, Explorer, ReplayIteration
from rlox.networks import DuelingMLP
from rlox.optim import FlatParameters
from rlox.policies.engine import refused
from rlox.policies.plain import Plain
from rlox.policies.q import QPolicy
from rlox.policies.returns import Expectation

__all__ = ["NativeQ"]

ASKED = ("said", "by_choice", "trace", "forward", "worth")


class NativeQ:
    """The engine of a `QPolicy` of vectors, over the vector of its parameters.

    Raises ConfigError for any other policy, for noisy layers, distributions and masks, and for what `Plain`
    refuses, all of which torch learns from.

    Attributes
    ----------
    engine : learns
    learns : what a training asks: the engine, or what collects before it hands on to it
    explorer : acts
    """

    def __init__(self, policy: QPolicy, flat: FlatParameters) -> None:
        if type(policy) is not QPolicy:
            raise refused(
                f"a {type(policy).__name__}, not the built-in one of vectors without masks"
            )
        if policy.noise_size or not isinstance(policy.returns, Expectation):
            raise refused("one of noisy layers or of distributions")
        net = policy.q
        nets: tuple[nn.Module, ...] = (net,)
        if dueling := isinstance(net, DuelingMLP):
            nets = (net.shared, net.value, net.advantage)
        if not all(type(part) is nn.Sequential for part in nets):
            raise refused(f"one with a {type(net).__name__}, not a network of vectors")
        self._flat = flat
        self._plain = plain = Plain(policy, nets, ASKED, flat)
        shared, ends = plain.linear[0] if dueling else [], plain.linear[-1]
        layers = [*shared, *ends]
        self.engine = DQNEngine(
            plain.named,
            size=layers[-1].out_features,
            obs_dim=layers[0].in_features,
            hidden=[layer.out_features for layer in layers[:-1]],
            activation=plain.activation,
            dueling=dueling,
        )
        self.learns: DQNEngine | ReplayIteration = self.engine
        self.explorer = Explorer(self.engine)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters, which torch's modules have views of."""
        vector: NDArray[np.float32] = self._flat.vector.numpy()
        return vector

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over."""
        self._plain.check()
