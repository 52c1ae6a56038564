"""Runs rlox's SAC, TQC and TD3 on the same batches; critics are one module, and an actor has one head."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from parity.batches import each
from parity.cases import ACT, HIDDEN, OBS, Arrays, Case
from parity.taps import Tap, copies, neutral, transitions
from parity.traces import Row, trace
from rlox.algorithms.sac.learner import SACLearner
from rlox.algorithms.td3.learner import TD3Learner
from rlox.algorithms.tqc import TQCLearner
from rlox.configs import SACConfig, TD3Config, TQCConfig, make
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy, SquashedSDEPolicy
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.soft import QuantileSACPolicy, SquashedSACPolicy
from rlox.training.learner import NoiseFunction
from rlox.types import Clock

CRITICS = 2
LAYERS = len(HIDDEN) + 1
SAC_CLASSES: dict[str, tuple[Any, Any, Any]] = {
    "sac": (SquashedSACPolicy, SACConfig, SACLearner),
    "tqc": (QuantileSACPolicy, TQCConfig, TQCLearner),
}


def apart(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename rlox's tensors as in the golden files; split the critics and the actor's heads."""
    out: dict[str, Tensor] = {}
    for name, value in values.items():
        if match := re.fullmatch(r"critic\.(weights|biases)\.(\d)", name):
            part = {"weights": "weight", "biases": "bias"}[match[1]]
            out |= {f"critic.{k}.{match[2]}.{part}": value[k] for k in range(CRITICS)}
        elif match := re.fullmatch(r"actor\.(?:net\.)?(\d)\.(weight|bias)", name):
            layer = int(match[1])
            if "net" in name and layer == LAYERS - 1:  # under gSDE the layer has only the mean
                heads = zip(("mean", "log_std"), value.split(ACT), strict=False)
                out |= {f"actor.{head}.{match[2]}": half for head, half in heads}
            else:
                out[f"actor.{layer}.{match[2]}"] = value
        else:
            out[name.replace("temperature.log", "log_alpha")] = torch.atleast_1d(value)
    return out


def begin(policy: nn.Module, init: Arrays) -> None:
    """Load the golden files' initial weights into `policy`."""
    state = {neutral(name): value for name, value in policy.state_dict().items()}
    for name, part in apart(state).items():
        part.copy_(torch.from_numpy(init[name]))  # a view of the policy's own tensor


def sac(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    kind = SquashedSDEPolicy if case.settings["use_sde"] else SquashedGaussianPolicy
    actor = kind(OBS, ACT, net_arch=HIDDEN)
    critic = EnsembleMLP(CRITICS, (OBS + ACT, *HIDDEN, case.settings.get("n_quantiles", 1)))
    policy_class, config, learner_class = SAC_CLASSES[case.algo]
    policy = policy_class(actor, critic)
    begin(policy, init)
    settings = {**case.settings, "ent_coef": f"auto_{math.exp(float(init['log_alpha'][0]))!r}"}
    target = settings.pop("target_entropy")
    noise = given(np.stack([batches["noise_obs"], batches["noise_next"]], 1))
    learner = learner_class(policy.to(dtype), make(config, settings), target, noise)
    taps = {
        "actor": Tap(learner.actor_optimizer, prefix="actor."),
        "critic": Tap(learner.critic_optimizer, prefix="critic."),
        "temperature": Tap(learner.temperature.optimizer, prefix="temperature."),  # type: ignore[attr-defined]
    }
    rows = [merged(learner, taps, batch, case, i, dtype) for i, batch in enumerate(each(batches))]
    return trace(case, rows, targets({"critic": learner.target.module}))


def td3(case: Case, init: Arrays, batches: Arrays, dtype: torch.dtype) -> Arrays:
    policy = DeterministicPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu")
    begin(policy, init)
    settings = dict(case.settings)
    deviation = settings.pop("target_policy_noise")
    settings |= {"target_noise": deviation, "noise_clip": settings.pop("target_noise_clip")}
    noise = given(batches["noise_target"].astype(np.float64) / deviation)
    learner = TD3Learner(policy.to(dtype), make(TD3Config, settings), noise)
    taps = {
        "actor": Tap(learner.actor_optimizer, prefix="actor."),
        "critic": Tap(learner.critic_optimizer, prefix="critic."),
    }
    rows = [merged(learner, taps, batch, case, i, dtype) for i, batch in enumerate(each(batches))]
    final = {"actor": learner.target_actor.module, "critic": learner.target_critic.module}
    return trace(case, rows, targets(final))


def given(numbers: Any) -> NoiseFunction:
    """Return the noise of the golden files, by the number of the update."""
    return lambda update, shape, like: torch.from_numpy(np.asarray(numbers[update])).reshape(shape).to(like)


def merged(
    learner: Any, taps: Mapping[str, Tap], batch: Arrays, case: Case, i: int, dtype: torch.dtype
) -> Row:
    """Run one update; return the losses, gradients and weights of all optimizers."""
    metrics = learner.update(transitions(case, batch, dtype), Clock(updates=i)).metrics
    passed = [row for tap in taps.values() for row in tap.taken()]
    gradients = {name: value for row in passed for name, value in row.gradients.items()}
    clipped = {name: value for row in passed for name, value in row.clipped.items()}
    weights = {name: value for tap in taps.values() for name, value in tap.weights().items()}
    # if an optimizer makes no step, the reported loss is that of an earlier update
    stepped = {name.split(".")[0] for name in gradients}
    losses = {name: metrics[f"loss/{name}"] for name in taps if name in stepped}
    clipped = apart(clipped) if case.clipped_together else {}
    return Row(losses, apart(gradients), clipped, apart(weights))


def targets(networks: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return the final target networks; SAC has only one, whose names lose the word critic."""
    states = {net: module.state_dict() for net, module in networks.items()}
    named = {f"{net}.{name}": v for net, state in states.items() for name, v in state.items()}
    found = apart(copies(named))
    drop = "critic." if len(networks) == 1 else ""
    return {"target." + name.removeprefix(drop): value for name, value in found.items()}
