"""A user's own policy module on the same path as the built-in ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError
from rlox.networks.traced import REGISTERED, learned, require_gradient
from rlox.policies.base import ActorCritic, Sampler, acting
from rlox.rng import keyed

__all__ = ["UserPolicy", "as_actor_critic", "require_takes"]

_REQUIRED = ("get_action_and_logprob", "get_value", "get_logprob_and_entropy")


def as_actor_critic(policy: nn.Module) -> ActorCritic:
    """`policy` itself when it is one of ours, else an adapter around it, checked for its methods."""
    return policy if isinstance(policy, ActorCritic) else UserPolicy(policy)


def require_takes(policy: ActorCritic, rows: Tensor, actions: ActionCodec, env: str) -> None:
    """Raise `ConfigError` if a policy of somebody's own fails on two such `rows` of observations, or acts
    otherwise than the environment does.
    """
    tensor = next((p for p in policy.parameters()), torch.zeros(1))
    with torch.no_grad(), keyed(0, {tensor.device}), acting(policy):
        try:
            _probe(policy, rows.to(tensor.device), actions)
        except (AttributeError, RuntimeError, ValueError, TypeError, IndexError) as error:
            name = type(policy.module if isinstance(policy, UserPolicy) else policy).__name__
            raise ConfigError(
                f"policy {name} fails on observations of {env}, [B, {rows.shape[1]}] "
                f"{str(rows.dtype).removeprefix('torch.')}: "
                f"{str(error).splitlines()[0]}"
            ) from error


def _probe(policy: ActorCritic, obs: Tensor, actions: ActionCodec) -> None:
    """Call every method once; `ValueError` for results of other shapes or kinds than theirs."""
    policy.get_value(obs)
    action, log_prob = policy.get_action_and_logprob(obs)
    _require_actions("get_action_and_logprob", action, actions)
    scored, entropy = policy.get_logprob_and_entropy(obs, action)
    rows, one = obs.shape[:1], torch.Size()  # an entropy may be the same of all rows
    for method, found, shapes in (
        ("get_action_and_logprob", log_prob, (rows,)),
        ("get_logprob_and_entropy", scored, (rows,)),
        ("get_logprob_and_entropy", entropy, (rows, one)),
    ):
        if found.shape not in shapes:
            raise ValueError(f"{method} gave {list(found.shape)}, expected one number a row, [B]")
    _require_actions("mode", policy.mode(obs), actions)


def _require_actions(method: str, found: Tensor, actions: ActionCodec) -> None:
    """`ValueError` unless these are two actions of the environment's kind."""
    size, said = actions.size, f"{list(found.shape)} of {str(found.dtype).removeprefix('torch.')}"
    if actions.kind == "factored":
        _require_row(method, found, said, actions)
        return
    if actions.discrete:
        right = found.shape == (2,) and not found.is_floating_point()
        expected = f"whole numbers [B] from 0 to {size - 1}"
        if right and not 0 <= int(found.min()) <= int(found.max()) < size:
            right, said = False, f"{said} from {int(found.min())} to {int(found.max())}"
    else:
        right = found.shape == (2, size) and found.is_floating_point()
        expected = f"float [B, {size}]"
    if not right:
        raise ValueError(f"{method} gave {said}, the environment takes {expected}")


def _require_row(method: str, found: Tensor, said: str, actions: ActionCodec) -> None:
    """The same for actions of several parts: choices, then numbers."""
    expected = f"[B, {actions.shape[0]}]: choices from 0, of {list(actions.choices)}"
    expected += (
        f", then {actions.vector} numbers of float32" if actions.vector else ", whole numbers"
    )
    if found.shape != (2, *actions.shape) or found.is_floating_point() != (actions.vector > 0):
        raise ValueError(f"{method} gave {said}, the environment takes {expected}")
    chosen = found[:, : len(actions.choices)]
    inside = (chosen >= 0) & (chosen < chosen.new_tensor(actions.choices))
    if not bool((inside & (chosen == chosen.floor())).all()):
        raise ValueError(f"{method} gave {chosen.tolist()}, the environment takes {expected}")


def _require_learns(log_prob: Tensor, module: nn.Module) -> None:
    """`ConfigError` where no gradient leads from log-probabilities to a parameter that is not frozen."""
    require_gradient("the policy's log-probability has", log_prob)
    parameters = learned(module.parameters())
    found = torch.autograd.grad(log_prob.sum(), parameters, retain_graph=True, allow_unused=True)
    if all(gradient is None for gradient in found):
        raise ConfigError(
            f"nothing can be learned: the log-probability of the policy {type(module).__name__} depends on "
            f"none of its parameters; {REGISTERED}"
        )


class UserPolicy(ActorCritic):
    """Adapts a module with the three methods of a policy.

    Required: `get_action_and_logprob(obs)`, `get_value(obs)`, `get_logprob_and_entropy(obs, actions)`.
    For `predict` and evaluation also `mode(obs)`, or an `actor` submodule giving logits or means.

    Each call is given copies, into which the module may write (`obs /= 255`): the tensors themselves are what
    a rollout or a buffer stores.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        methods: Any = module
        missing = [m for m in _REQUIRED if not callable(getattr(module, m, None))]
        if not callable(getattr(module, "mode", None)) and not callable(
            getattr(module, "actor", None)
        ):
            missing.append("mode")
        if missing:
            raise ConfigError(
                f"policy {type(module).__name__} lacks {', '.join(missing)}; a policy has "
                f"{', '.join(_REQUIRED)} and mode (or an actor submodule)"
            )
        self.module = module
        self._methods = [methods]  # in a list: not registered a second time
        self._learns = False  # whether a gradient was seen to lead to its parameters

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Calls `get_action_and_logprob` with torch's default generators keyed for each step."""
        devices = self._devices()

        def sample(obs: Tensor, t: int) -> Tensor:
            with keyed(generator.initial_seed() + t, {obs.device, *devices}):
                action: Tensor = self._methods[0].get_action_and_logprob(obs.clone())[0]
            return action

        return sample

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability, entropy and value, each `[B]`."""
        given = obs.clone(), actions.clone()
        log_prob, entropy = self._methods[0].get_logprob_and_entropy(*given)
        if torch.is_grad_enabled() and not self._learns:
            _require_learns(log_prob, self.module)
            self._learns = True
        return log_prob, entropy, self.get_value(obs)

    def get_value(self, obs: Tensor) -> Tensor:
        """V(obs), `[B]`."""
        value: Tensor = self._methods[0].get_value(obs.clone())
        return value.reshape(len(obs))

    def mode(self, obs: Tensor) -> Tensor:
        """The module's `mode`, or the best logit (integer actions) or mean of its `actor`."""
        module = self._methods[0]
        if callable(getattr(module, "mode", None)):
            action: Tensor = module.mode(obs.clone())
            return action
        output: Tensor = module.actor(obs.clone())
        with keyed(0, {obs.device, *self._devices()}):  # only its kind is of interest
            sampled = module.get_action_and_logprob(obs.clone())[0]
        return output if sampled.is_floating_point() else output.argmax(-1)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """The module's own sample; with a `generator` a function of the next number of that."""
        if generator is None:
            action, log_prob = self._methods[0].get_action_and_logprob(obs.clone())
            return action, log_prob
        key = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
        with keyed(int(key), {obs.device, *self._devices()}):
            action, log_prob = self._methods[0].get_action_and_logprob(obs.clone())
        return action, log_prob

    def _devices(self) -> set[torch.device]:
        """Where the module is, and so draws: it has no generator of its own that could be keyed."""
        return {tensor.device for tensor in (*self.module.parameters(), *self.module.buffers())}
