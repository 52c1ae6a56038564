"""Gradient steps as they are usually written in torch: autograd, fused Adam, optionally `torch.compile`.

`torch.compile` compiles the losses, and so their backward pass; optimizers are one call in both cases. Update
rules and constants are those of rlox's algorithms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.case import Results
from harness.network_work import LOG_STD, Array, Sizes, networks, shapes
from harness.timing import LocalRunner

LEARNING_RATE, EPS = 1e-4, 1e-5
CLIP, VF_COEF, ENT_COEF, MAX_NORM = 0.2, 0.5, 0.01, 0.5
TAU, SMOOTHING, NOISE_CLIP, DELAY = 0.005, 0.2, 0.5, 2
Net = list[Tensor]
Loss = Callable[..., Tensor]
Wrap = Callable[[Loss], Loss]


def split(flat: Tensor, nets: Sequence[Sequence[int]]) -> list[Net]:
    """Return the weights and biases of each network, as separate leaves."""
    networks_arrays, start = [], 0
    for net in nets:
        networks_arrays.append(list[Tensor]())
        for shape in shapes(net):
            end = start + math.prod(shape)
            networks_arrays[-1].append(flat[start:end].clone().view(shape).requires_grad_())
            start = end
    return networks_arrays


def all_arrays(nets: Sequence[Net]) -> Net:
    """Return all arrays of several networks."""
    return list(chain.from_iterable(nets))


def forward(net: Net, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a network's outputs, `[n, outputs]`."""
    for i in range(0, len(net) - 2, 2):
        x = activation(F.linear(x, net[i], net[i + 1]))
    return F.linear(x, net[-2], net[-1])


