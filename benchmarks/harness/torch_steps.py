"""Steps of learning as one writes them in torch: autograd, fused Adam, and `torch.compile` if it is wanted.

What is compiled are the losses, and with them the way back; optimizers have one call either way. Rules and
constants are those of rlox's algorithms.
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
    """Weights and biases of each network, leaves of their own."""
    made, start = [], 0
    for net in nets:
        made.append(list[Tensor]())
        for shape in shapes(net):
            end = start + math.prod(shape)
            made[-1].append(flat[start:end].clone().view(shape).requires_grad_())
            start = end
    return made


def every(nets: Sequence[Net]) -> Net:
    """All arrays of several networks."""
    return list(chain.from_iterable(nets))


def forward(net: Net, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """What a network says, `[n, outputs]`."""
    for i in range(0, len(net) - 2, 2):
        x = activation(F.linear(x, net[i], net[i + 1]))
    return F.linear(x, net[-2], net[-1])


def said(actor: Net, critic: Net, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log pi(a | o), entropies and values, `[n]` each."""
    logs = F.log_softmax(forward(actor, obs, torch.tanh), -1)
    values = forward(critic, obs, torch.tanh).squeeze(-1)
    return logs.gather(1, actions.unsqueeze(1)).squeeze(1), -(logs.exp() * logs).sum(-1), values


