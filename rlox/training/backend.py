"""Which engine learns: the one asked for, or under `auto` the one that was measured to be faster.

`backend_table.json` beside this file has the measurements, which `benchmarks/backend_table.py` makes: by
kind of CPU and algorithm, how many times as long torch takes for a whole training, of networks of that
width and updates of that many rows, one thread each.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlox.configs import RunConfig
from rlox.errors import ConfigError
from rlox.parameters.layout import widest
from rlox.policies.engine import NativeRefused
from rlox.training.native_fields import not_in_native

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

__all__ = ["BY_TORCH", "NATIVE", "Backend", "Choice", "cpu_kind", "no_native"]

AUTO, NATIVE, TORCH = "auto", "native", "torch"
TABLE = Path(__file__).with_name("backend_table.json")
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
    rows : rows of an update
    kept : what `auto` took when the run began, which it takes again where that is possible
    why_torch : in words, why `auto` takes torch whatever was measured; empty where nothing speaks for it

    Attributes
    ----------
    made : which engine `learner` took
    """

    def __init__(
        self,
        asked: str,
        config: RunConfig,
        rows: int,
        kept: str | None = None,
        why_torch: str = "",
    ) -> None:
        self._algo, self._asked = config.algo.name, asked
        self._missing = "" if asked == TORCH else not_in_native(config.algo)
        if asked == NATIVE and self._missing:
            raise ConfigError(no_native(self._missing))
        self._rows, self._threads, self._kept = rows, config.torch_threads, kept
        self._why_torch = why_torch
        self.made = BY_TORCH

    @property
    def surely_torch(self) -> bool:
        """Whether torch is the engine of every policy."""
        return self._asked == TORCH or bool(self._asked == AUTO and self._forced)

    @property
    def _forced(self) -> str:
        """Why `auto` takes torch whatever was measured; empty where nothing speaks for it."""
        return self._missing or self._why_torch

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
            return Backend(self._kept, "as when the run began")
        if self._threads > 1:
            return Backend(TORCH, f"torch_threads={self._threads}, native's updates take one")
        kind, width = cpu_kind(), wide()
        here = _table().get(kind, {}).get("algorithms", {})
        measured = here.get(self._algo)
        if measured is None:
            what = f"{self._algo} in native" if here else "native"
            return Backend(TORCH, f"{what} was not measured on this kind of CPU, {kind}")
        cell = _cell(measured, width, self._rows)
        if cell is None:
            size = f"{width} wide, {self._rows:,} rows an update"
            return Backend(TORCH, f"native was not measured at such sizes: {size}")
        ratio, at = cell["ratio"], f"{cell['width']} wide, {cell['rows']:,} rows an update"
        return Backend(
            NATIVE if ratio > 1.0 else TORCH,
            f"native was measured at {ratio:g} times torch's speed, {at}",
        )


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
