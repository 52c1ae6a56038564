"""`rlox doctor`: print one finding per line, and the broken items at the end."""

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
from rlox.extras import DISTRIBUTION, install_command
from rlox.runs.preflight import available_memory, memory_limit
from rlox_cli.config.options import user_conf_folders
from rlox_cli.config.plugin_states import IGNORED, plugin_state
from rlox_cli.health import requirements
from rlox_cli.runs.provenance import cores, cpu_model

INDENT = 15
# CartPole's state one step after it stood still and upright at 0 and was pushed to the right, by the
# equations of Barto, Sutton and Anderson (1983): (0, 8/41, 0, -12/41).
EXPECTED_STATE = (0.0, 8 / 41, 0.0, -12 / 41)
N_ENVS = 20_000  # enough to split the step among several threads


@dataclass(frozen=True)
class Finding:
    """One line of output; `is_broken`: rlox cannot work until this is repaired."""

    subject: str
    message: str
    is_broken: bool = False


def examine(run_root: str) -> int:
    """Print the diagnostics and return the number of broken items."""
    sections: dict[str, Callable[[], Iterator[Finding]]] = {
        "machine": lambda: _machine(run_root),
        "packages": _packages,
        "native code": _native,
        "GPU": _gpu,
        "extras": _extras,
        "plugins": _plugins,
        "conf folders": _conf_folders,
    }
    broken_findings: list[Finding] = []
    print(f"rlox {requirements.own_version()}")
    for title, collect in sections.items():
        findings = list(collect())
        if findings:
            print(f"\n{title}", *map(_line, findings), sep="\n", flush=True)
        broken_findings += [diagnostic for diagnostic in findings if diagnostic.is_broken]
    names = ", ".join(diagnostic.subject for diagnostic in broken_findings)
    print(f"\nbroken: {names}" if broken_findings else "\nall that rlox needs is here and works")
    return len(broken_findings)


