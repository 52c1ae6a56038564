"""The command `rlox`: which subcommand, which exit code."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlox_cli.signals import Signals

COMMANDS = {
    "train": "train one agent, or go on with one: resume=RUN",
    "evaluate": "play the policy of a run and write every return",
    "sweep": "one run per combination of values, the same as train -m",
}
USAGE = """\
usage: rlox COMMAND [key=value ...]

commands
{commands}

examples
  rlox train algo=ppo env=CartPole-v1
  rlox train env=Pendulum-v1 total_steps=2e5 seed=1 logger=[csv,tensorboard]
  rlox train resume=runs/CartPole-v1/ppo/NAME total_steps=2e6
  rlox sweep env=CartPole-v1,Acrobot-v1 'seed=range(0,5)'
  rlox evaluate run=runs/CartPole-v1/ppo/NAME episodes=100

rlox COMMAND --help lists every key with its default, range and meaning.
rlox train --cfg job shows the configuration without running it."""
# Flags with which Hydra shows something instead of running jobs.
SHOWING = {"--cfg", "-c", "--info", "-i", "--hydra-help", "--multirun", "-m"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        return _version()
    if args[0] not in COMMANDS:
        close = difflib.get_close_matches(args[0], COMMANDS, 1, 0.5)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        print(f"rlox: unknown command '{args[0]}'{hint}", file=sys.stderr)
        print(f"  commands: {', '.join(COMMANDS)}; rlox --help", file=sys.stderr)
        return 2
    if {"-h", "--help"} & set(args[1:]):
        from rlox_cli.help import command_help

        print(command_help(args[0], args[1:]))
        return 0
    return _run(args[0], args[1:])


def usage() -> str:
    """The text of `rlox --help`."""
    width = max(map(len, COMMANDS))
    return USAGE.format(commands="\n".join(f"  {n:<{width}}  {t}" for n, t in COMMANDS.items()))


def _run(command: str, rest: list[str]) -> int:
    from rlox_cli.messages import Interrupted, describe, exit_code, shorten
    from rlox_cli.signals import Signals

    full = os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        with Signals() as signals:
            return _dispatch(command, rest, signals, full)
    except Interrupted as stopped:
        print(f"rlox {command}: stopped", file=sys.stderr)
        return stopped.code
    except KeyboardInterrupt:
        return 130
    except SystemExit as left:  # Hydra, after --hydra-help and its like, and a sweep with failures
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except Exception as error:
        if full:
            traceback.print_exc()
        print(shorten(f"rlox {command}: {describe(error)}"), file=sys.stderr)
        return exit_code(error)


def _dispatch(command: str, rest: list[str], signals: Signals, full: bool) -> int:
    from rlox_cli import compose

    if command == "evaluate":
        from rlox_cli.evaluate import EvaluateTask

        evaluation = EvaluateTask(full)
        compose.run(command, rest, evaluation)
        return evaluation.code
    from rlox_cli import changes
    from rlox_cli.train import TrainTask

    if command == "train" and changes.requested(rest):
        from rlox_cli.resume import resume

        return resume(rest, signals, full)
    training = TrainTask(["rlox", command, *rest], signals, full)
    if command == "sweep" and not SHOWING & {arg.split("=")[0] for arg in rest}:
        rest = ["--multirun", *rest]
    if {"-m", "--multirun"} & set(rest):
        return compose.run_sweep(command, rest, training)
    compose.run(command, rest, training)
    return training.code


def _version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"rlox {version('rlox')}")
    except PackageNotFoundError:
        print("rlox (not installed)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
