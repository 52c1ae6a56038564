"""A user's own policy, a module or a subclass of ours, on the same path as the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError
from rlox.networks.traced import REGISTERED, learned, require_gradient
from rlox.policies.base import ACTING, ActorCritic, Policy, Sampler, acting, newest
from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.factored import FactoredPolicy
from rlox.rng import keyed

__all__ = [
    "UserPolicy",
    "as_actor_critic",
    "drawn",
    "explorer",
    "require_actions",
    "require_acts_in",
    "require_takes",
]

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
            raise ConfigError(
                f"policy {_name(policy)} fails on observations of {env}, [B, {rows.shape[1]}] "
                f"{str(rows.dtype).removeprefix('torch.')}: "
                f"{str(error).splitlines()[0]}"
            ) from error


def _probe(policy: ActorCritic, obs: Tensor, actions: ActionCodec) -> None:
    """Call every method once; `ValueError` for results of other shapes or kinds than theirs."""
    _require_size(policy, actions)
    if isinstance(policy, DiscretePolicy) and policy.logits(obs).shape[-1] != policy.n_actions:
        raise ValueError(
            f"logits gave {list(policy.logits(obs).shape)}, expected [B, {policy.n_actions}], one a choice"
        )
    value = policy.get_value(obs)
    action, log_prob = _pair("get_action_and_logprob", policy.get_action_and_logprob(obs))
    _require_actions("get_action_and_logprob", action, len(obs), actions)
    scored, entropy = _pair("get_logprob_and_entropy", policy.get_logprob_and_entropy(obs, action))
    rows, one = obs.shape[:1], torch.Size()  # an entropy may be the same of all rows
    for method, found, shapes in (
        ("get_value", value, (rows,)),
        ("get_action_and_logprob", log_prob, (rows,)),
        ("get_logprob_and_entropy", scored, (rows,)),
        ("get_logprob_and_entropy", entropy, (rows, one)),
    ):
        if _tensor(method, found).shape not in shapes:
            raise ValueError(f"{method} gave {list(found.shape)}, expected one number a row, [B]")
    _require_actions("mode", policy.mode(obs), len(obs), actions)


def _pair(method: str, found: Any) -> tuple[Any, Any]:
    """`ConfigError` for other results than the two of this method."""
    if isinstance(found, tuple | list) and len(found) == 2:
        return found[0], found[1]
    raise ConfigError(f"{method} gave a {type(found).__name__}, expected two tensors, [B] each")


def _tensor(method: str, found: Any) -> Tensor:
    """`ConfigError` for a result that is none."""
    if isinstance(found, Tensor):
        return found
    raise ConfigError(f"{method} gave a {type(found).__name__}, expected a torch tensor [B]")


def require_acts_in(policy: nn.Module, actions: ActionCodec) -> None:
    """Raise `ConfigError` for a built-in policy of other actions than the environment's."""
    try:
        _require_size(policy, actions)
    except ValueError as error:
        raise ConfigError(f"policy {_name(policy)}: {error}") from None


def _require_size(policy: nn.Module, actions: ActionCodec) -> None:
    """The same as a `ValueError`; other policies are held to what they draw."""
    if not _of_rlox(policy):
        return
    if isinstance(policy, DiscretePolicy):
        made = f"one of {policy.n_actions} choices"
        right = actions.discrete and policy.n_actions == actions.size
    elif isinstance(policy, ContinuousPolicy | SDEPolicy):
        made = f"{policy.act_dim} numbers"
        right = not actions.choices and policy.act_dim == actions.size
    elif isinstance(policy, FactoredPolicy):
        made = f"choices among {list(policy.head.choices)} and {policy.head.vector} numbers"
        right = (policy.head.choices, policy.head.vector) == (actions.choices, actions.vector)
    else:
        return
    if not right:
        raise ValueError(f"its action is {made}, the environment takes {_expected(actions)}")


def _expected(actions: ActionCodec) -> str:
    """The rows that the environment takes, in words."""
    if actions.discrete:
        return f"whole numbers [B] from 0 to {actions.size - 1}"
    if not actions.choices:
        return f"float [B, {actions.size}]"
    expected = f"[B, {actions.shape[0]}]: choices from 0, of {list(actions.choices)}"
    return expected + (
        f", then {actions.vector} numbers of float32" if actions.vector else ", whole numbers"
    )


def _require_actions(method: str, found: Any, rows: int, actions: ActionCodec) -> None:
    """`ValueError` unless these are so many actions of the environment's kind."""
    _tensor(method, found)
    size, said = actions.size, f"{list(found.shape)} of {str(found.dtype).removeprefix('torch.')}"
    if actions.kind == "factored":
        _require_row(method, found, said, rows, actions)
        return
    if actions.discrete:
        right = found.shape == (rows,) and not found.is_floating_point()
        if right and not 0 <= int(found.min()) <= int(found.max()) < size:
            right, said = False, f"{said} from {int(found.min())} to {int(found.max())}"
    else:
        right = found.shape == (rows, size) and found.is_floating_point()
    if not right:
        raise ValueError(f"{method} gave {said}, the environment takes {_expected(actions)}")


def _require_row(method: str, found: Tensor, said: str, rows: int, actions: ActionCodec) -> None:
    """The same for actions of several parts: choices, then numbers."""
    expected = _expected(actions)
    if found.shape != (rows, *actions.shape) or found.is_floating_point() != (actions.vector > 0):
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


