"""Writes `golden.json`: results of torch, which every engine that implements the traits has to reproduce.

Inputs are rounded to float32, and results are computed in float64, so that the file is exact to the last
digit of float32. Losses are written out here from the papers, not taken from rlox. The lists of the file:

- `on_policy`: parameters by name, a minibatch, PPO's terms, PPO's gradient without standardized advantages,
  and the parameters after one step of Adam (standardized advantages, gradient clipped to norm 0.5, lr 1e-3,
  eps 1e-5);
- `values`: the Q-value of each choice; Huber and squared loss for the targets `goals`, with gradients;
- `deterministic`: actions (tanh of a network), and the gradient of sum(actions * slopes).

    python rust/rlox-nn/tests/torch/make.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
}
ROWS, OBS, WIDTH = 12, 3, 6
CLIP, VF, ENT = 0.2, 0.5, 0.01


def make_net(outputs: int, activation: str) -> nn.Sequential:
    """Return a network with two hidden layers."""
    act = ACTIVATIONS[activation]
    return nn.Sequential(
        nn.Linear(OBS, WIDTH), act(), nn.Linear(WIDTH, WIDTH), act(), nn.Linear(WIDTH, outputs)
    )


def draw_float32(*shape: int, scale: float = 1.0) -> Tensor:
    """Return normal numbers, rounded to float32."""
    return (scale * torch.randn(shape)).float().double()


def set_random_parameters(module: nn.Module) -> nn.Module:
    """Set the parameters of a module to numbers of `draw_float32`, and return the module in float64."""
    module.double()
    for parameter in module.parameters():
        parameter.data = draw_float32(*parameter.shape, scale=0.5)
    return module


def flat(tensor: Tensor) -> list[float]:
    """Return all numbers of a tensor with nine digits, which distinguish any two float32 numbers."""
    return [float(f"{x:.9g}") for x in tensor.detach().reshape(-1).tolist()]


def arrays(module: nn.Module, select: Callable[[Tensor], Tensor | None]) -> dict[str, list[float]]:
    """Return the numbers of `select(parameter)` by parameter name; leave out where it is None."""
    named = module.named_parameters()
    return {name: flat(select(p)) for name, p in named if select(p) is not None}


def ppo_terms(case: dict[str, Tensor], advantages: Tensor, clip_vloss: bool) -> dict[str, Tensor]:
    """Return the terms of PPO's loss (Schulman et al. 2017, equation 9), `approx_kl` and `clip_fraction`."""
    log_ratio = case["new_log_probs"] - case["log_probs"]
    ratio = log_ratio.exp()
    bound = ratio.clamp(1 - CLIP, 1 + CLIP)
    policy = -torch.minimum(ratio * advantages, bound * advantages).mean()
    errors = (case["new_values"] - case["returns"]) ** 2
    if clip_vloss:
        change = (case["new_values"] - case["values"]).clamp(-CLIP, CLIP)
        errors = torch.maximum(errors, (case["values"] + change - case["returns"]) ** 2)
    value, entropy = errors.mean(), case["entropy"].mean()
    return {
        "policy": policy,
        "value": value,
        "entropy": entropy,
        "total": policy + VF * value - ENT * entropy,
        "approx_kl": (ratio - 1 - log_ratio).mean(),
        "clip_fraction": ((ratio - 1).abs() > CLIP).double().mean(),
    }


