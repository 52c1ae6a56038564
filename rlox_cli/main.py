"""The command `rlox`: runs a subcommand and returns the exit code."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from rlox.errors import ConfigError, StorageError
from rlox_cli import commands
from rlox_cli.shell.command import Alias, Call, Command
from rlox_cli.shell.output import NonFailingStream, non_failing_output

USAGE = """\
usage: rlox COMMAND [key=value ...]

commands
{commands}

examples
{examples}

rlox COMMAND --help lists every key with its default, range and meaning.
rlox COMMAND --cfg job shows the configuration without running it."""
MAX_THREADS = 1024  # the maximum of the data plane
# flags that only print text
SHOW_FLAGS = ("-h", "--help", "--hydra-help", "-c", "--cfg", "-i", "--info")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    atexit.register(_leave_quickly)
    with non_failing_output() as output:
        try:
            code = _dispatch(args)
        except KeyboardInterrupt:
            return 130
        return code or _report_truncated_output(args, output)


def _report_truncated_output(args: list[str], output: NonFailingStream) -> int:
    """Print an error and return 5 if a print-only command found its output's disk full; else return 0."""
    output.flush()
    if output.disk_full_error is None or not _is_print_only(args):
        return 0
    reason = (
        f"{output.disk_full_error.strerror}; the output is incomplete: make room there, or write elsewhere"
    )
    print(f"rlox: standard output cannot be written: {reason}", file=sys.stderr)
    return 5


def _is_print_only(args: list[str]) -> bool:
    command_and_alias = _find_command(args[0]) if args else None
    has_show_flag = any(argument.partition("=")[0] in SHOW_FLAGS for argument in args)
    return command_and_alias is None or has_show_flag or command_and_alias[0].is_print_only(args[1:])


def _leave_quickly() -> None:
    """Collect garbage once: at exit the interpreter would do so several times, which takes 1 s with torch."""
    gc.collect()
    if "triton" not in sys.modules:  # triton's objects would print a screen of leak reports
        gc.freeze()


def usage() -> str:
    """Return the text of `rlox --help`."""
    all_commands = [commands.load(name) for name in commands.names()]
    lines = {c.name: c.summary for c in all_commands}
    lines |= {c.alias.name: c.alias.summary for c in all_commands if c.alias}
    width = max(map(len, lines))
    return USAGE.format(
        commands="\n".join(f"  {name:<{width}}  {lines[name]}" for name in sorted(lines)),
        examples="\n".join(f"  {line}" for c in all_commands for line in c.examples),
    )


def _dispatch(args: list[str]) -> int:
    if args[:1] == ["help"] and len(args) > 1:  # `rlox help train`
        args = [args[1], "--help"]
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        return _print_version()
    command_and_alias = _find_command(args[0])
    if command_and_alias is None:
        return _report_unknown_command(args[0])
    command, alias = command_and_alias
    if {"-h", "--help"} & set(args[1:]):
        from rlox_cli.shell.help import command_help

        print(command_help(command, args[1:], alias))
        return 0
    return _run_command(command, args[1:], alias)


def _find_command(name: str) -> tuple[Command, Alias | None] | None:
    """Return the command of that name or alias."""
    if name in commands.names():
        return commands.load(name), None
    for command in map(commands.load, commands.names()):
        if command.alias and command.alias.name == name:
            return command, command.alias
    return None


def _report_unknown_command(name: str) -> int:
    aliases = [c.alias.name for c in map(commands.load, commands.names()) if c.alias]
    known = sorted([*commands.names(), *aliases])
    from rlox.configs import nearest  # imported here because a known command does not need it

    print(f"rlox: unknown command '{name}'{nearest(name, known)}", file=sys.stderr)
    print(f"  commands: {', '.join(known)}; rlox --help", file=sys.stderr)
    return 2


def _run_command(command: Command, arguments: list[str], alias: Alias | None) -> int:
    from rlox_cli.runs.signals import SignalInterrupt, Signals
    from rlox_cli.shell.exit_codes import exit_code

    name = alias.name if alias else command.name
    shows_full_trace = os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        with Signals() as signals:
            _require_current_dir()
            _require_threads()
            args = alias.expand(arguments) if alias else arguments
            return command.run(Call(command, args, signals, shows_full_trace, alias=name))
    except SignalInterrupt as interrupt:
        print(f"rlox {name}: stopped", file=sys.stderr)
        return interrupt.code
    except SystemExit as exit_request:  # from Hydra after --hydra-help etc., and from a sweep with failures
        return exit_request.code if isinstance(exit_request.code, int) else int(exit_request.code is not None)
    except Exception as error:
        from rlox_cli.shell.messages import describe, shorten, strip_frames

        if shows_full_trace:
            traceback.print_exc()
        message = strip_frames(f"rlox {name}: {describe(error)}")
        print(shorten(message), file=sys.stderr)
        return exit_code(error)


def _require_current_dir() -> None:
    """Raise `StorageError` if the current folder is gone: every relative path would fail differently."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise StorageError("the current folder does not exist any more; cd to one that does") from error


def _require_threads() -> None:
    """Raise `ConfigError` for an `RLOX_THREADS` that the data plane would ignore."""
    value = os.environ.get("RLOX_THREADS")
    if value is not None and not (value.isascii() and value.isdecimal() and 1 <= int(value) <= MAX_THREADS):
        raise ConfigError(
            f"RLOX_THREADS={value!r}: expected a whole number from 1 to {MAX_THREADS:,}, the threads that "
            "share long work; correct the variable or unset it: unset RLOX_THREADS"
        )


def _print_version() -> int:
    from rlox_cli.health.requirements import own_version

    print(f"rlox {own_version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