def explorer(
    policy: ActorCritic,
    actions: ActionCodec,
    n_steps: int,
    n_envs: int,
    generator: torch.Generator,
) -> Sampler:
    """Exploration for one rollout, by the method of `ACTING` that the most derived class defines.

    All but a `sampler` draw from torch's default generators, keyed for each step. What a policy that is not
    rlox's draws is looked at before an environment is given it: `ConfigError` for no action of its.
    """
    require_acts_in(policy, actions)
    name = newest(policy, *ACTING)
    if name == "sampler":
        sample = policy.sampler(n_steps, n_envs, generator)
        if _of_rlox(policy):
            return sample
    else:
        sample = _keyed_draws(policy, name, generator)
    told = "get_action_and_logprob" if isinstance(policy, UserPolicy) else name

    def checked(obs: Tensor, t: int) -> Tensor:
        found = sample(obs, t)
        require_actions(policy, told, found, n_envs, actions)
        return found

    return checked


def require_actions(
    policy: nn.Module, method: str, found: Tensor, rows: int, actions: ActionCodec
) -> None:
    """Raise `ConfigError` where a policy that is not rlox's gave no `rows` actions of the environment."""
    if _of_rlox(policy):
        return
    try:
        _require_actions(method, found, rows, actions)
    except ValueError as error:
        raise ConfigError(f"policy {_name(policy)}: {error}") from None


def drawn(policy: Policy, obs: Tensor, generator: torch.Generator) -> Tensor:
    """A sampled action, as the most derived class draws one.

    One that takes no generator is a function of the next number of this.
    """
    name = newest(policy, "sample", "get_action_and_logprob", "get_action_value")
    method = getattr(policy, name)
    if "generator" in signature(method).parameters:
        said = method(obs, generator=generator)
    else:
        with keyed(_next_key(generator), {obs.device, *_devices(policy)}):
            said = method(obs.clone())
    return _action(name, said)


def _action(name: str, said: Any) -> Tensor:
    """The action among what the method of this name gave; `ConfigError` where nothing is behind it."""
    if name == "sample":
        return _tensor(name, said)
    if isinstance(said, tuple | list) and len(said) > 1:
        return _tensor(name, said[0])
    raise ConfigError(
        f"{name} gave a {type(said).__name__}, expected the action first, then its numbers"
    )


def _keyed_draws(module: nn.Module, name: str, generator: torch.Generator) -> Sampler:
    """Draws by the method of this name, with torch's default generators keyed for each step."""
    method: Callable[[Tensor], Any] = getattr(module, name)
    devices = _devices(module)

    def sample(obs: Tensor, t: int) -> Tensor:
        with keyed(generator.initial_seed() + t, {obs.device, *devices}):
            said = method(obs.clone())
        return _action(name, said)

    return sample


def _next_key(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))


def _devices(module: nn.Module) -> set[torch.device]:
    """Where a module is, and so draws: it has no generator of its own that could be keyed."""
    return {tensor.device for tensor in (*module.parameters(), *module.buffers())}


def _of_rlox(policy: nn.Module) -> bool:
    """Whether a policy is one of rlox's kinds, and does what they do."""
    kind = type(policy)
    return kind is not UserPolicy and kind.__module__.partition(".")[0] == "rlox"


def _name(policy: nn.Module) -> str:
    return type(policy.module if isinstance(policy, UserPolicy) else policy).__name__


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
        return _keyed_draws(self.module, "get_action_and_logprob", generator)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability, entropy and value, each `[B]`."""
        given = obs.clone(), actions.clone()
        name = "get_logprob_and_entropy"
        log_prob, entropy = _pair(name, self._methods[0].get_logprob_and_entropy(*given))
        log_prob, entropy = _tensor(name, log_prob), _tensor(name, entropy)
        if torch.is_grad_enabled() and not self._learns:
            _require_learns(log_prob, self.module)
            self._learns = True
        return log_prob, entropy, self.get_value(obs)

    def get_value(self, obs: Tensor) -> Tensor:
        """V(obs), `[B]`."""
        value = self._methods[0].get_value(obs.clone())
        if isinstance(value, Tensor) and value.numel() == len(obs):
            return value.reshape(len(obs))
        said = list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise ConfigError(f"get_value gave {said}, expected a torch tensor [B]")

    def mode(self, obs: Tensor) -> Tensor:
        """The module's `mode`, or the best logit (integer actions) or mean of its `actor`."""
        module = self._methods[0]
        if callable(getattr(module, "mode", None)):
            action: Tensor = module.mode(obs.clone())
            return action
        output: Tensor = module.actor(obs.clone())
        with keyed(0, {obs.device, *_devices(module)}):  # only its kind is of interest
            sampled = module.get_action_and_logprob(obs.clone())[0]
        return output if sampled.is_floating_point() else output.argmax(-1)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """The module's own sample; with a `generator` a function of the next number of that."""
        name, method = "get_action_and_logprob", self._methods[0].get_action_and_logprob
        if generator is None:
            return _pair(name, method(obs.clone()))
        with keyed(_next_key(generator), {obs.device, *_devices(self.module)}):
            return _pair(name, method(obs.clone()))
