"""The backend that learns: the requested one, or under `auto` the one measured to be faster.

`predict_backend` returns the backend before a run is made, from the configuration and the spaces of the
environment.

`benchmarks/backend_table.py` writes the measurements to `backend_table.json` beside this file. Each entry is
the ratio of torch's training time to native's, with one thread each, for a kind of CPU, an algorithm, a
network width and a number of rows per update.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.configs import ALGO_CONFIGS, AlgorithmConfig, RunConfig
from rlox.configs.params import default_of, display_name
from rlox.envs.actions import ActionCodec
from rlox.envs.make import uses_native
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.parameters import self_test
from rlox.parameters.engine import NativeUnsupportedError
from rlox.parameters.layout import max_width
from rlox.training.device import resolve_auto_device

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

__all__ = [
    "AUTO",
    "NATIVE",
    "TORCH",
    "TORCH_BACKEND",
    "Backend",
    "BackendSelector",
    "cpu_kind",
    "native_input_obstacle",
    "native_obstacle",
    "native_refusal_message",
    "native_space_obstacle",
    "predict_backend",
    "predict_backend_between",
    "require_native",
    "unsupported_fields",
]

AUTO, NATIVE, TORCH = "auto", "native", "torch"
TABLE_FILE = Path(__file__).with_name("backend_table.json")
MAX_ORDER_BYTES = 2**30  # most bytes of the shuffled row indices of all epochs of an update
L = TypeVar("L")


@dataclass(frozen=True)
class Backend:
    """The engine that learns, `torch` or `native`, and why `auto` chose it.

    `reason` is empty if the engine was requested.
    """

    name: str
    reason: str = ""

    @property
    def message(self) -> str:
        """The choice in words; empty if the engine was requested."""
        return f"\n  backend {self.name}: {self.reason}" if self.reason else ""


TORCH_BACKEND = Backend(TORCH)


class BackendSelector:
    """Makes a learner with the requested engine, or with the one that `auto` chooses.

    Parameters
    ----------
    requested_backend : `algo.backend`
    config : configuration of the run
    saved_backend : the choice of `auto` when the run began; it is chosen again if possible

    Attributes
    ----------
    backend : the engine that `make_learner` used
    """

    def __init__(self, requested_backend: str, config: RunConfig, saved_backend: str | None = None) -> None:
        self._config, self._requested_backend, self._saved_backend = config, requested_backend, saved_backend
        unsupported = "" if requested_backend == TORCH else unsupported_fields(config.algo)
        if requested_backend == NATIVE and unsupported:
            raise ConfigError(native_refusal_message(unsupported))
        # why `auto` chooses torch regardless of measurements; empty if there is no such reason
        self._torch_reason = unsupported or _order_memory_obstacle(config)
        self.backend = TORCH_BACKEND

    @property
    def is_torch_forced(self) -> bool:
        """Whether every policy gets the torch engine."""
        return self._requested_backend == TORCH or bool(
            self._requested_backend == AUTO and self._torch_reason
        )

    def make_learner(self, policy: nn.Module, make_native: Callable[[], L], make_torch: Callable[[], L]) -> L:
        """Return `make_native()`, or `make_torch()` if torch is the engine."""
        shapes = ((name, tuple(p.shape)) for name, p in policy.named_parameters())
        learner = self.make_native(lambda: max_width(shapes), make_native)
        return make_torch() if learner is None else learner

    def make_native(self, max_width: Callable[[], int], factory: Callable[[], L]) -> L | None:
        """Return `factory()` if native is the engine for networks of this width; `None` if torch is."""
        self.backend = (
            self._select(max_width) if self._requested_backend == AUTO else Backend(self._requested_backend)
        )
        if self.backend.name != NATIVE:
            return None
        try:
            return factory()
        except NativeUnsupportedError as error:
            if self._requested_backend != AUTO:
                raise
            self.backend = Backend(TORCH, error.reason)
            return None

    def _select(self, max_width: Callable[[], int]) -> Backend:
        if self._torch_reason:
            return Backend(TORCH, self._torch_reason)
        if self._saved_backend is not None:
            return Backend(self._saved_backend, "it learned before the run was resumed")
        return _fastest_backend(
            self._config, max_width(), self._config.algo.update_rows(self._config.env.n_envs)
        )


def native_obstacle(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> str:
    """Say why the native engine cannot learn a run in these spaces; empty if it can.

    A custom policy counts as an obstacle, since only torch can inspect it.
    """
    if unsupported := unsupported_fields(config.algo) or _order_memory_obstacle(config):
        return unsupported
    if config.algo.has_custom_policy:
        return "the policy is one of your own (algo.policy)"
    has_images = bool(observations.images)
    is_auto = config.device == AUTO
    device = resolve_auto_device(config, lambda: has_images).name if is_auto else config.device
    input_obstacle = native_input_obstacle(has_images, bool(config.env.critic_obs))
    is_masked = observations.mask_dim > 0
    if obstacle := native_space_obstacle(config.algo, actions, device, input_obstacle, is_masked):
        return obstacle
    mismatch = self_test.self_test_mismatch()
    return f"the native engine is wrong on this machine: {mismatch}" if mismatch else ""


def predict_backend(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> Backend:
    """Return the choice of `auto` for a run in these spaces."""
    if obstacle := native_obstacle(config, observations, actions):
        return Backend(TORCH, obstacle)
    return _fastest_backend(
        config, _max_width(config, observations, actions), config.algo.update_rows(config.env.n_envs)
    )


def predict_backend_between(
    configs: Sequence[RunConfig],
    observations: ObservationCodec,
    actions: ActionCodec,
) -> Backend:
    """Return the choice of `auto` for a range of runs of one algorithm: torch unless native suits all.

    Sizes of networks and updates range from the smallest to the largest of the configurations.
    """
    for config in configs:
        if (backend := predict_backend(config, observations, actions)).name == TORCH:
            return backend
    measurements = [cell for cells in _measurements(configs[0].algo.name).values() for cell in cells]
    widths = [_max_width(config, observations, actions) for config in configs]
    row_counts = [config.algo.update_rows(config.env.n_envs) for config in configs]
    candidate_widths = _sizes_between(widths, [cell["width"] for cell in measurements])
    candidate_rows = _sizes_between(row_counts, [cell["rows"] for cell in measurements])
    backends = [
        _fastest_backend(configs[0], width, n_rows) for width in candidate_widths for n_rows in candidate_rows
    ]
    return next((backend for backend in backends if backend.name == TORCH), backends[0])


def _sizes_between(sizes: Sequence[int], measured: Iterable[int]) -> list[int]:
    """Return the smallest and the largest size, and the measured sizes between them."""
    low, high = min(sizes), max(sizes)
    return sorted({low, high, *(size for size in measured if low < size < high)})


def _max_width(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> int:
    return config.algo.widest_layer(observations.input_dim, actions.size, actions.is_discrete)


def _order_memory_obstacle(config: RunConfig) -> str:
    """Say if the shuffled row indices of all epochs, held at once by native, are too large; else empty."""
    order_bytes = config.algo.shuffle_bytes(config.env.n_envs)
    return (
        f"the shuffled row indices of its epochs take {order_bytes / 2**30:.1f} GiB"
        if order_bytes > MAX_ORDER_BYTES
        else ""
    )


def _fastest_backend(config: RunConfig, width: int, rows: int) -> Backend:
    """Return the faster backend for this width and rows per update if both were measured; else torch."""
    if config.torch_threads > 1:
        threads = f"torch_threads={config.torch_threads}"
        return Backend(TORCH, f"{threads}, and native updates with one thread")
    cpu, name = cpu_kind(), config.algo.name
    measurements = _measurements(name)
    if not measurements:
        return Backend(TORCH, f"native {name} was not measured on this kind of CPU ({cpu})")
    found = [_find_measurement(cells, width, rows) for cells in measurements.values()]
    cells = [cell for cell in found if cell is not None]
    if len(cells) < len(found):
        sizes_asked = f"layers {width} wide, {rows:,} rows an update"
        return Backend(TORCH, f"native was not measured at such sizes ({sizes_asked})")
    measurement = min(cells, key=lambda cell: cell["ratio"])  # on the safe side
    sizes = f"layers {measurement['width']} wide, {measurement['rows']:,} rows an update"
    other_kinds = [] if cpu in measurements else list(measurements)
    origin = f", on {' or '.join(other_kinds)}; {cpu} was not measured" if other_kinds else ""
    name = NATIVE if measurement["ratio"] > 1.0 else TORCH
    # environments in Python are no faster with native updates
    if name == NATIVE and not uses_native(config.env):
        return Backend(name, f"its updates were measured to be faster than torch's ({sizes}){origin}")
    return Backend(
        name, f"native was measured at {measurement['ratio']:g} times torch's speed ({sizes}){origin}"
    )


def _measurements(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the measurements of an algorithm on this kind of CPU; without any, those of comparable kinds.

    These have the same architecture, and this CPU has their vector instructions.
    """
    cpu = cpu_kind()
    measured = {
        kind: entry["algorithms"][name] for kind, entry in _table().items() if name in entry["algorithms"]
    }
    if cpu in measured:
        return {cpu: measured[cpu]}
    architecture, vectors, vector_kinds = cpu.split()[0], cpu.split()[-1], list(VECTOR_FLAGS)
    available = vector_kinds[vector_kinds.index(vectors) :] if vectors in vector_kinds else []
    return {
        kind: cells
        for kind, cells in measured.items()
        if kind.split()[0] == architecture and kind.split()[-1] in available
    }


