"""`rlox list`: what there is to choose from, and the runs there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.command import Call, Command
from rlox_cli.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE
from rlox_cli.schema import Schema

if TYPE_CHECKING:
    from omegaconf import DictConfig

KINDS = ("runs", "env", "algo", "buffer", "logger", "tuned", "exp", "search")
WITHOUT_KEYS = ("what", "contains")


@dataclass(frozen=True)
class ListConfig:
    """What `rlox list` takes."""

    what: str = param(doc="what is listed, also without what=", choices=KINDS)
    contains: str | None = param(
        None, "only what has this text in its name, also without contains=", verbatim=True
    )
    run_root: str = param("runs", "where runs are looked for, at any depth", verbatim=True)


SCHEMA = Schema("list", ListConfig, primary="list")


def check(composed: DictConfig) -> ListConfig:
    """The validated configuration of one listing."""
    from rlox.configs import make
    from rlox_cli import validate

    return make(ListConfig, validate.known_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli import compose
    from rlox_cli.listing import lines

    flags, given = compose.taken_apart(call.args, call.command)
    waiting, args = list(WITHOUT_KEYS), [*flags]
    for argument in given:
        bare = waiting and "=" not in argument and argument[:1] not in "~+"
        args.append(f"{waiting.pop(0)}={argument}" if bare else argument)
    compose.run(replace(call, args=args), lambda composed: print("\n".join(lines(check(composed)))))
    return OK


COMMAND = Command(
    name="list",
    summary="what there is to choose from, and the runs there are",
    notes=(
        "Lists environments, algorithms, buffers, loggers and presets, with a line on each, or runs:\n"
        "whether each is done or going on, how far it is, and its score."
    ),
    examples=("rlox list runs", "rlox list env Pole", "rlox list algo"),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    takes="WHAT [TEXT]",
)
