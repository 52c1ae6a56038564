"""Child processes in which floating point gives the same bits on every x86 CPU.

PyTorch, MKL, oneDNN, NumPy, OpenBLAS and the C library each choose a kernel by the CPU that they find, and
kernels for wider vectors sum in another order or fuse multiplication and addition. An exact comparison with
numbers that another machine computed holds where every library is held to the kernels that all CPUs have:

| variable | what it holds |
|---|---|
| `ATEN_CPU_CAPABILITY=default` | PyTorch's own kernels: those without AVX2 and AVX-512 |
| `MKL_CBWR=COMPATIBLE` | PyTorch's matrix products (MKL): its branch of the same results on all CPUs |
| `ONEDNN_MAX_CPU_ISA=SSE41` | convolutions (oneDNN): code for SSE4.1 |
| `NPY_DISABLE_CPU_FEATURES` | NumPy's loops: all that this build dispatches is off, so the baseline is left |
| `OPENBLAS_CORETYPE=Nehalem` | NumPy's matrix products (OpenBLAS): kernels for SSE4.2, with fixed blocks |
| `GLIBC_TUNABLES` | `exp`, `log`, `sin`, `pow` of the C library: the variants without FMA |
| `*_NUM_THREADS=1` | the number of threads, by which products are cut |

rlox's own core is not in the table, as it offers no such choice: environments, advantages and buffers never
fuse and give the same bits anywhere; the native engine (`math::in_place`, products of matrices) fuses
where the CPU has FMA, which every x86 CPU with AVX2 does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from numpy._core import _multiarray_umath

from helpers.waiting import PATIENCE

TESTS = Path(__file__).resolve().parents[1]
LONGEST = 10 * PATIENCE
"""Seconds after which a child is taken for a hang."""

# Names before and since glibc 2.33; a name that the library does not know is ignored.
_OF_GLIBC = (
    "AVX2",
    "AVX2_Usable",
    "AVX512F",
    "AVX512F_Usable",
    "FMA",
    "FMA_Usable",
    "FMA4",
    "FMA4_Usable",
)
PINS: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    # what the build dispatches, whether this CPU has it or not: other names only raise warnings
    "NPY_DISABLE_CPU_FEATURES": ",".join(_multiarray_umath.__cpu_dispatch__),
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _OF_GLIBC),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def environment() -> dict[str, str]:
    """The variables of this process, those of the table, and `tests` among the folders of modules."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **PINS, "PYTHONPATH": path}


def run(module: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module args`, e.g. `parity.table`, at the root of the checkout; what it prints is text.

    Raises `AssertionError` with the end of its standard error if the process fails.
    """
    process = subprocess.run(
        [sys.executable, "-P", "-m", module, *args],  # -P: rlox is the one that is installed
        cwd=TESTS.parent, env=environment(), capture_output=True, text=True, timeout=LONGEST,
        check=False,
    )  # fmt: skip
    assert process.returncode == 0, f"{module} ended with {process.returncode}:\n{process.stderr[-4000:]}"
    return process
