"""An exported policy as a small ONNX graph, checked by onnxruntime (the extra `onnx`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import MissingExtraError, RloxError
from rlox.export.exported_policy import TOLERANCE, ExportedPolicy
from rlox.export.networks import LinearLayers, Network
from rlox.export.numpy_policy import ActionBounds, Moments, relative_difference
from rlox.extras import install_command

__all__ = ["check_onnx", "onnx_bytes", "require_onnx"]

# Every onnxruntime since 1.12 (2022) reads these versions.
OPSET, IR_VERSION = 17, 8


def require_onnx() -> None:
    """Raise MissingExtraError with the install command unless onnx and onnxruntime are installed."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            f"format=onnx needs onnx and onnxruntime: {install_command('onnx')} ({error})"
        ) from error
    assert onnx and onnxruntime


@dataclass
class _Graph:
    """Nodes in execution order, and constants by name."""

    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a node with one output; return the name of the output."""
        from onnx import helper

        output = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def cast(self, x: str, kind: int) -> str:
        """Add a cast to another data type."""
        return self.add("Cast", x, to=kind)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        self.constants[name] = value
        return name


def onnx_bytes(policy: ExportedPolicy) -> bytes:
    """Serialise a model from `obs` to `action` and `outputs`.

    `obs` is float32 `[N, dim]`; `action` is int64 `[N]` or float32 `[N, size]`. The model's metadata holds
    the description under the key `rlox`.
    """
    from onnx import TensorProto, checker, helper, numpy_helper

    graph = _Graph()
    network_input = "obs" if policy.moments is None else _add_normalizer(graph, policy.moments)
    outputs = graph.add("Identity", _add_network(graph, policy.network, network_input), name="outputs")
    if policy.bounds is None:
        _add_choice(graph, outputs, policy.first_choice)
        action = helper.make_tensor_value_info("action", TensorProto.INT64, ["N"])
    else:
        _add_vector(graph, outputs, policy.network, policy.bounds)
        size = policy.network.sizes[-1]
        action = helper.make_tensor_value_info("action", TensorProto.FLOAT, ["N", size])

    def floats(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width])

    onnx_graph = helper.make_graph(
        graph.nodes,
        "policy",
        [floats("obs", policy.network.sizes[0])],
        [action, floats("outputs", policy.network.sizes[-1])],
        [numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(onnx_graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="rlox")
    helper.set_model_props(model, {"rlox": json.dumps(policy.description())})
    checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data


def check_onnx(policy: ExportedPolicy, model: bytes) -> float:
    """Return the relative difference between onnxruntime and the policy on the golden observations.

    Raises RloxError if the difference is above 1e-5 for outputs or vector actions.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    actions, outputs = session.run(["action", "outputs"], {"obs": policy.golden.obs})
    differences = [relative_difference(outputs, policy.golden.outputs)]
    if policy.bounds is not None:
        differences.append(relative_difference(actions, policy.golden.actions))
    if not max(differences) <= TOLERANCE:
        raise RloxError(
            f"onnxruntime {onnxruntime.__version__} differs from the policy by {max(differences):.1e} "
            f"(relative), expected {TOLERANCE:.0e} at most; format=safetensors needs no onnxruntime"
        )
    return max(differences)


def _add_normalizer(graph: _Graph, moments: Moments) -> str:
    """Add the normalisation of observations, computed in float64."""
    from onnx import TensorProto

    mean = graph.constant("normalizer.mean", moments.mean.astype(np.float64))
    deviation = graph.constant("normalizer.deviation", moments.std.astype(np.float64))
    x = graph.cast("obs", TensorProto.DOUBLE)
    x = graph.add("Div", graph.add("Sub", x, mean), deviation)
    if moments.clip is not None:
        low = graph.constant("normalizer.low", np.array(-moments.clip, np.float64))
        high = graph.constant("normalizer.high", np.array(moments.clip, np.float64))
        x = graph.add("Clip", x, low, high)
    return graph.cast(x, TensorProto.FLOAT)


def _add_network(graph: _Graph, network: Network, x: str) -> str:
    if not network.is_dueling:
        return _add_layers(graph, network.parts[0], x, network.activation)
    shared, value, advantage = network.parts
    features = _add_layers(graph, shared, x, network.activation, activate_last=True)
    values = _add_layers(graph, value, features, network.activation)
    advantages = _add_layers(graph, advantage, features, network.activation)
    mean = graph.add("ReduceMean", advantages, axes=[1], keepdims=1)
    return graph.add("Sub", graph.add("Add", values, advantages), mean)


def _add_layers(
    graph: _Graph, layers: LinearLayers, x: str, activation: str, activate_last: bool = False
) -> str:
    tensors = dict(layers.tensors())
    for i in range(len(layers.weights)):
        tensor_names = (f"{layers.name}.{2 * i}.weight", f"{layers.name}.{2 * i}.bias")
        weight, bias = (graph.constant(name, tensors[name]) for name in tensor_names)
        x = graph.add("Gemm", x, weight, bias, transB=1)
        if activate_last or i + 1 < len(layers.weights):
            x = _add_activation(graph, x, activation)
    return x


def _add_activation(graph: _Graph, x: str, activation: str) -> str:
    if activation == "silu":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    return graph.add({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[activation], x)


def _add_choice(graph: _Graph, outputs: str, first_choice: int) -> None:
    argmax = graph.add("ArgMax", outputs, axis=1, keepdims=0)
    graph.add("Add", argmax, graph.constant("action.start", np.array(first_choice, np.int64)), name="action")


def _add_vector(graph: _Graph, outputs: str, network: Network, bounds: ActionBounds) -> None:
    x = outputs
    low = graph.constant("action.low", bounds.low)
    high = graph.constant("action.high", bounds.high)
    if network.head != "gaussian":
        if network.mean_limit is not None:
            limit = np.float32(network.mean_limit)
            mean_limits = (
                graph.constant("mean.low", np.array(-limit)),
                graph.constant("mean.high", np.array(limit)),
            )
            x = graph.add("Clip", x, *mean_limits)
        half = graph.constant("half", np.array(0.5, np.float32))
        one = graph.constant("one", np.array(1.0, np.float32))
        width = graph.constant("action.width", bounds.high - bounds.low)
        unit_value = graph.add("Mul", graph.add("Add", graph.add("Tanh", x), one), half)
        x = graph.add("Add", graph.add("Mul", unit_value, width), low)
    graph.add("Min", graph.add("Max", x, low), high, name="action")
