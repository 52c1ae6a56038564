"""Policies that an engine of Rust can take the place of: their layers are all that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import nn

from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import FlatParameters
from rlox.policies.engine import refused, require_right

__all__ = ["Plain"]


class Plain:
    """A policy whose updates call and ask nothing but its layers and parameters, which `check` holds it to.

    Methods of this very object, hooks, frozen parameters and other layers would be passed over, and may all
    come after the policy was made.

    Raises ConfigError also where the engine does not do what torch does (`golden`), for one that is not on
    the CPU or not in float32, for layers that are not linear with activations of one kind between them, and
    for parameters that networks share.

    Parameters
    ----------
    policy : whose parameters these are
    nets : its networks
    methods : what is asked of it in an update
    flat : the vector of all its parameters

    Attributes
    ----------
    named : names and shapes of the parameters, in the order of the vector
    linear : the linear layers of each network
    activation : what is between them; tanh where there is nothing
    """

    def __init__(
        self,
        policy: nn.Module,
        nets: Sequence[nn.Module],
        methods: Sequence[str],
        flat: FlatParameters,
    ) -> None:
        require_right()
        vector = flat.vector
        if vector.device.type != "cpu" or str(vector.dtype) != "torch.float32":
            raise refused(f"in {vector.dtype} on {vector.device}, not in float32 on the CPU")
        self._policy, self._nets, self._methods = policy, tuple(nets), tuple(methods)
        self._kind, self._flat = type(policy), flat
        self._parameters = dict(policy.named_parameters())
        # Dicts that hooks are entered into. Looked at before every update, so not looked up again.
        self._hooks = [
            hooks
            for module in policy.modules()
            for hooks in (
                module._forward_hooks,
                module._forward_pre_hooks,
                module._backward_hooks,
                module._backward_pre_hooks,
            )
        ]
        self._layers = [tuple(net.children()) for net in nets]
        self._held = [
            (module._parameters, name, parameter)
            for module in policy.modules()
            for name, parameter in module._parameters.items()
        ]
        self._slopes = [m for m in policy.modules() if isinstance(m, nn.ELU)]
        self.check()
        self.named = [(name, tuple(p.shape)) for name, p in self._parameters.items()]
        self.linear = [[x for x in layers if type(x) is nn.Linear] for layers in self._layers]
        self.activation = self._one_kind()

    def check(self) -> None:
        """Raise ConfigError for what an update would pass over; it costs some microseconds.

        Memory that somebody gave a parameter since is taken over: `FlatParameters.hold`.
        """
        if type(self._policy) is not self._kind:
            raise refused(f"a {type(self._policy).__name__} now, of another class than it was")
        if own := [name for name in self._methods if name in self._policy.__dict__]:
            raise refused(f"one with a {own[0]} of its own")
        parameters = self._parameters.values()
        if any(self._hooks) or any(p._backward_hooks for p in parameters):
            raise refused("hooked, and a hook would never be called")
        if not all(p.requires_grad for p in parameters):
            frozen = [name for name, p in self._parameters.items() if not p.requires_grad]
            raise refused(f"frozen in {', '.join(frozen)}")
        held = zip(self._nets, self._layers, strict=True)
        if any(tuple(net._modules.values()) != was for net, was in held):
            raise refused("of other layers than those that it was made of")
        if any(of.get(name) is not parameter for of, name, parameter in self._held):
            raise refused("of other parameters than those that it was made of")
        if any(layer.alpha != 1.0 for layer in self._slopes):
            raise refused("of other layers than those that it was made of")
        self._flat.hold()

    def hold(self) -> None:
        """Take over what somebody gave the parameters: `FlatParameters.hold`."""
        self._flat.hold()

    def _one_kind(self) -> str:
        """The activation; ConfigError for other layers than such a network has."""
        between = {_name(layer) for net in self._layers for layer in net[1::2]}
        whole = all(type(layer) is nn.Linear for net in self._layers for layer in net[::2])
        linear = [layer for net in self.linear for layer in net]
        if not whole or None in between or len(between) > 1 or any(x.bias is None for x in linear):
            raise refused("of other layers than those that it was made of")
        apart = {id(p) for layer in linear for p in layer.parameters()}
        if len(apart) != 2 * len(linear):
            raise refused("one whose networks share parameters")
        return between.pop() or "tanh" if between else "tanh"


def _name(layer: nn.Module) -> str | None:
    """The activation that this is, with torch's own settings."""
    found = (name for name, made in ACTIVATIONS.items() if type(layer) is made)
    plain = getattr(layer, "alpha", 1.0) == 1.0  # of ELU
    return next(found, None) if plain else None


class PlainVectors:
    """An actor's network and critics of one policy, held to what they were when this was made.

    Raises ConfigError as `Plain` does.

    Parameters
    ----------
    policy : whose networks these are
    nets : gives the networks that the policy has now
    flats : the vectors of the parameters of its parts `actor` and `critic`
    methods : what is asked of the policy in an update
    also : what else is held
    """

    def __init__(
        self,
        policy: nn.Module,
        nets: Callable[[], tuple[nn.Module, nn.Module]],
        flats: Mapping[str, FlatParameters],
        methods: Sequence[str],
        also: Sequence[Plain] = (),
    ) -> None:
        self._policy, self._nets, self._methods = policy, nets, tuple(methods)
        self._were = actor, critic = nets()
        self._parts = (
            Plain(actor, (actor,), ("forward",), flats["actor"]),
            Plain(critic, (), ("forward", "trace"), flats["critic"]),
            *also,
        )

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over; it costs some microseconds."""
        if own := [name for name in self._methods if name in self._policy.__dict__]:
            raise refused(f"one with a {own[0]} of its own")
        if self._nets() != self._were:
            raise refused("of other layers than those that it was made of")
        for part in self._parts:
            part.check()

    def hold(self) -> None:
        """Take over what somebody gave the parameters."""
        for part in self._parts:
            part.hold()