def on_policy(kind: str, activation: str, clip_vloss: bool) -> dict[str, Any]:
    """Return an actor, a critic, and a minibatch in which about a quarter of the ratios is clipped."""
    outputs = 3 if kind == "choices" else 2
    module = nn.Module()
    if kind == "numbers":
        module.log_std = nn.Parameter(torch.zeros(outputs))
    module.actor, module.critic = make_net(outputs, activation), make_net(1, activation)
    set_random_parameters(module)
    before = arrays(module, lambda p: p)
    obs = draw_float32(ROWS, OBS)
    actions = torch.arange(ROWS) % 3 if kind == "choices" else draw_float32(ROWS, outputs)
    rollout = {"values": draw_float32(ROWS), "advantages": draw_float32(ROWS), "returns": draw_float32(ROWS)}

    def evaluate() -> dict[str, Tensor]:
        out = module.actor(obs)
        if kind == "choices":
            distribution: torch.distributions.Distribution = torch.distributions.Categorical(logits=out)
            scores = distribution.log_prob(actions), distribution.entropy()
        else:
            distribution = torch.distributions.Normal(out, module.log_std.exp())
            scores = distribution.log_prob(actions).sum(-1), distribution.entropy().sum(-1)
        new = {"new_log_probs": scores[0], "entropy": scores[1]}
        return {**rollout, **new, "new_values": module.critic(obs).squeeze(-1)}

    old = evaluate()["new_log_probs"].detach()
    rollout["log_probs"] = (old + draw_float32(ROWS, scale=0.3)).float().double()
    case = evaluate()
    terms = ppo_terms(case, rollout["advantages"], clip_vloss)
    terms["total"].backward()
    gradient = arrays(module, lambda p: p.grad)
    module.zero_grad()
    a = rollout["advantages"]
    adam = torch.optim.Adam(module.parameters(), lr=1e-3, eps=1e-5)
    ppo_terms(evaluate(), (a - a.mean()) / (a.std() + 1e-8), clip_vloss)["total"].backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), 0.5)
    adam.step()
    return {
        "kind": kind,
        "activation": activation,
        "clip_vloss": clip_vloss,
        "parameters": before,
        "obs": flat(obs),
        "actions": actions.tolist() if kind == "choices" else flat(actions),
        **{name: flat(rollout[name]) for name in ("log_probs", "values", "advantages", "returns")},
        "new_values": flat(case["new_values"]),
        "terms": {name: float(term.detach()) for name, term in terms.items()},
        "gradient": gradient,
        "norm": float(norm),
        "after": arrays(module, lambda p: p),
    }


def values(activation: str) -> dict[str, Any]:
    """Return Q-values, their losses and gradients."""
    module = nn.Module()
    module.q = make_net(4, activation)
    set_random_parameters(module)
    obs, goals, actions = draw_float32(ROWS, OBS), draw_float32(ROWS, scale=2.0), torch.arange(ROWS) % 4
    out: dict[str, Any] = {"activation": activation, "parameters": arrays(module, lambda p: p)}
    out |= {"obs": flat(obs), "goals": flat(goals), "actions": actions.tolist()}
    out["q"] = flat(module.q(obs))
    for name, loss in (("huber", nn.HuberLoss()), ("squared", nn.MSELoss())):
        module.zero_grad()
        total = loss(module.q(obs)[torch.arange(ROWS), actions], goals)
        total.backward()
        out[name] = {"loss": float(total.detach()), "gradient": arrays(module, lambda p: p.grad)}
    return out


def deterministic(activation: str) -> dict[str, Any]:
    """Return actions, and a gradient with respect to the parameters."""
    module = nn.Module()
    module.actor = make_net(2, activation)
    set_random_parameters(module)
    obs, slopes = draw_float32(ROWS, OBS), draw_float32(ROWS, 2)
    actions = module.actor(obs).tanh()
    (actions * slopes).sum().backward()
    out = {"obs": flat(obs), "slopes": flat(slopes), "actions": flat(actions)}
    gradient = arrays(module, lambda p: p.grad)
    before = arrays(module, lambda p: p)
    return {"activation": activation, "parameters": before, **out, "gradient": gradient}


if __name__ == "__main__":
    torch.manual_seed(0)
    golden = {
        "on_policy": [
            on_policy(kind, activation, clip_vloss)
            for clip_vloss, activation in zip((False, True, False, True), ACTIVATIONS, strict=True)
            for kind in ("choices", "numbers")
        ],
        "values": [values(activation) for activation in ACTIVATIONS],
        "deterministic": [deterministic(activation) for activation in ACTIVATIONS],
    }
    text = json.dumps(golden, separators=(",", ":"))
    Path(__file__).with_name("golden.json").write_text(text + "\n", encoding="utf-8")
