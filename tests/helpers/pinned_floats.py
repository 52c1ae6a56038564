"""Runs child processes whose floating-point results have the same bits on every x86 CPU.

PyTorch, MKL, oneDNN, NumPy, OpenBLAS and the C library each choose a kernel by the CPU. Kernels for wider
vectors sum in another order or fuse multiplication and addition. An exact comparison with numbers from
another machine works only if every library uses the kernels that all CPUs have:

| variable | effect |
|---|---|
| `ATEN_CPU_CAPABILITY=default` | PyTorch's own kernels: those without AVX2 and AVX-512 |
| `MKL_CBWR=COMPATIBLE` | PyTorch's matrix products (MKL): its branch with the same results on all CPUs |
| `ONEDNN_MAX_CPU_ISA=SSE41` | convolutions (oneDNN): code for SSE4.1 |
| `NPY_DISABLE_CPU_FEATURES` | NumPy's loops: the baseline; the features that this build dispatches are off |
| `OPENBLAS_CORETYPE=Nehalem` | NumPy's matrix products (OpenBLAS): kernels for SSE4.2, with fixed blocks |
| `GLIBC_TUNABLES` | `exp`, `log`, `sin`, `pow` of the C library: the variants without FMA |
| `*_NUM_THREADS=1` | the number of threads, which determines how products are split |

The table leaves out rlox's core, which has no such choice: environments, advantages and buffers never fuse
and give the same bits on any CPU. The native engine (`math::in_place`, matrix products) fuses if the CPU has
FMA, as every x86 CPU with AVX2 does.
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
"""Seconds after which a child counts as hung."""

# Names before and since glibc 2.33; the library ignores a name that it does not know.
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
    # The features that the build dispatches, on any CPU: other names only raise warnings.
    "NPY_DISABLE_CPU_FEATURES": ",".join(_multiarray_umath.__cpu_dispatch__),
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _OF_GLIBC),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def environment() -> dict[str, str]:
    """Return the variables of this process and of the table, with `tests` in the module path."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **PINS, "PYTHONPATH": path}


def run(module: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module args`, e.g. `parity.table`, at the root of the checkout; its output is text.

    Raises `AssertionError` with the end of its standard error if the process fails.
    """
    process = subprocess.run(
        [sys.executable, "-P", "-m", module, *args],  # -P: imports the installed rlox
        cwd=TESTS.parent, env=environment(), capture_output=True, text=True, timeout=LONGEST,
        check=False,
    )  # fmt: skip
    assert process.returncode == 0, f"{module} ended with {process.returncode}:\n{process.stderr[-4000:]}"
    return process
