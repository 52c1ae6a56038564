"""Adapters and checks for a user's policy, a module or a subclass of rlox's policies."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError
from rlox.networks.gradients import REGISTRATION_REMEDY, learned, require_gradient
from rlox.policies.base import (
    ACTING_METHODS,
    ActorCritic,
    Policy,
    Sampler,
    evaluation_mode,
    find_most_derived,
)
from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.factored import FactoredPolicy
from rlox.rng import seeded_default_generators

__all__ = [
    "UserPolicy",
    "as_actor_critic",
    "make_sampler",
    "require_matching_actions",
    "require_policy_fits",
    "require_valid_actions",
    "sample_action",
]

_REQUIRED = ("get_action_and_logprob", "get_value", "get_logprob_and_entropy")


def as_actor_critic(policy: nn.Module) -> ActorCritic:
    """Return `policy` itself if it is an `ActorCritic`, else a `UserPolicy` that wraps it."""
    return policy if isinstance(policy, ActorCritic) else UserPolicy(policy)


def require_policy_fits(policy: ActorCritic, rows: Tensor, actions: ActionCodec, env: str) -> None:
    """Raise `ConfigError` if a user's policy fails on two `rows` of observations or gives invalid actions."""
    tensor = next((p for p in policy.parameters()), torch.zeros(1))
    with torch.no_grad(), seeded_default_generators(0, {tensor.device}), evaluation_mode(policy):
        try:
            _probe(policy, rows.to(tensor.device), actions)
        except (AttributeError, RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ConfigError(
                f"policy {_class_name(policy)} fails on observations of {env}, [B, {rows.shape[1]}] "
                f"{str(rows.dtype).removeprefix('torch.')}: "
                f"{str(error).splitlines()[0]}"
            ) from error


def _probe(policy: ActorCritic, obs: Tensor, actions: ActionCodec) -> None:
    """Call every method once; raise `ValueError` for results of the wrong shape or type."""
    _require_matching_size(policy, actions)
    if isinstance(policy, DiscretePolicy) and policy.logits(obs).shape[-1] != policy.n_actions:
        raise ValueError(
            f"logits gave {list(policy.logits(obs).shape)}, expected [B, {policy.n_actions}], one per choice"
        )
    value = policy.get_value(obs)
    action, log_prob = _require_pair("get_action_and_logprob", policy.get_action_and_logprob(obs))
    _require_action_batch("get_action_and_logprob", action, len(obs), actions)
    scores, entropy = _require_pair("get_logprob_and_entropy", policy.get_logprob_and_entropy(obs, action))
    row_shape, scalar_shape = obs.shape[:1], torch.Size()  # an entropy may be the same for all rows
    for method, result, shapes in (
        ("get_value", value, (row_shape,)),
        ("get_action_and_logprob", log_prob, (row_shape,)),
        ("get_logprob_and_entropy", scores, (row_shape,)),
        ("get_logprob_and_entropy", entropy, (row_shape, scalar_shape)),
    ):
        if _require_tensor(method, result).shape not in shapes:
            raise ValueError(f"{method} gave {list(result.shape)}, expected one number per row, [B]")
    _require_action_batch("mode", policy.mode(obs), len(obs), actions)


def _require_pair(method: str, result: Any) -> tuple[Any, Any]:
    """Return the two results of a method; raise `ConfigError` for anything else."""
    if isinstance(result, tuple | list) and len(result) == 2:
        return result[0], result[1]
    raise ConfigError(f"{method} gave a {type(result).__name__}, expected two tensors, [B] each")


def _require_tensor(method: str, result: Any) -> Tensor:
    """Return the result; raise `ConfigError` unless it is a tensor."""
    if isinstance(result, Tensor):
        return result
    raise ConfigError(f"{method} gave a {type(result).__name__}, expected a torch tensor [B]")


def require_matching_actions(policy: nn.Module, actions: ActionCodec) -> None:
    """Raise `ConfigError` if a built-in policy has other actions than the environment."""
    try:
        _require_matching_size(policy, actions)
    except ValueError as error:
        raise ConfigError(f"policy {_class_name(policy)}: {error}") from None


def _require_matching_size(policy: nn.Module, actions: ActionCodec) -> None:
    """Like `require_matching_actions`, with a `ValueError`; a user's policy is checked when it acts."""
    if not _is_builtin_policy(policy):
        return
    if isinstance(policy, DiscretePolicy):
        policy_text = f"one of {policy.n_actions} choices"
        is_valid = actions.is_discrete and policy.n_actions == actions.size
    elif isinstance(policy, ContinuousPolicy | SDEPolicy):
        policy_text = f"{policy.act_dim} numbers"
        is_valid = not actions.choices and policy.act_dim == actions.size
    elif isinstance(policy, FactoredPolicy):
        policy_text = f"choices among {list(policy.head.choices)} and {policy.head.vector_size} numbers"
        is_valid = (policy.head.choices, policy.head.vector_size) == (actions.choices, actions.box_dim)
    else:
        return
    if not is_valid:
        raise ValueError(f"its action is {policy_text}, the environment takes {_expected_text(actions)}")


def _expected_text(actions: ActionCodec) -> str:
    """Return a description of the action rows that the environment takes."""
    if actions.is_discrete:
        return f"whole numbers [B] from 0 to {actions.size - 1}"
    if not actions.choices:
        return f"float [B, {actions.size}]"
    expected = f"[B, {actions.shape[0]}]: choices from 0, of {list(actions.choices)}"
    return expected + (
        f", then {actions.box_dim} numbers of float32" if actions.box_dim else ", whole numbers"
    )


def _require_action_batch(method: str, actions_found: Any, n_rows: int, actions: ActionCodec) -> None:
    """Raise `ValueError` unless `actions_found` are `n_rows` actions that the environment takes."""
    _require_tensor(method, actions_found)
    size, description = (
        actions.size,
        f"{list(actions_found.shape)} of {str(actions_found.dtype).removeprefix('torch.')}",
    )
    if actions.kind == "factored":
        _require_factored_batch(method, actions_found, description, n_rows, actions)
        return
    if actions.is_discrete:
        is_valid = actions_found.shape == (n_rows,) and not actions_found.is_floating_point()
        if is_valid and not 0 <= int(actions_found.min()) <= int(actions_found.max()) < size:
            is_valid, description = (
                False,
                f"{description} from {int(actions_found.min())} to {int(actions_found.max())}",
            )
    else:
        is_valid = actions_found.shape == (n_rows, size) and actions_found.is_floating_point()
    if not is_valid:
        raise ValueError(f"{method} gave {description}, the environment takes {_expected_text(actions)}")


def _require_factored_batch(
    method: str, actions_found: Tensor, description: str, n_rows: int, actions: ActionCodec
) -> None:
    """Like `_require_action_batch`, for actions of several parts: choices, then numbers."""
    expected = _expected_text(actions)
    if actions_found.shape != (n_rows, *actions.shape) or actions_found.is_floating_point() != (
        actions.box_dim > 0
    ):
        raise ValueError(f"{method} gave {description}, the environment takes {expected}")
    choices = actions_found[:, : len(actions.choices)]
    is_in_range = (choices >= 0) & (choices < choices.new_tensor(actions.choices))
    if not bool((is_in_range & (choices == choices.floor())).all()):
        raise ValueError(f"{method} gave {choices.tolist()}, the environment takes {expected}")


def _require_trainable(log_prob: Tensor, module: nn.Module) -> None:
    """Raise `ConfigError` if the log-probabilities do not depend on a trainable parameter."""
    require_gradient("the policy's log-probability has", log_prob)
    parameters = learned(module.parameters())
    gradients = torch.autograd.grad(log_prob.sum(), parameters, retain_graph=True, allow_unused=True)
    if all(gradient is None for gradient in gradients):
        raise ConfigError(
            f"nothing can be learned: the log-probability of the policy {type(module).__name__} depends on "
            f"none of its parameters; {REGISTRATION_REMEDY}"
        )


def make_sampler(
    policy: ActorCritic,
    actions: ActionCodec,
    n_steps: int,
    n_envs: int,
    generator: torch.Generator,
) -> Sampler:
    """Return the sampler of one rollout; it uses the acting method that the most derived class defines.

    All methods but `sampler` draw from torch's default generators, seeded for each step. Actions of a policy
    that is not rlox's are checked before the environment gets them: `ConfigError` if they are invalid.
    """
    require_matching_actions(policy, actions)
    name = find_most_derived(policy, *ACTING_METHODS)
    if name == "sampler":
        sample = policy.sampler(n_steps, n_envs, generator)
        if _is_builtin_policy(policy):
            return sample
    else:
        sample = _make_keyed_sampler(policy, name, generator)
    reported_name = "get_action_and_logprob" if isinstance(policy, UserPolicy) else name

    def sample_checked(obs: Tensor, t: int) -> Tensor:
        sampled_actions = sample(obs, t)
        require_valid_actions(policy, reported_name, sampled_actions, n_envs, actions)
        return sampled_actions

    return sample_checked


def require_valid_actions(
    policy: nn.Module, method: str, actions_found: Tensor, n_rows: int, actions: ActionCodec
) -> None:
    """Raise `ConfigError` if a policy that is not rlox's did not return `n_rows` valid actions."""
    if _is_builtin_policy(policy):
        return
    try:
        _require_action_batch(method, actions_found, n_rows, actions)
    except ValueError as error:
        raise ConfigError(f"policy {_class_name(policy)}: {error}") from None


def sample_action(policy: Policy, obs: Tensor, generator: torch.Generator) -> Tensor:
    """Sample an action; call the sampling method of the most derived class.

    If the method has no argument `generator`, it draws from torch's default generators, which are seeded by
    the next number of `generator`.
    """
    name = find_most_derived(policy, "sample", "get_action_and_logprob", "get_action_value")
    method = getattr(policy, name)
    if "generator" in signature(method).parameters:
        output = method(obs, generator=generator)
    else:
        with seeded_default_generators(_draw_key(generator), {obs.device, *_module_devices(policy)}):
            output = method(obs.clone())
    return _extract_action(name, output)


def _extract_action(name: str, output: Any) -> Tensor:
    """Return the action in the result of the method; raise `ConfigError` if the result has another form."""
    if name == "sample":
        return _require_tensor(name, output)
    if isinstance(output, tuple | list) and len(output) > 1:
        return _require_tensor(name, output[0])
    raise ConfigError(f"{name} gave a {type(output).__name__}, expected a tuple that begins with the action")


def _make_keyed_sampler(module: nn.Module, name: str, generator: torch.Generator) -> Sampler:
    """Return a sampler that calls the method, with torch's default generators seeded for each step."""
    method: Callable[[Tensor], Any] = getattr(module, name)
    devices = _module_devices(module)

    def sample(obs: Tensor, t: int) -> Tensor:
        with seeded_default_generators(generator.initial_seed() + t, {obs.device, *devices}):
            output = method(obs.clone())
        return _extract_action(name, output)

    return sample


def _draw_key(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))