def native_refusal_message(obstacle: str) -> str:
    """Return the error message for a requested native engine that has this `obstacle`."""
    return f"algo.backend=native: {obstacle}; make the run with algo.backend=torch"


@cache
def cpu_kind() -> str:
    """Return architecture, vendor and widest vector instructions that torch would use, as far as known."""
    return " ".join((platform.machine(), _vendor(), _vector_kind()))


CPUINFO = Path("/proc/cpuinfo")

# CPU flags that torch requires for its kernels of each kind (c10/utils/cpuid, x86); a CPU with the vectors of
# one kind has those of the kinds below.
VECTOR_FLAGS = {
    "AVX512": ("avx512f", "avx512bw", "avx512vl", "avx512dq", "fma"),
    "AVX2": ("avx2", "fma"),
}


def _vendor(cpuinfo: Path = CPUINFO) -> str:
    return _cpuinfo_value(cpuinfo, "vendor_id") or platform.processor() or "unknown"


def _vector_kind(cpuinfo: Path = CPUINFO) -> str:
    """Return `torch.backends.cpu.get_cpu_capability()` without torch."""
    flags = _cpuinfo_value(cpuinfo, "flags").split()
    kinds = (kind for kind, required_flags in VECTOR_FLAGS.items() if set(required_flags) <= set(flags))
    return next(kinds, "DEFAULT")


