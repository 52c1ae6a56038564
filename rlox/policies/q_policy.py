"""Policies that act by action values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.devices import to_device
from rlox.networks import DuelingMLP, NoisyMLP, inference_function, mlp
from rlox.networks.noisy import apply_with_noise, factorized_noise, keyed_factorized_noise, noise_size
from rlox.policies.base import Policy
from rlox.policies.exploration_noise import EpsilonDraws, StepBlocks
from rlox.policies.value_distribution import ScalarValue, ValueDistribution

__all__ = ["EpsilonGreedy", "NoisyGreedy", "QPolicy"]


class QPolicy(Policy):
    """An MLP computes Q(s, a) of `n_actions` discrete actions; the policy takes the best action.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_actions : number of discrete actions
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    dueling : separate outputs for value and advantages
    epsilon : probability that `sample` takes a random action
    value_distribution : meaning of the network's outputs for an action; default: the expected return
    sigma : initial scale of the noise in all linear layers; None: no noise
    layer_norm : layer normalisation before each hidden activation, without `dueling` and `sigma`
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        net_arch: Sequence[int] = (64, 64),
        activation: str = "relu",
        dueling: bool = False,
        epsilon: float = 0.05,
        value_distribution: ValueDistribution | None = None,
        sigma: float | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.epsilon = epsilon
        self.value_distribution = value_distribution or ScalarValue()
        n_outputs = self.value_distribution.n_outputs
        sizes = (obs_dim, *net_arch, n_actions * (n_outputs or 1))
        self.q: nn.Module
        if dueling:
            self.q = DuelingMLP(obs_dim, n_actions, net_arch, activation, n_outputs, sigma)
        elif sigma is None:
            self.q = mlp(sizes, activation, layer_norm)
        else:
            self.q = NoisyMLP(sizes, activation, sigma)
        self.noise_size = noise_size(self.q)

    def outputs(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the network's outputs, `[..., n_actions]` or `[..., n_actions, n_outputs]`.

        `noise` `[noise_size]` are the noise factors of the noisy layers; None: no noise, only mean weights.
        """
        return self.reshape_outputs(apply_with_noise(self.q, obs, noise))

    def reshape_outputs(self, flat: Tensor) -> Tensor:
        """Reshape the network's outputs to `[..., n_actions]` or `[..., n_actions, n_outputs]`."""
        n_outputs = self.value_distribution.n_outputs
        return flat if n_outputs is None else torch.unflatten(flat, -1, (self.n_actions, n_outputs))

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values `[..., n_actions]` for `obs` `[..., obs_dim]`."""
        return self.q_values(self.outputs(obs, noise), obs)

    def q_values(self, outputs: Tensor, obs: Tensor) -> Tensor:
        """Return the Q-values `[..., n_actions]` of the `outputs` for `obs`."""
        return self.value_distribution.values(outputs)

    def inference_values(self) -> Callable[[Tensor], Tensor]:
        """Return a function for many small calls; it computes the Q-values without noise and gradients."""
        if isinstance(self.value_distribution, ScalarValue) and not self.noise_size:
            return inference_function(self.q)  # the network's own outputs
        return self

    def get_value(self, obs: Tensor) -> Tensor:
        """Return max_a Q(obs, a), `[B]`, without noise."""
        values: Tensor = self(obs).amax(-1)
        return values

    def mode(self, obs: Tensor) -> Tensor:
        """Return the best action `[B]`, without noise."""
        actions: Tensor = self(obs).argmax(-1)
        return actions

    def random_actions(self, obs: Tensor, u: Tensor) -> Tensor:
        """Return the action `[B]` that each uniform number of `u` `[B]`, from 0 to 1, chooses."""
        return (u * self.n_actions).long()

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the best action `[B]`, or with probability `epsilon` a random one.

        With noisy layers it is always the best action, under new noise.
        """
        if self.noise_size:
            # noise has the dtype of the parameters, not of the observations: images are uint8
            noise = factorized_noise((self.noise_size,), generator).to(next(self.q.parameters()))
            noisy_actions: Tensor = self(obs, noise).argmax(-1)
            return noisy_actions
        greedy = self.mode(obs)
        u = torch.rand((2, *greedy.shape), generator=generator, device=greedy.device)
        return torch.where(u[0] < self.epsilon, self.random_actions(obs, u[1]), greedy)


class EpsilonGreedy(EpsilonDraws):
    """Explores with a `QPolicy`: the best action, or with probability epsilon a random one.

    Parameters
    ----------
    policy : computes the values
    n_envs : number of environments
    epsilon : function from the elapsed fraction of the run, 0 to 1, to the probability of exploring
    seed : seed of the run; the draws of step t come from the stream "explore"
    device : device of the policy
    """

    def __init__(
        self,
        policy: QPolicy,
        n_envs: int,
        epsilon: Callable[[float], float],
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__(policy.n_actions, n_envs, epsilon, seed)
        self._device = device
        self._values = policy.inference_values()

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Return actions `[N]` for `obs` `[N, obs_dim]`, without gradients."""
        random_actions = self.random_actions(step, obs)
        is_random = self._draws[step][0] < self.epsilon(elapsed)
        if is_random.all():
            return random_actions
        obs_tensor = torch.from_numpy(obs).to(self._device)
        greedy: NDArray[np.int64] = self._values(obs_tensor).argmax(-1).cpu().numpy()
        return np.where(is_random, random_actions, greedy) if is_random.any() else greedy


class NoisyGreedy:
    """Explores with the noisy layers of a `QPolicy`: the best action under the noise of this step.

    In one step all environments have the same noise; each step has new noise.

    Parameters
    ----------
    policy : computes the values
    warm_up : chooses the actions before anything is learned
    seed : seed of the run; the noise of step t comes from the stream "noise-acting"
    device : device of the policy
    """

    def __init__(self, policy: QPolicy, warm_up: EpsilonGreedy, seed: int, device: torch.device) -> None:
        self.policy = policy
        self._warm_up = warm_up
        self._seed = seed
        self._device = device
        self._noise = StepBlocks(self._draw, policy.noise_size)

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return uniformly random actions `[N]`."""
        return self._warm_up.random_actions(step, obs)

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Return actions `[N]` for `obs` `[N, obs_dim]`, without gradients."""
        obs_tensor = torch.from_numpy(obs).to(self._device)
        actions: NDArray[np.int64] = self.policy(obs_tensor, self._noise[step]).argmax(-1).cpu().numpy()
        return actions

    def _draw(self, block: int, rows: int) -> tuple[Tensor, ...]:
        shape = (rows, self.policy.noise_size)
        noise = keyed_factorized_noise(self._seed, "noise-acting", block, shape)
        return to_device(noise, self._device).unbind(0)