def _line(finding: Finding) -> str:
    head = f"  {finding.subject:<{INDENT - 4}}  "
    message = f"BROKEN: {finding.message}" if finding.is_broken else finding.message
    return textwrap.fill(
        message,
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
    available, limit = available_memory(), memory_limit()
    if available is not None and limit is not None:
        yield Finding("memory", f"{_size(available)} free of the {_size(limit)} that this process may use")
    yield _disk(Path(run_root).expanduser())


def _quota(root: Path = Path("/")) -> str:
    """Return the CPU time that the control group allows (cgroup v2), as text; empty if unlimited."""
    try:
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        limit = int(quota) / int(period)
        return f"; its control group allows it the CPU time of {limit:g} core{'s' * (limit != 1)}"
    except (OSError, ValueError):  # no control group, or no limit (`max`)
        return ""


def _disk(run_root: Path) -> Finding:
    existing_path = next(p for p in (run_root.absolute(), *run_root.absolute().parents) if p.exists())
    if not existing_path.is_dir():
        return Finding("disk", f"{existing_path} is a file; choose a folder with run_root=FOLDER", True)
    free_text = _size(shutil.disk_usage(existing_path).free)
    if not os.access(existing_path, os.W_OK | os.X_OK):
        return Finding(
            "disk", f"{existing_path} cannot be written; choose another folder: run_root=FOLDER", True
        )
    return Finding("disk", f"{free_text} free for {run_root}")


def _packages() -> Iterator[Finding]:
    """Check that each required package is installed, in a version that fits, and can be imported."""
    if (other := requirements.version("rlox")) is not None:
        message = (
            f"the installed package rlox {other} is another project, not {DISTRIBUTION}: pip uninstall rlox"
        )
        yield Finding("rlox", message, True)
    required = requirements.required_packages()
    if required is None:
        yield Finding("rlox", "is not installed, so its requirements are unknown: pip install .")
        return
    for need in required:
        module = requirements.MODULES.get(need.name)
        if need.problem:
            yield Finding(need.name, f"{need.problem}; pip install '{need.specification}'", True)
        elif module and (error := _import_error(module)):
            command = f"pip install --force-reinstall '{need.specification}'"
            yield Finding(need.name, f"{need.version} cannot be imported: {error}; {command}", True)
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
        command = f"pip install --force-reinstall {DISTRIBUTION}"
        message = f"cannot be imported: {error}; install rlox again: {command}"
        yield Finding("rlox._core", message, True)
        return
    import rlox

    if (unexpected := _wrong_step()) is not None:
        message = f"a step of CartPole gives {unexpected}, expected {EXPECTED_STATE}; please report it"
        yield Finding("rlox._core", message, True)
        return
    threads = rlox.num_threads()
    yield Finding("rlox._core", f"{N_ENVS:,} CartPoles step as they should, on {threads} threads")
    yield _engine()


def _engine() -> Finding:
    """Check that an update of the native engine gives the numbers that torch gives."""
    try:
        from rlox.parameters import self_test
    except ImportError as error:  # a package is missing; `_packages` reports it
        return Finding("engine", f"not tried: {' '.join(str(error).split())}")
    if (message := self_test.self_test_mismatch()) is not None:
        return Finding("engine", f"{message}; please report it, and use algo.backend=torch", True)
    return Finding("engine", "its updates match torch's (algo.backend=native)")


def _wrong_step() -> tuple[float, ...] | None:
    """Step many equal states once and return the first result that is not `EXPECTED_STATE`, if any."""
    import numpy as np

    import rlox

    env = rlox.VecEnv(N_ENVS, 0, "CartPole-v1")
    env.reset_all()
    env.set_state(np.zeros((N_ENVS, 4)))
    after = np.asarray(env.step_all(np.ones(N_ENVS, np.int64))["obs"])
    is_wrong = ~np.isclose(after, EXPECTED_STATE, rtol=0, atol=1e-6).all(axis=1)
    return tuple(map(float, after[is_wrong][0])) if is_wrong.any() else None


def _gpu() -> Iterator[Finding]:
    try:
        import torch
    except Exception:  # `_packages` reports it
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for number in range(count):
        properties = torch.cuda.get_device_properties(number)
        yield Finding(f"cuda:{number}", f"{properties.name}, {_size(properties.total_memory)}")
    if torch.backends.mps.is_available():
        yield Finding("mps", "Apple's GPU: device=mps")
    elif not count and Path("/proc/driver/nvidia/version").exists():
        message = f"an NVIDIA driver is installed, but torch {torch.__version__} does not use it"
        address = "https://pytorch.org/get-started"
        yield Finding("none", f"{message}; to choose a build of torch that does: {address}")
    elif not count:
        yield Finding("none", "torch finds no GPU; runs use the CPU")


def _extras() -> Iterator[Finding]:
    """Check the optional packages and give the command that installs each extra."""
    for extra, needs in requirements.extras().items():
        problems = [f"{need.name} {need.problem}" for need in needs if need.problem]
        if not problems:
            message = ", ".join(f"{need.name} {need.version}" for need in needs)
        elif all(need.version is None for need in needs if need.problem):
            message = f"missing; {install_command(extra)}"
        else:
            message = f"{'; '.join(problems)}; {install_command(extra)}"
        yield Finding(extra, message)
    if undeclared := requirements.undeclared_extras():
        yield Finding(
            "not listed",
            f"{', '.join(undeclared)}: these extras were added after rlox was installed from this checkout; "
            "run in the checkout: pip install -e .",
        )


def _plugins() -> Iterator[Finding]:
    """List the packages that offer plugins, and the plugins that are ignored; none is imported."""
    for source in sorted({entry.source for entry in plugins.plugin_entries()}):
        entries = [entry for entry in plugins.plugin_entries() if entry.source == source]
        ready = [o.entry_point.name for o in entries if plugin_state(o) == "ready"]
        yield Finding(source, ", ".join(ready) or "no plugin that is used")
        for entry in entries:
            if (reason := plugin_state(entry)).startswith(IGNORED):
                yield Finding("", f"{entry.entry_point.name}: {reason}")


def _conf_folders() -> Iterator[Finding]:
    """List the user's configuration folders; they may set keys that nobody typed."""
    for path in user_conf_folders():
        yield Finding("yours", f"{path}, from RLOX_CONF_PATH")


def _size(n: int) -> str:
    return f"{n / 2**30:.1f} GiB"