def evaluate_actions(actor: Net, critic: Net, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log pi(a | o), entropies and values, `[n]` each."""
    logs = F.log_softmax(forward(actor, obs, torch.tanh), -1)
    values = forward(critic, obs, torch.tanh).squeeze(-1)
    return logs.gather(1, actions.unsqueeze(1)).squeeze(1), -(logs.exp() * logs).sum(-1), values


def ppo_loss(actor: Net, critic: Net, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the clipped surrogate of standardised advantages (Schulman et al. 2017, eq. 7 and 9)."""
    log_probs, entropy, values = evaluate_actions(actor, critic, batch["obs"], batch["actions"])
    advantages = batch["advantages"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (log_probs - batch["log_probs"]).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    policy = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    return policy + VF_COEF * F.mse_loss(values, batch["returns"]) - ENT_COEF * entropy.mean()


def a2c_loss(actor: Net, critic: Net, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the actor-critic loss (Mnih et al. 2016, sec. 4)."""
    log_probs, entropy, values = evaluate_actions(actor, critic, batch["obs"], batch["actions"])
    policy = -(log_probs * batch["advantages"]).mean()
    return policy + VF_COEF * F.mse_loss(values, batch["returns"]) - ENT_COEF * entropy.mean()


def dqn_loss(net: Net, target: Net, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the Huber loss of the TD errors (Mnih et al. 2015)."""
    next_values = forward(target, batch["next_obs"], torch.relu).amax(-1)
    td_targets = batch["rewards"] + batch["discounts"] * next_values
    q_values = forward(net, batch["obs"], torch.relu).gather(1, batch["actions"].unsqueeze(1)).squeeze(1)
    return F.smooth_l1_loss(q_values, td_targets)


def critic_loss(net: Net, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the squared errors of the values; a row has the observation and the action side by side."""
    return F.mse_loss(forward(net, batch["obs"], torch.relu).squeeze(-1), batch["goals"])


def squashed_gaussian(actor: Net, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return tanh of a normal action, and its log-probability `[n]` (Haarnoja et al. 2018, app. C)."""
    mean, log_std = forward(actor, obs, torch.relu).chunk(2, -1)
    log_std = log_std.clamp(-20, 2)
    raw = mean + log_std.exp() * noise
    normal = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
    log_det = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    return raw.tanh(), (normal - log_det).sum(-1)


def q_value(critic: Net, obs: Tensor, actions: Tensor) -> Tensor:
    """Return Q of observations and actions, `[n]`."""
    return forward(critic, torch.cat([obs, actions], -1), torch.relu).squeeze(-1)


def critics_loss(critics: list[Net], td_targets: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the squared errors of both critics."""
    q = [q_value(critic, batch["obs"], batch["vectors"]) for critic in critics]
    return F.mse_loss(q[0], td_targets) + F.mse_loss(q[1], td_targets)


def min_q_value(critics: list[Net], obs: Tensor, actions: Tensor) -> Tensor:
    """Return the lower value of both critics."""
    return torch.minimum(*(q_value(critic, obs, actions) for critic in critics))


def sac_critics_loss(
    critics: list[Net], targets: list[Net], actor: Net, alpha: Tensor, batch: Mapping[str, Tensor]
) -> Tensor:
    """Return the loss for targets r + discount (min Q' - alpha log pi)."""
    with torch.no_grad():
        actions, log_prob = squashed_gaussian(actor, batch["next_obs"], batch["noise"])
        next_values = min_q_value(targets, batch["next_obs"], actions) - alpha * log_prob
        td_targets = batch["rewards"] + batch["discounts"] * next_values
    return 0.5 * critics_loss(critics, td_targets, batch)


def sac_actor_loss(actor: Net, critics: list[Net], alpha: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Return E[alpha log pi - min Q]."""
    actions, log_prob = squashed_gaussian(actor, batch["obs"], batch["noise"])
    return (alpha * log_prob - min_q_value(critics, batch["obs"], actions)).mean()


def td3_critics_loss(
    critics: list[Net], targets: list[Net], actor: Net, batch: Mapping[str, Tensor]
) -> Tensor:
    """Return the loss for targets r + discount min Q' of a smoothed action (Fujimoto et al. 2018, algorithm
    1).
    """
    with torch.no_grad():
        noise = (SMOOTHING * batch["noise"]).clamp(-NOISE_CLIP, NOISE_CLIP)
        actions = (forward(actor, batch["next_obs"], torch.relu).tanh() + noise).clamp(-1, 1)
        td_targets = batch["rewards"] + batch["discounts"] * min_q_value(targets, batch["next_obs"], actions)
    return critics_loss(critics, td_targets, batch)


def td3_actor_loss(actor: Net, critic: Net, batch: Mapping[str, Tensor]) -> Tensor:
    """Return -E[Q]."""
    actions = forward(actor, batch["obs"], torch.relu).tanh()
    return -q_value(critic, batch["obs"], actions).mean()


class Steps:
    """Parameters, a batch and optimizers: everything that a step of one kind of work needs."""

    def __init__(self, work: str, sizes: Sizes, arrays: Mapping[str, Array], wrap: Wrap) -> None:
        nets = networks(work, sizes)
        parameters, target = (torch.from_numpy(arrays[name]) for name in ("parameters", "target"))
        if work == "act":
            parameters = parameters[sizes.outputs :]
        self.nets, self.targets = split(parameters, nets), split(target, nets)
        self.batch = {name: torch.from_numpy(column) for name, column in arrays.items()}
        self.batch["actions"] = self.batch["actions"].long()
        self.batch["vectors"] = self.batch["noise"].tanh()
        self.wrap, self.number = wrap, 0
        self.detached_nets = [[p.detach() for p in net] for net in self.nets]
        for parameter in all_arrays(self.targets):
            parameter.requires_grad_(False)
        self.step_once: Callable[[], object] = getattr(self, f"_{work}")()

    def result(self) -> Results:
        """Return the results of the first two kinds of work after one step."""
        got = self.step_once()
        flat = [p.detach().flatten() for p in all_arrays(self.nets)]
        return {"result": (got if isinstance(got, Tensor) else torch.cat(flat)).numpy().ravel()}

    def _make_step(
        self, loss: Loss, nets: list[Net], max_norm: float | None = None, use_rmsprop: bool = False
    ) -> Callable[..., None]:
        """Return a gradient step of `nets` on the loss of its arguments."""
        parameters, loss = all_arrays(nets), self.wrap(loss)
        if use_rmsprop:
            optimizer: Any = torch.optim.RMSprop(parameters, LEARNING_RATE, eps=EPS, foreach=True)
        else:
            optimizer = torch.optim.Adam(parameters, LEARNING_RATE, eps=EPS, fused=True)

        def step(*arguments: Any) -> None:
            loss(*arguments).backward()
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=True)
            optimizer.step()
            optimizer.zero_grad()

        return step

    def _ppo(self) -> Callable[[], object]:
        step = self._make_step(ppo_loss, self.nets, MAX_NORM)
        return lambda: step(*self.nets, self.batch)

    def _a2c(self) -> Callable[[], object]:
        step = self._make_step(a2c_loss, self.nets, MAX_NORM, use_rmsprop=True)
        return lambda: step(*self.nets, self.batch)

    def _dqn(self) -> Callable[[], object]:
        step = self._make_step(dqn_loss, self.nets)
        return lambda: step(self.nets[0], self.targets[0], self.batch)

    def _critic(self) -> Callable[[], object]:
        step = self._make_step(critic_loss, self.nets)
        return lambda: step(self.nets[0], self.batch)

    def _act(self) -> Callable[[], object]:
        actor, std = self.detached_nets[0], math.exp(LOG_STD)

        def sample_action(obs: Tensor, noise: Tensor) -> Tensor:
            mean = forward(actor, obs, torch.tanh)
            return (mean + std * noise).tanh()

        call = self.wrap(sample_action)
        return torch.no_grad()(lambda: call(self.batch["obs"], self.batch["noise"]))

    def _sac(self) -> Callable[[], object]:
        (actor, *critics), targets = self.nets, self.targets[1:]
        log_alpha = torch.zeros(1, requires_grad=True)
        step_critics = self._make_step(sac_critics_loss, critics)
        step_actor = self._make_step(sac_actor_loss, [actor])
        alpha_optimizer = torch.optim.Adam([log_alpha], LEARNING_RATE, fused=True)
        detached_critics = self.detached_nets[1:]

        def step() -> None:
            alpha = log_alpha.detach().exp()
            step_critics(critics, targets, self.detached_nets[0], alpha, self.batch)
            step_actor(actor, detached_critics, alpha, self.batch)
            log_alpha.grad = torch.ones(1)  # stands in for the entropy's distance from its target, one number
            alpha_optimizer.step()
            torch._foreach_lerp_(all_arrays(targets), all_arrays(detached_critics), TAU)

        return step

    def _td3(self) -> Callable[[], object]:
        (actor, *critics), targets = self.nets, self.targets
        step_critics = self._make_step(td3_critics_loss, critics)
        step_actor = self._make_step(td3_actor_loss, [actor])

        def step() -> None:
            self.number += 1
            step_critics(critics, targets[1:], targets[0], self.batch)
            if self.number % DELAY == 0:
                step_actor(actor, self.detached_nets[1], self.batch)
                torch._foreach_lerp_(all_arrays(targets), all_arrays(self.detached_nets), TAU)

        return step


def runner(work: str, sizes: Sizes, arrays: Mapping[str, Array], compiled: bool) -> LocalRunner:
    """Return a runner that repeats a step, in CPU seconds."""

    def wrap(loss: Loss) -> Loss:
        return torch.compile(loss, dynamic=False) if compiled else loss

    steps = Steps(work, sizes, arrays, wrap)
    return LocalRunner(steps.step_once, steps.result, time.process_time)


@lru_cache(1)
def can_compile() -> bool:
    """Return whether torch.compile works here, which needs a C++ compiler."""
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import InductorError

    try:
        torch.compile(torch.sin)(torch.ones(2))
    except (TorchDynamoException, InductorError, OSError, RuntimeError):
        return False
    return True


def products_runner(rows: int, width: int) -> LocalRunner:
    """Return a runner of a hidden layer's three products in torch's BLAS: forward, back to inputs, to
    weights.
    """
    x, weight = torch.full((rows, width), 0.5), torch.full((width, width), 0.25)
    y, to_x, to_weight = torch.empty_like(x), torch.empty_like(x), torch.empty_like(weight)

    def operation() -> None:
        torch.mm(x, weight.T, out=y)
        torch.mm(y, weight, out=to_x)
        torch.mm(y.T, x, out=to_weight)

    def answer() -> Results:
        operation()
        return {"result": np.ravel(y.numpy())}

    return LocalRunner(operation, answer, time.process_time)
