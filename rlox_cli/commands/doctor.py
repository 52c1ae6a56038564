"""`rlox doctor`: check what this machine and its packages support, and say what to install."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class DoctorConfig:
    """Arguments of `rlox doctor`."""

    run_root: str = param("runs", "the folder for runs, whose free space is checked", verbatim=True)


SCHEMA = Schema("doctor", DoctorConfig, primary="doctor")


def check(composed: DictConfig) -> DoctorConfig:
    """Return the validated configuration of one examination."""
    from rlox.configs import make
    from rlox_cli.config import validate

    return make(DoctorConfig, validate.checked_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli.health.doctor import examine

    broken_counts: list[int] = []
    try:
        from rlox_cli.config import compose
    except ImportError:  # Hydra itself is broken, which `examine` reports
        return FAILED if examine(DoctorConfig().run_root) else OK
    compose.run(call, lambda composed: broken_counts.append(examine(check(composed).run_root)))
    return FAILED if any(broken_counts) else OK


COMMAND = Command(
    name="doctor",
    summary="check that everything rlox needs is installed and works",
    description=(
        "Checks the machine, the packages, the extras, the GPU and the native code, and says what to\n"
        "install. Exits with 1 if something that rlox needs is broken."
    ),
    examples=("rlox doctor",),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    is_print_only=lambda args: True,
)
