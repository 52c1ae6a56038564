"""The parameters of a module as one flat array, to copy them between engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rlox.configs import nearest
from rlox.errors import NonFiniteError, ShapeError, UnknownNameError
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = ["ModuleWeights"]


class ModuleWeights:
    """Reads and writes all parameters of `module`, in the order of `named_parameters()`.

    This is the order of `torch.nn.utils.parameters_to_vector(module.parameters())`.

    Attributes
    ----------
    shapes : shapes of the parameters by name, in order
    size : total number of elements
    """

    def __init__(self, module: nn.Module) -> None:
        self._parameters = dict(module.named_parameters())
        self.shapes = {name: tuple(p.shape) for name, p in self._parameters.items()}
        self.size = sum(p.numel() for p in self._parameters.values())

    def flat(self) -> NDArray[np.float32]:
        """Return a copy of all parameters, float32 `[size]`."""
        parts = [p.detach().numpy().reshape(-1) for p in self._parameters.values()]
        return np.concatenate(parts, dtype=np.float32)

    def require_weights(
        self,
        weights: ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor],
        order: Sequence[str] | None = None,
    ) -> NDArray[np.float32]:
        """Check `weights` and return them as a new flat array, float32 `[size]`.

        `weights` is a flat array of any real dtype, with the parameters in the order of `shapes`, or a
        mapping from names to arrays of the parameters' shapes. `order` states the order of the names in a
        flat array; it must be that of `shapes`.

        Raises ShapeError for another size, shape, dtype or order, UnknownNameError for unknown or missing
        parameters, NonFiniteError for NaN and infinity; each names the parameter.
        """
        self._require_order(order)
        flat = (
            self._concat_mapping(weights) if isinstance(weights, Mapping) else _as_float32("weights", weights)
        )
        if flat.shape != (self.size,):
            parts = ", ".join(f"{name} {list(shape)}" for name, shape in self.shapes.items())
            raise ShapeError(
                f"weights have shape {list(flat.shape)}, expected [{self.size}]: {parts}, flat and in "
                "this order; for a policy of the same sizes that is "
                "torch.nn.utils.parameters_to_vector(policy.parameters())"
            )
        if not np.isfinite(flat).all():
            name = next(n for n, part in self._parts(flat) if not np.isfinite(part).all())
            raise NonFiniteError(f"weights of {name} are not all finite in float32; no weights were changed")
        return flat

    def write(self, flat: NDArray[np.float32]) -> None:
        """Write the result of `require_weights` to the module."""
        with torch.no_grad():
            for name, part in self._parts(flat):
                self._parameters[name].copy_(torch.from_numpy(part))

    def _parts(self, flat: NDArray[np.float32]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        start = 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            yield name, flat[start:stop].reshape(shape)
            start = stop

    def _concat_mapping(self, weights: Mapping[str, ArrayLike | Tensor]) -> NDArray[np.float32]:
        for name in weights:
            if name not in self.shapes:
                raise UnknownNameError(
                    f"there is no parameter '{name}'{nearest(str(name), self.shapes)}; expected one of "
                    f"{', '.join(self.shapes)}"
                )
        if missing := [name for name in self.shapes if name not in weights]:
            raise UnknownNameError(
                f"weights of {', '.join(missing)} are missing; give all of {', '.join(self.shapes)}"
            )
        parts = []
        for name, shape in self.shapes.items():
            part = _as_float32(f"weights of {name}", weights[name])
            if part.shape != shape:
                raise ShapeError(f"weights of {name} have shape {list(part.shape)}, expected {list(shape)}")
            parts.append(part.reshape(-1))
        return np.concatenate(parts)

    def _require_order(self, order: Sequence[str] | None) -> None:
        if order is not None and tuple(order) != tuple(self.shapes):
            raise ShapeError(
                f"order={list(order)}, expected {list(self.shapes)}; give weights in another order as a "
                "mapping from names to arrays"
            )


def _as_float32(label: str, values: Any) -> NDArray[np.float32]:
    """Return a float32 copy; numbers that overflow become infinite. `ShapeError` unless all are real."""
    if is_masked(values):
        raise ShapeError(f"{label}: {MASKED_MESSAGE}")
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ShapeError(f"{label} are {type(values).__name__} of {array.dtype}, expected real numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
