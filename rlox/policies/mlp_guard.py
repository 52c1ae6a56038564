"""The check that an engine in Rust can replace a policy: the policy computes nothing besides its layers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import FlatParameters
from rlox.parameters.engine import require_self_test, unsupported_policy

__all__ = ["MLPGuard"]

OTHER_LAYERS = "made of other layers than those that rlox gave it"


class MLPGuard:
    """Checks that a policy's updates depend only on its layers and parameters.

    Replaced methods of the object, hooks, frozen parameters and other layers would be ignored in Rust, and
    may all be added after the policy was made; `check` finds them.

    The constructor also raises ConfigError if the engine's results differ from torch's (`self_test`), if the
    policy is not on the CPU or not in float32, if the layers of a network are not linear with activations of
    one kind between them, and if networks share parameters.

    Parameters
    ----------
    policy : owner of the parameters
    nets : its MLPs
    guarded_methods : `policy` and submodules, each with the methods that an update calls besides `forward`
    flats : the vectors of all parameters of `policy`
    attributes : attributes of `policy` that must not be replaced, besides modules and parameters

    Attributes
    ----------
    parameter_shapes : names and shapes of the parameters, in the order of torch's modules
    linear_layers : the linear layers of each network
    activation : the activation between the linear layers; tanh for networks of one layer
    """

    def __init__(
        self,
        policy: nn.Module,
        nets: Sequence[nn.Module],
        guarded_methods: Sequence[tuple[nn.Module, Sequence[str]]],
        flats: Sequence[FlatParameters],
        attributes: Sequence[str] = (),
    ) -> None:
        require_self_test()
        for vector in (flat.vector for flat in flats):
            if vector.device.type != "cpu" or str(vector.dtype) != "torch.float32":
                raise unsupported_policy(f"in {vector.dtype} on {vector.device}, not in float32 on the CPU")
        self._policy, self._flats, self._guarded_methods = policy, tuple(flats), tuple(guarded_methods)
        self._parameters = dict(policy.named_parameters())
        # Everything that is checked before every update, looked up once: modules with their classes and
        # children, the dicts of hooks, and the registered parameters.
        self._module_tree = [(m, type(m), tuple(m._modules.values())) for m in policy.modules()]
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
        self._registered_parameters = [
            (module._parameters, name, parameter)
            for module in policy.modules()
            for name, parameter in module._parameters.items()
        ]
        self._elu_layers = [m for m in policy.modules() if isinstance(m, nn.ELU)]
        self._attributes = [(name, getattr(policy, name)) for name in attributes]
        self.check()
        self.parameter_shapes = [(name, tuple(p.shape)) for name, p in self._parameters.items()]
        layers = [tuple(net.children()) for net in nets]
        self.linear_layers = [[x for x in net if type(x) is nn.Linear] for net in layers]
        self.activation = _common_activation(layers)

    def check(self) -> None:
        """Raise ConfigError for changes that an update would ignore; it takes some microseconds.

        If the memory of a parameter was replaced, `FlatParameters.sync_parameters` copies its values back.
        """
        self._check_tree()
        for module, names in self._guarded_methods:
            if overridden := [name for name in names if name in module.__dict__]:
                raise unsupported_policy(f"one with a {overridden[0]} of its own")
        parameters = self._parameters.values()
        if any(self._hooks) or any(p._backward_hooks for p in parameters):
            raise unsupported_policy("hooked, and a hook would never be called")
        if not all(p.requires_grad for p in parameters):
            frozen = [name for name, p in self._parameters.items() if not p.requires_grad]
            raise unsupported_policy(f"frozen in {', '.join(frozen)}")
        self.sync_parameters()

    def _check_tree(self) -> None:
        """Raise ConfigError if classes, layers or parameters were replaced."""
        for module, module_class, children in self._module_tree:
            if type(module) is not module_class:
                raise unsupported_policy(f"a {type(module).__name__} now, of another class than rlox gave it")
            if tuple(module._modules.values()) != children:
                raise unsupported_policy(OTHER_LAYERS)
            if "forward" in module.__dict__:
                raise unsupported_policy("one with a forward of its own")
        if any(
            registry.get(name) is not parameter for registry, name, parameter in self._registered_parameters
        ):
            raise unsupported_policy("made of other parameters than those that rlox gave it")
        if any(layer.alpha != 1.0 for layer in self._elu_layers):
            raise unsupported_policy(OTHER_LAYERS)
        for name, value in self._attributes:
            if getattr(self._policy, name, None) is not value:
                raise unsupported_policy(f"one with another {name} than rlox gave it")

    def sync_parameters(self) -> None:
        """Copy the values of replaced parameters back: `FlatParameters.sync_parameters`."""
        for flat in self._flats:
            flat.sync_parameters()


def _common_activation(nets: Sequence[Sequence[nn.Module]]) -> str:
    """Return the activation of the networks; raise ConfigError if they are not MLPs with one activation."""
    activations = {_activation_name(layer) for net in nets for layer in net[1::2]}
    is_linear = all(type(layer) is nn.Linear for net in nets for layer in net[::2])
    linear = [layer for net in nets for layer in net if type(layer) is nn.Linear]
    if not is_linear or None in activations or len(activations) > 1 or any(x.bias is None for x in linear):
        raise unsupported_policy(OTHER_LAYERS)
    parameter_ids = {id(p) for layer in linear for p in layer.parameters()}
    if len(parameter_ids) != 2 * len(linear):
        raise unsupported_policy("one whose networks share parameters")
    return activations.pop() or "tanh" if activations else "tanh"


def _activation_name(layer: nn.Module) -> str | None:
    """Return the activation's name; None if it has other settings than torch's defaults, or is unknown."""
    names = (name for name, activation_class in ACTIVATIONS.items() if type(layer) is activation_class)
    is_default = getattr(layer, "alpha", 1.0) == 1.0  # for ELU
    return next(names, None) if is_default else None
