"""The command `rlox`: which subcommand, which exit code."""

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
from rlox_cli.command import Alias, Call, Command
from rlox_cli.output import Lasting, lasting_output

USAGE = """\
usage: rlox COMMAND [key=value ...]

commands
{commands}

examples
{examples}

rlox COMMAND --help lists every key with its default, range and meaning.
rlox COMMAND --cfg job shows the configuration without running it."""
MOST_THREADS = 1024  # as many as the data plane takes
# flags that ask for text
SHOWING = ("-h", "--help", "--hydra-help", "-c", "--cfg", "-i", "--info")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    atexit.register(_leave_quickly)
    with lasting_output() as shown:
        try:
            code = _command(args)
        except KeyboardInterrupt:
            return 130
        return code or _cut_short(args, shown)


def _cut_short(args: list[str], shown: Lasting) -> int:
    """0, or 5 and a message where a disk had no room for what a command printed, and that is all it does."""
    shown.flush()
    if shown.cut is None or not _only_prints(args):
        return 0
    why = f"{shown.cut.strerror}; what it has is not whole: make room there, or write elsewhere"
    print(f"rlox: standard output cannot be written: {why}", file=sys.stderr)
    return 5


def _only_prints(args: list[str]) -> bool:
    found = _find(args[0]) if args else None
    showing = any(word.partition("=")[0] in SHOWING for word in args)
    return found is None or showing or found[0].prints(args[1:])


def _leave_quickly() -> None:
    """Look for garbage once: the interpreter does several times as it ends, a second with torch loaded."""
    gc.collect()
    if "triton" not in sys.modules:  # whose objects say that they were leaked, a screen of them
        gc.freeze()


def usage() -> str:
    """The text of `rlox --help`."""
    found = [commands.load(name) for name in commands.names()]
    lines = {c.name: c.summary for c in found}
    lines |= {c.alias.name: c.alias.summary for c in found if c.alias}
    width = max(map(len, lines))
    return USAGE.format(
        commands="\n".join(f"  {name:<{width}}  {lines[name]}" for name in sorted(lines)),
        examples="\n".join(f"  {line}" for c in found for line in c.examples),
    )


def _command(args: list[str]) -> int:
    if args[:1] == ["help"] and len(args) > 1:  # `rlox help train`
        args = [args[1], "--help"]
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        return _version()
    found = _find(args[0])
    if found is None:
        return _unknown(args[0])
    command, alias = found
    if {"-h", "--help"} & set(args[1:]):
        from rlox_cli.help import command_help

        print(command_help(command, args[1:], alias))
        return 0
    return _run(command, args[1:], alias)


def _find(name: str) -> tuple[Command, Alias | None] | None:
    """The command of that name, or the one that has it as an alias."""
    if name in commands.names():
        return commands.load(name), None
    for command in map(commands.load, commands.names()):
        if command.alias and command.alias.name == name:
            return command, command.alias
    return None


def _unknown(name: str) -> int:
    aliases = [c.alias.name for c in map(commands.load, commands.names()) if c.alias]
    known = sorted([*commands.names(), *aliases])
    from rlox.configs import nearest  # late: the commands that there are need none of it

    print(f"rlox: unknown command '{name}'{nearest(name, known)}", file=sys.stderr)
    print(f"  commands: {', '.join(known)}; rlox --help", file=sys.stderr)
    return 2


def _run(command: Command, rest: list[str], alias: Alias | None) -> int:
    from rlox_cli.exit_codes import exit_code
    from rlox_cli.signals import Interrupted, Signals

    name = alias.name if alias else command.name
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        with Signals() as signals:
            _require_folder()
            _require_threads()
            args = alias.spell(rest) if alias else rest
            return command.run(Call(command, args, signals, full, alias=name))
    except Interrupted as stopped:
        print(f"rlox {name}: stopped", file=sys.stderr)
        return stopped.code
    except SystemExit as left:  # Hydra, after --hydra-help and its like, and a sweep with failures
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except Exception as error:
        from rlox_cli.messages import describe, shorten, without_frames

        if full:
            traceback.print_exc()
        told = without_frames(f"rlox {name}: {describe(error)}")
        print(shorten(told), file=sys.stderr)
        return exit_code(error)


def _require_folder() -> None:
    """`StorageError` where the current folder is gone: every relative path would fail, each its way."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise StorageError(
            "the current folder does not exist any more; cd to one that does"
        ) from error


def _require_threads() -> None:
    """`ConfigError` for an `RLOX_THREADS` that the data plane would pass over."""
    given = os.environ.get("RLOX_THREADS")
    if given is not None and not (
        given.isascii() and given.isdecimal() and 1 <= int(given) <= MOST_THREADS
    ):
        raise ConfigError(
            f"RLOX_THREADS={given!r}: expected a whole number from 1 to {MOST_THREADS:,}, the threads that "
            "share long work; correct the variable or unset it: unset RLOX_THREADS"
        )


def _version() -> int:
    from rlox_cli.requirements import own_version

    print(f"rlox {own_version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