def _module_devices(module: nn.Module) -> set[torch.device]:
    """Return the devices of a module's tensors; it draws from the default generators of these devices."""
    return {tensor.device for tensor in (*module.parameters(), *module.buffers())}


def _is_builtin_policy(policy: nn.Module) -> bool:
    """Return whether the policy's class is defined in rlox and is not `UserPolicy`."""
    policy_class = type(policy)
    return policy_class is not UserPolicy and policy_class.__module__.partition(".")[0] == "rlox"


def _class_name(policy: nn.Module) -> str:
    return type(policy.module if isinstance(policy, UserPolicy) else policy).__name__


class UserPolicy(ActorCritic):
    """Adapts a module with the three methods of a policy.

    Required: `get_action_and_logprob(obs)`, `get_value(obs)`, `get_logprob_and_entropy(obs, actions)`.
    Also required, for `predict` and evaluation: `mode(obs)`, or an `actor` submodule that returns logits or
    means.

    Each call gets copies, which the module may modify (`obs /= 255`); rollouts and buffers keep the
    originals.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        methods: Any = module
        missing = [m for m in _REQUIRED if not callable(getattr(module, m, None))]
        if not callable(getattr(module, "mode", None)) and not callable(getattr(module, "actor", None)):
            missing.append("mode")
        if missing:
            raise ConfigError(
                f"policy {type(module).__name__} lacks {', '.join(missing)}; a policy has "
                f"{', '.join(_REQUIRED)} and mode (or an actor submodule)"
            )
        self.module = module
        self._methods = [methods]  # in a list, so that torch does not register the module twice
        self._has_checked_gradient = False  # whether a gradient was found to reach its parameters

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return a sampler that calls `get_action_and_logprob`; torch is seeded for each step."""
        return _make_keyed_sampler(self.module, "get_action_and_logprob", generator)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        copies = obs.clone(), actions.clone()
        name = "get_logprob_and_entropy"
        log_prob, entropy = _require_pair(name, self._methods[0].get_logprob_and_entropy(*copies))
        log_prob, entropy = _require_tensor(name, log_prob), _require_tensor(name, entropy)
        if torch.is_grad_enabled() and not self._has_checked_gradient:
            _require_trainable(log_prob, self.module)
            self._has_checked_gradient = True
        return log_prob, entropy, self.get_value(obs)

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""
        value = self._methods[0].get_value(obs.clone())
        if isinstance(value, Tensor) and value.numel() == len(obs):
            return value.reshape(len(obs))
        description = list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise ConfigError(f"get_value gave {description}, expected a torch tensor [B]")

    def mode(self, obs: Tensor) -> Tensor:
        """Return the module's `mode`, or its actor's best choice (integer actions) or mean."""
        module = self._methods[0]
        if callable(getattr(module, "mode", None)):
            action: Tensor = module.mode(obs.clone())
            return action
        output: Tensor = module.actor(obs.clone())
        with seeded_default_generators(
            0, {obs.device, *_module_devices(module)}
        ):  # only the dtype of the action is used
            sampled_action = module.get_action_and_logprob(obs.clone())[0]
        return output if sampled_action.is_floating_point() else output.argmax(-1)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the module's own sample; with a `generator`, torch is seeded by its next number."""
        name, method = "get_action_and_logprob", self._methods[0].get_action_and_logprob
        if generator is None:
            return _require_pair(name, method(obs.clone()))
        with seeded_default_generators(_draw_key(generator), {obs.device, *_module_devices(self.module)}):
            return _require_pair(name, method(obs.clone()))
