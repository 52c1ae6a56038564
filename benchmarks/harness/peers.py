"""The libraries that rlox is compared with, and how to install them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.case import Case
from harness.programs import build_command, example_path

ORIGINAL_VERSION = "1.2.0"
INSTALL_PEERS = "pip install -c constraints.txt -e '.[peers]'"
INSTALL_ORIGINAL = f"--install-original, or --original PYTHON of an environment with rlox=={ORIGINAL_VERSION}"


@dataclass(frozen=True)
class Package:
    """A distribution, its module, and the command that installs it."""

    distribution: str
    module: str
    install: str = INSTALL_PEERS
    is_available: Callable[[], bool] | None = None  # checks availability if there is no module to import


def program_package(engine: str) -> Package:
    """Return a Rust example of this repository, which cargo builds."""
    is_built = lambda: example_path(engine).is_file()  # noqa: E731
    return Package(f"example steps_{engine}", "", build_command(engine), is_built)


def can_compile() -> bool:
    """Return whether torch.compile works here: it needs a C++ compiler."""
    from harness.torch_steps import can_compile

    return can_compile()


PACKAGES = {
    "rlox": Package("rlox-runner", "rlox", "pip install -c constraints.txt -e ."),
    "numpy": Package("numpy", "numpy"),
    "torch": Package("torch", "torch"),
    "gymnasium": Package("gymnasium", "gymnasium"),
    "sb3": Package("stable-baselines3", "stable_baselines3"),
    "torchrl": Package("torchrl", "torchrl"),
    "envpool": Package("envpool", "envpool"),
    "ale": Package("ale-py", "ale_py", "pip install -c constraints.txt -e '.[atari]'"),
    "opencv": Package("opencv-python-headless", "cv2", "pip install opencv-python-headless"),
    "inductor": Package("torch.compile", "", "apt-get install g++", can_compile),
    "engine cpu": program_package("cpu"),
    "candle": program_package("candle"),
    "burn": program_package("burn"),
    "original": Package(f"rlox {ORIGINAL_VERSION}", "", INSTALL_ORIGINAL),
}


class MissingPeersError(Exception):
    """Peers of the chosen rows are not installed."""


def is_importable(package: str) -> bool:
    """Return whether this interpreter finds the package's module, or the package's own check succeeds."""
    is_available = PACKAGES[package].is_available
    if is_available is not None:
        return is_available()
    return importlib.util.find_spec(PACKAGES[package].module) is not None


def missing_packages(cases: Iterable[Case], available: Callable[[str], bool]) -> list[str]:
    """Return the packages that `cases` measure and that are not `available`, in order of appearance."""
    needed = dict.fromkeys(system.package for case in cases for system in case.systems)
    return [package for package in needed if not available(package)]


def explain_missing(
    packages: Iterable[str],
    otherwise: str = "--allow-missing, which leaves them out and says so in the table",
) -> str:
    """Return a line for each missing package with its install command, and the alternative in `otherwise`."""
    return "\n".join(
        [
            "not installed, and a comparison without the fastest peer is none:",
            *(f"  {PACKAGES[name].distribution}: {PACKAGES[name].install}" for name in packages),
            f"or {otherwise}",
        ]
    )