def _cpuinfo_value(cpuinfo: Path, key: str) -> str:
    """Return an entry of the first CPU in cpuinfo; empty if the file or line is missing."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE_FILE.read_text("utf-8"))
    return table


def _find_measurement(measured: list[dict[str, Any]], width: int, rows: int) -> dict[str, Any] | None:
    """Return the measurement of the smallest sizes not below these, or None; larger sizes favour torch."""
    candidates = (cell for cell in measured if cell["width"] >= width and cell["rows"] >= rows)
    return min(candidates, key=lambda cell: (cell["width"], cell["rows"]), default=None)


def unsupported_fields(config: AlgorithmConfig) -> str:
    """Name a field that the native engine does not implement, in words; empty if it implements all."""
    algo: Any = config  # each subclass declares name
    backend_field = algo.__dataclass_fields__.get("backend")
    engines = backend_field.metadata.get("choices") if backend_field is not None else None
    if algo.name not in ALGO_CONFIGS.builtin_names or NATIVE not in (engines or ()):
        return f"{algo.name} has no native engine"
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in config.native_fields and value != default_of(field):
            value_text = display_name(value) if field.metadata.get("code") else value
            return f"the native engine does not implement algo.{field.name} (it is {value_text})"
    return ""


def native_input_obstacle(has_images: bool, has_critic_obs: bool) -> str:
    """Say why the native engine cannot learn from these observations; empty if it can."""
    if has_images:
        return "native learns from vectors, not from images"
    if has_critic_obs:
        return "in native the actor sees all that the critic sees (env.critic_obs)"
    return ""


def native_space_obstacle(
    algo: Any, actions: ActionCodec, device: str, input_obstacle: str, is_masked: bool = False
) -> str:
    """Say why the native engine cannot learn in these spaces on this device; empty if it can.

    `input_obstacle` is the result of `native_input_obstacle`; `is_masked`: whether the environment has action
    masks.
    """
    if actions.kind == "factored":
        return "native learns one choice or one vector, not actions of several parts"
    if obstacle := algo.native_obstacle(actions.is_discrete, is_masked):
        return str(obstacle)
    if input_obstacle:
        return input_obstacle
    if device != "cpu":
        return f"native learns on the CPU, not on device={device}"
    return ""


def require_native(
    algo: Any, actions: ActionCodec, device: str, input_obstacle: str, is_masked: bool = False
) -> None:
    """Raise `NativeUnsupportedError` if `native_space_obstacle` names an obstacle."""
    if obstacle := native_space_obstacle(algo, actions, device, input_obstacle, is_masked):
        raise NativeUnsupportedError(obstacle)
