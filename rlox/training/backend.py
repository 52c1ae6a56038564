"""Which engine learns: the one asked for, or under `auto` the one that was measured to be faster.

`foreseen` says it of a run that is not made yet, from its configuration and the spaces of its environment.

`backend_table.json` beside this file has the measurements, which `benchmarks/backend_table.py` makes: by
kind of CPU and algorithm, how many times as long torch takes for a whole training, of networks of that
width and updates of that many rows, one thread each.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.configs import RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import uses_native
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.parameters.layout import widest
from rlox.policies import golden
from rlox.policies.engine import NativeRefused
from rlox.training.device import device_of_auto
from rlox.training.native_fields import not_in_native, not_of_spaces

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

__all__ = [
    "AUTO",
    "BY_TORCH",
    "NATIVE",
    "TORCH",
    "Backend",
    "Choice",
    "cpu_kind",
    "foreseen",
    "foreseen_between",
    "impossible",
    "no_native",
]

AUTO, NATIVE, TORCH = "auto", "native", "torch"
TABLE = Path(__file__).with_name("backend_table.json")
MANY = 2**30  # bytes of the orders in which all epochs of an update go through a rollout
L = TypeVar("L")


@dataclass(frozen=True)
class Backend:
    """The engine that learns, `torch` or `native`, and in words why `auto` took it.

    No words where it was asked for.
    """

    name: str
    reason: str = ""

    @property
    def line(self) -> str:
        """For people; nothing of one that was asked for."""
        return f"\n  backend {self.name}: {self.reason}" if self.reason else ""


BY_TORCH = Backend(TORCH)


class Choice:
    """Makes a learner with the engine that is asked for, or that `auto` takes.

    Parameters
    ----------
    asked : `algo.backend`
    config : of the run; what was measured had one thread
    kept : what `auto` took when the run began, which it takes again where that is possible

    Attributes
    ----------
    made : which engine `learner` took
    """

    def __init__(self, asked: str, config: RunConfig, kept: str | None = None) -> None:
        self._config, self._asked, self._kept = config, asked, kept
        missing = "" if asked == TORCH else not_in_native(config.algo)
        if asked == NATIVE and missing:
            raise ConfigError(no_native(missing))
        # why `auto` takes torch whatever was measured; empty where nothing speaks for it
        self._forced = missing or _too_many_orders(config)
        self.made = BY_TORCH

    @property
    def surely_torch(self) -> bool:
        """Whether torch is the engine of every policy."""
        return self._asked == TORCH or bool(self._asked == AUTO and self._forced)

    def learner(self, policy: nn.Module, native: Callable[[], L], otherwise: Callable[[], L]) -> L:
        """What `native` makes, or `otherwise`, of which torch is the engine."""
        shapes = ((name, tuple(p.shape)) for name, p in policy.named_parameters())
        found = self.native(lambda: widest(shapes), native)
        return otherwise() if found is None else found

    def native(self, width: Callable[[], int], make: Callable[[], L]) -> L | None:
        """What `make` makes where the engine of networks so wide is native; `None`: it is torch."""
        self.made = self._best(width) if self._asked == AUTO else Backend(self._asked)
        if self.made.name != NATIVE:
            return None
        try:
            return make()
        except NativeRefused as error:
            if self._asked != AUTO:
                raise
            self.made = Backend(TORCH, error.why)
            return None

    def _best(self, wide: Callable[[], int]) -> Backend:
        if self._forced:
            return Backend(TORCH, self._forced)
        if self._kept is not None:
            return Backend(self._kept, "it learned last")
        return _measured(
            self._config, wide(), self._config.algo.update_rows(self._config.env.n_envs)
        )


def impossible(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> str:
    """Why the native engine cannot learn a run in these spaces, whatever was measured; empty: it can.

    Of a policy of the user's own only torch says what it is, so that it counts as one that it cannot.
    """
    if missing := not_in_native(config.algo) or _too_many_orders(config):
        return missing
    if config.algo.own_policy:
        return "the policy is one of your own (algo.policy)"
    spaces = bool(observations.images), observations.masked > 0
    auto = config.device == AUTO
    device = device_of_auto(config, lambda: spaces[0]).name if auto else config.device
    if why := not_of_spaces(config.algo, actions, device, *spaces):
        return why
    told = golden.wrong()
    return f"the native engine is wrong on this machine: {told}" if told else ""


def foreseen(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> Backend:
    """What `auto` takes for a run in these spaces."""
    if why := impossible(config, observations, actions):
        return Backend(TORCH, why)
    return _measured(
        config, _widest(config, observations, actions), config.algo.update_rows(config.env.n_envs)
    )


def foreseen_between(
    configs: Sequence[RunConfig],
    observations: ObservationCodec,
    actions: ActionCodec,
) -> Backend:
    """What `auto` takes for every run of one algorithm between these: torch unless native is for all.

    Sizes of networks and updates may be any from the smallest to the largest of the configurations.
    """
    for config in configs:
        if (found := foreseen(config, observations, actions)).name == TORCH:
            return found
    cells = _table().get(cpu_kind(), {}).get("algorithms", {}).get(configs[0].algo.name, ())
    widths = [_widest(config, observations, actions) for config in configs]
    rows = [config.algo.update_rows(config.env.n_envs) for config in configs]
    wide = _steps_between(widths, [cell["width"] for cell in cells])
    many = _steps_between(rows, [cell["rows"] for cell in cells])
    each = [_measured(configs[0], width, count) for width in wide for count in many]
    return next((found for found in each if found.name == TORCH), each[0])


def _steps_between(sizes: Sequence[int], measured: Iterable[int]) -> list[int]:
    """The smallest and the largest of the sizes, and what was measured between them."""
    low, high = min(sizes), max(sizes)
    return sorted({low, high, *(size for size in measured if low < size < high)})


def _widest(config: RunConfig, observations: ObservationCodec, actions: ActionCodec) -> int:
    return config.algo.widest_layer(observations.seen, actions.size, actions.discrete)


def _too_many_orders(config: RunConfig) -> str:
    """Why native, which has the orders of all epochs at once, is not taken; empty where they are small."""
    held = config.algo.orders_bytes(config.env.n_envs)
    return f"the orders of its epochs take {held / 2**30:.1f} GiB" if held > MANY else ""


def _measured(config: RunConfig, width: int, rows: int) -> Backend:
    """The faster one for layers so wide and updates of so many rows, if both were measured; else torch."""
    if config.torch_threads > 1:
        threads = f"torch_threads={config.torch_threads}"
        return Backend(TORCH, f"{threads}, and native updates with one thread")
    kind, name = cpu_kind(), config.algo.name
    here = _table().get(kind, {}).get("algorithms", {})
    measured = here.get(name)
    if measured is None:
        what = f"native {name}" if here else "native"
        return Backend(TORCH, f"{what} was not measured on this kind of CPU ({kind})")
    cell = _cell(measured, width, rows)
    if cell is None:
        size = f"layers {width} wide, {rows:,} rows an update"
        return Backend(TORCH, f"native was not measured at such sizes ({size})")
    at = f"layers {cell['width']} wide, {cell['rows']:,} rows an update"
    name = NATIVE if cell["ratio"] > 1.0 else TORCH
    if name == NATIVE and not uses_native(config.env):  # what Python steps is no faster for it
        return Backend(name, f"its updates were measured to be faster than torch's ({at})")
    return Backend(name, f"native was measured at {cell['ratio']:g} times torch's speed ({at})")


def no_native(why: str) -> str:
    """The message of who asked for an engine that does not learn this, and `why` it does not."""
    return f"algo.backend=native: {why}; make the run with algo.backend=torch"


@cache
def cpu_kind() -> str:
    """Architecture, vendor and the widest vectors that torch would use, as far as they are known."""
    return " ".join((platform.machine(), _vendor(), _vectors()))


CPUINFO = Path("/proc/cpuinfo")

# What torch asks of a CPU for its kernels of that kind (c10/utils/cpuid, of x86).
VECTORS = {
    "AVX512": ("avx512f", "avx512bw", "avx512vl", "avx512dq", "fma"),
    "AVX2": ("avx2", "fma"),
}


def _vendor(cpuinfo: Path = CPUINFO) -> str:
    return _said(cpuinfo, "vendor_id") or platform.processor() or "unknown"


def _vectors(cpuinfo: Path = CPUINFO) -> str:
    """As `torch.backends.cpu.get_cpu_capability()` says it, without torch."""
    flags = _said(cpuinfo, "flags").split()
    found = (kind for kind, needed in VECTORS.items() if set(needed) <= set(flags))
    return next(found, "DEFAULT")


def _said(cpuinfo: Path, key: str) -> str:
    """What the kernel says of the first CPU; nothing where there is no such file or line."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    return table


def _cell(measured: list[dict[str, Any]], width: int, rows: int) -> dict[str, Any] | None:
    """The smallest measured sizes that are no smaller: torch gains with both. None beyond the largest."""
    fits = (cell for cell in measured if cell["width"] >= width and cell["rows"] >= rows)
    return min(fits, key=lambda cell: (cell["width"], cell["rows"]), default=None)
