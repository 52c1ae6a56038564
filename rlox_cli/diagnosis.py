"""What `rlox doctor` says: one finding a line, and what is broken at the end."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlox import plugins
from rlox.extras import install
from rlox.runs.preflight import available_memory, memory_limit
from rlox_cli import requirements
from rlox_cli.options import own_folders
from rlox_cli.plugin_states import IGNORED, state
from rlox_cli.provenance import cores, cpu_model

INDENT = 15
# The state of CartPole a step after standing still and upright at 0 and being pushed to the right, by the
# equations of Barto, Sutton and Anderson (1983): (0, 8/41, 0, -12/41).
PUSHED = (0.0, 8 / 41, 0.0, -12 / 41)
ENVS = 20_000  # enough for several threads to share the step


@dataclass(frozen=True)
class Finding:
    """One line; `broken` says that rlox cannot do without."""

    what: str
    told: str
    broken: bool = False


def examine(run_root: str) -> int:
    """Print what is found; how many things are broken."""
    parts: dict[str, Callable[[], Iterator[Finding]]] = {
        "machine": lambda: _machine(run_root),
        "packages": _packages,
        "native code": _native,
        "GPU": _gpu,
        "extras": _extras,
        "plugins": _plugins,
        "conf folders": _conf_folders,
    }
    broken: list[Finding] = []
    print(f"rlox {requirements.own_version()}")
    for title, look in parts.items():
        found = list(look())
        if found:
            print(f"\n{title}", *map(_line, found), sep="\n", flush=True)
        broken += [finding for finding in found if finding.broken]
    names = ", ".join(finding.what for finding in broken)
    print(f"\nbroken: {names}" if broken else "\nall that rlox needs is here and works")
    return len(broken)


def _line(finding: Finding) -> str:
    head = f"  {finding.what:<{INDENT - 4}}  "
    told = f"BROKEN: {finding.told}" if finding.broken else finding.told
    return textwrap.fill(
        told,
        max(40, min(80, shutil.get_terminal_size().columns)),
        initial_indent=head,
        subsequent_indent=" " * INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _machine(run_root: str) -> Iterator[Finding]:
    yield Finding("system", f"{platform.platform()}, Python {platform.python_version()}")
    yield Finding("CPU", cpu_model())
    yield Finding("cores", f"{cores()} for this process, of {os.cpu_count()}{_quota()}")
    free, most = available_memory(), memory_limit()
    if free is not None and most is not None:
        yield Finding("memory", f"{_size(free)} free of the {_size(most)} it may have")
    yield _disk(Path(run_root).expanduser())


def _quota(root: Path = Path("/")) -> str:
    """What a control group leaves of them (cgroup v2)."""
    try:
        most, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return f"; its control group has the time of {int(most) / int(period):g}"
    except (OSError, ValueError):  # none, or `max`
        return ""


def _disk(run_root: Path) -> Finding:
    place = next(p for p in (run_root.absolute(), *run_root.absolute().parents) if p.exists())
    if not place.is_dir():
        return Finding(
            "disk", f"{place} is a file, runs are made in folders: run_root=FOLDER", True
        )
    free = _size(shutil.disk_usage(place).free)
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding("disk", f"{place} cannot be written, choose another: run_root=FOLDER", True)
    return Finding("disk", f"{free} free for {run_root}")


def _packages() -> Iterator[Finding]:
    """What rlox needs in any case: is it there, in a version that fits, and does it import?"""
    if (other := requirements.version("rlox")) is not None:
        told = f"the package rlox {other} is another project; pip uninstall rlox"
        yield Finding("rlox", told, True)
    found = requirements.needed()
    if found is None:
        yield Finding("rlox", "is not installed, so what it needs is not known: pip install .")
        return
    for need in found:
        module = requirements.MODULES.get(need.name)
        if need.problem:
            yield Finding(need.name, f"{need.problem}; pip install '{need.asked}'", True)
        elif module and (error := _import_error(module)):
            again = f"pip install --force-reinstall '{need.asked}'"
            yield Finding(need.name, f"{need.version}, does not import: {error}; {again}", True)
        else:
            yield Finding(need.name, str(need.version))


def _import_error(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _native() -> Iterator[Finding]:
    if error := _import_error("rlox._core"):
        told = f"does not import: {error}; install rlox again: pip install --force-reinstall rlox"
        yield Finding("rlox._core", told, True)
        return
    import rlox

    if (wrong := _wrong_step()) is not None:
        told = f"a step of CartPole gives {wrong}, expected {PUSHED}; please report it"
        yield Finding("rlox._core", told, True)
        return
    threads = rlox.num_threads()
    yield Finding("rlox._core", f"{ENVS:,} CartPoles step as they should, on {threads} threads")
    yield _engine()


def _engine() -> Finding:
    """Does the native engine learn what torch would?"""
    try:
        from rlox.policies import golden
    except ImportError as error:  # of a package, which is told with the packages
        return Finding("engine", f"not tried: {' '.join(str(error).split())}")
    if (told := golden.wrong()) is not None:
        return Finding("engine", f"{told}; please report it, and use algo.backend=torch", True)
    return Finding("engine", "learns what torch would (algo.backend=native)")


def _wrong_step() -> tuple[float, ...] | None:
    """The first of many equal states after a step that is not `PUSHED`."""
    import numpy as np

    import rlox

    env = rlox.VecEnv(ENVS, 0, "CartPole-v1")
    env.reset_all()
    env.set_state(np.zeros((ENVS, 4)))
    after = np.asarray(env.step_all(np.ones(ENVS, np.int64))["obs"])
    off = ~np.isclose(after, PUSHED, rtol=0, atol=1e-6).all(axis=1)
    return tuple(map(float, after[off][0])) if off.any() else None


def _gpu() -> Iterator[Finding]:
    try:
        import torch
    except Exception:  # told with the packages
        return
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for number in range(found):
        about = torch.cuda.get_device_properties(number)
        yield Finding(f"cuda:{number}", f"{about.name}, {_size(about.total_memory)}")
    if torch.backends.mps.is_available():
        yield Finding("mps", "Apple's GPU: device=mps")
    elif not found and Path("/proc/driver/nvidia/version").exists():
        told = f"a driver is here, but torch {torch.__version__} does not use it"
        yield Finding("none", f"{told}; which torch does: https://pytorch.org/get-started")
    elif not found:
        yield Finding("none", "that torch can use: runs are on the CPU")


def _extras() -> Iterator[Finding]:
    """What is optional, and the line that installs it."""
    for extra, needs in requirements.extras().items():
        problems = [f"{need.name} {need.problem}" for need in needs if need.problem]
        if not problems:
            told = ", ".join(f"{need.name} {need.version}" for need in needs)
        elif all(need.version is None for need in needs if need.problem):
            told = f"missing; {install(extra)}"
        else:
            told = f"{'; '.join(problems)}; {install(extra)}"
        yield Finding(extra, told)
    if newer := requirements.undeclared():
        yield Finding(
            "not listed",
            f"{', '.join(newer)}: rlox was installed from this checkout before they were extras of it; "
            "in the checkout: pip install -e .",
        )


def _plugins() -> Iterator[Finding]:
    """Which packages offer something, and what of it is not used; none is imported."""
    for source in sorted({offer.source for offer in plugins.offers()}):
        offers = [offer for offer in plugins.offers() if offer.source == source]
        ready = [o.point.name for o in offers if state(o) == "ready"]
        yield Finding(source, ", ".join(ready) or "nothing that is used")
        for offer in offers:
            if (how := state(offer)).startswith(IGNORED):
                yield Finding("", f"{offer.point.name}: {how}")


def _conf_folders() -> Iterator[Finding]:
    """The user's own, from which a key may have a value that nobody typed."""
    for path in own_folders():
        yield Finding("yours", f"{path}, of RLOX_CONF_PATH")


def _size(n: int) -> str:
    return f"{n / 2**30:.1f} GiB"