def ppo_loss(actor: Net, critic: Net, of: Mapping[str, Tensor]) -> Tensor:
    """The clipped surrogate of standardized advantages (Schulman et al. 2017, eq. 7 and 9)."""
    log_probs, entropy, values = said(actor, critic, of["obs"], of["actions"])
    advantages = of["advantages"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (log_probs - of["log_probs"]).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    policy = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    return policy + VF_COEF * F.mse_loss(values, of["returns"]) - ENT_COEF * entropy.mean()


def a2c_loss(actor: Net, critic: Net, of: Mapping[str, Tensor]) -> Tensor:
    """The actor-critic's (Mnih et al. 2016, sec. 4)."""
    log_probs, entropy, values = said(actor, critic, of["obs"], of["actions"])
    policy = -(log_probs * of["advantages"]).mean()
    return policy + VF_COEF * F.mse_loss(values, of["returns"]) - ENT_COEF * entropy.mean()


def dqn_loss(net: Net, target: Net, of: Mapping[str, Tensor]) -> Tensor:
    """Huber's of the temporal differences (Mnih et al. 2015)."""
    best = forward(target, of["next_obs"], torch.relu).amax(-1)
    goals = of["rewards"] + of["discounts"] * best
    chosen = forward(net, of["obs"], torch.relu).gather(1, of["actions"].unsqueeze(1)).squeeze(1)
    return F.smooth_l1_loss(chosen, goals)


def critic_loss(net: Net, of: Mapping[str, Tensor]) -> Tensor:
    """Squared errors of the values of pairs, which stand in one row."""
    return F.mse_loss(forward(net, of["obs"], torch.relu).squeeze(-1), of["goals"])


def squashed(actor: Net, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """tanh of a normal action, and its log-probability `[n]` (Haarnoja et al. 2018, app. C)."""
    mean, log_std = forward(actor, obs, torch.relu).chunk(2, -1)
    log_std = log_std.clamp(-20, 2)
    raw = mean + log_std.exp() * noise
    normal = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
    slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    return raw.tanh(), (normal - slope).sum(-1)


def value(critic: Net, obs: Tensor, actions: Tensor) -> Tensor:
    """Q of pairs, `[n]`."""
    return forward(critic, torch.cat([obs, actions], -1), torch.relu).squeeze(-1)


def critics_loss(critics: list[Net], goals: Tensor, of: Mapping[str, Tensor]) -> Tensor:
    """Squared errors of both."""
    q = [value(critic, of["obs"], of["vectors"]) for critic in critics]
    return F.mse_loss(q[0], goals) + F.mse_loss(q[1], goals)


def lowest(critics: list[Net], obs: Tensor, actions: Tensor) -> Tensor:
    """The lower value of both."""
    return torch.minimum(*(value(critic, obs, actions) for critic in critics))


def sac_critics_loss(
    critics: list[Net], targets: list[Net], actor: Net, alpha: Tensor, of: Mapping[str, Tensor]
) -> Tensor:
    """Towards r + discount (min Q' - alpha log pi)."""
    with torch.no_grad():
        actions, log_prob = squashed(actor, of["next_obs"], of["noise"])
        ahead = lowest(targets, of["next_obs"], actions) - alpha * log_prob
        goals = of["rewards"] + of["discounts"] * ahead
    return 0.5 * critics_loss(critics, goals, of)


def sac_actor_loss(
    actor: Net, critics: list[Net], alpha: Tensor, of: Mapping[str, Tensor]
) -> Tensor:
    """E[alpha log pi - min Q]."""
    actions, log_prob = squashed(actor, of["obs"], of["noise"])
    return (alpha * log_prob - lowest(critics, of["obs"], actions)).mean()


def td3_critics_loss(
    critics: list[Net], targets: list[Net], actor: Net, of: Mapping[str, Tensor]
) -> Tensor:
    """Towards r + discount min Q' of a smoothed action (Fujimoto et al. 2018, algorithm 1)."""
    with torch.no_grad():
        blur = (SMOOTHING * of["noise"]).clamp(-NOISE_CLIP, NOISE_CLIP)
        actions = (forward(actor, of["next_obs"], torch.relu).tanh() + blur).clamp(-1, 1)
        goals = of["rewards"] + of["discounts"] * lowest(targets, of["next_obs"], actions)
    return critics_loss(critics, goals, of)


def td3_actor_loss(actor: Net, critic: Net, of: Mapping[str, Tensor]) -> Tensor:
    """-E[Q]."""
    actions = forward(actor, of["obs"], torch.relu).tanh()
    return -value(critic, of["obs"], actions).mean()


class Steps:
    """Parameters, a batch, optimizers: everything that a step of one kind of work needs."""

    def __init__(self, work: str, sizes: Sizes, given: Mapping[str, Array], wrap: Wrap) -> None:
        nets = networks(work, sizes)
        own, target = (torch.from_numpy(given[name]) for name in ("parameters", "target"))
        if work == "act":
            own = own[sizes.outputs :]
        self.nets, self.targets = split(own, nets), split(target, nets)
        self.of = {name: torch.from_numpy(column) for name, column in given.items()}
        self.of["actions"] = self.of["actions"].long()
        self.of["vectors"] = self.of["noise"].tanh()
        self.wrap, self.number = wrap, 0
        self.frozen = [[p.detach() for p in net] for net in self.nets]
        for parameter in every(self.targets):
            parameter.requires_grad_(False)
        self.once: Callable[[], object] = getattr(self, f"_{work}")()

    def result(self) -> Results:
        """What the first two kinds of work give, after they were done once."""
        got = self.once()
        flat = [p.detach().flatten() for p in every(self.nets)]
        return {"result": (got if isinstance(got, Tensor) else torch.cat(flat)).numpy().ravel()}

    def _learn(
        self, loss: Loss, nets: list[Net], most: float | None = None, rms: bool = False
    ) -> Callable[..., None]:
        """A step of `nets` along the gradient of what the loss says of its arguments."""
        own, loss = every(nets), self.wrap(loss)
        if rms:
            optimizer: Any = torch.optim.RMSprop(own, LEARNING_RATE, eps=EPS, foreach=True)
        else:
            optimizer = torch.optim.Adam(own, LEARNING_RATE, eps=EPS, fused=True)

        def step(*arguments: Any) -> None:
            loss(*arguments).backward()
            if most is not None:
                torch.nn.utils.clip_grad_norm_(own, most, foreach=True)
            optimizer.step()
            optimizer.zero_grad()

        return step

    def _ppo(self) -> Callable[[], object]:
        step = self._learn(ppo_loss, self.nets, MAX_NORM)
        return lambda: step(*self.nets, self.of)

    def _a2c(self) -> Callable[[], object]:
        step = self._learn(a2c_loss, self.nets, MAX_NORM, rms=True)
        return lambda: step(*self.nets, self.of)

    def _dqn(self) -> Callable[[], object]:
        step = self._learn(dqn_loss, self.nets)
        return lambda: step(self.nets[0], self.targets[0], self.of)

    def _critic(self) -> Callable[[], object]:
        step = self._learn(critic_loss, self.nets)
        return lambda: step(self.nets[0], self.of)

    def _act(self) -> Callable[[], object]:
        actor, std = self.frozen[0], math.exp(LOG_STD)

        def drawn(obs: Tensor, noise: Tensor) -> Tensor:
            mean = forward(actor, obs, torch.tanh)
            return (mean + std * noise).tanh()

        call = self.wrap(drawn)
        return torch.no_grad()(lambda: call(self.of["obs"], self.of["noise"]))

    def _sac(self) -> Callable[[], object]:
        (actor, *critics), targets = self.nets, self.targets[1:]
        log_alpha = torch.zeros(1, requires_grad=True)
        improve = self._learn(sac_critics_loss, critics)
        act = self._learn(sac_actor_loss, [actor])
        warm = torch.optim.Adam([log_alpha], LEARNING_RATE, fused=True)
        fixed = self.frozen[1:]

        def once() -> None:
            alpha = log_alpha.detach().exp()
            improve(critics, targets, self.frozen[0], alpha, self.of)
            act(actor, fixed, alpha, self.of)
            log_alpha.grad = torch.ones(
                1
            )  # as large as the entropy is off; its product is of one number
            warm.step()
            torch._foreach_lerp_(every(targets), every(fixed), TAU)

        return once

    def _td3(self) -> Callable[[], object]:
        (actor, *critics), targets = self.nets, self.targets
        improve = self._learn(td3_critics_loss, critics)
        act = self._learn(td3_actor_loss, [actor])

        def once() -> None:
            self.number += 1
            improve(critics, targets[1:], targets[0], self.of)
            if self.number % DELAY == 0:
                act(actor, self.frozen[1], self.of)
                torch._foreach_lerp_(every(targets), every(self.frozen), TAU)

        return once


def runner(work: str, sizes: Sizes, given: Mapping[str, Array], compiled: bool) -> LocalRunner:
    """A step, again and again, in CPU seconds."""

    def wrap(loss: Loss) -> Loss:
        return torch.compile(loss, dynamic=False) if compiled else loss

    steps = Steps(work, sizes, given, wrap)
    return LocalRunner(steps.once, steps.result, time.process_time)


@lru_cache(1)
def compiles() -> bool:
    """Whether torch.compile works here, which needs a C++ compiler."""
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import InductorError

    try:
        torch.compile(torch.sin)(torch.ones(2))
    except (TorchDynamoException, InductorError, OSError, RuntimeError):
        return False
    return True


def plain_products(rows: int, width: int) -> LocalRunner:
    """A hidden layer's three products through torch's BLAS: forward, and back to inputs and weights."""
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
