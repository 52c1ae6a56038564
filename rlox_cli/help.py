"""`rlox COMMAND --help`: every key with its default, range and meaning, from the dataclasses."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS
from rlox.configs.params import expectation
from rlox_cli.schema import Key, chosen_algos, command_keys
from rlox_cli.source import group_options

CONF = Path(__file__).parent / "conf"
LISTED_GROUPS = ("algo", "buffer", "logger", "tuned", "exp")
NOTES = {
    "train": "Trains one agent. Several values (seed=0,1,2) need rlox sweep or -m.",
    "sweep": (
        "Trains one agent per combination: seed=0,1,2 or 'seed=range(0,5)'. Jobs already done are\n"
        "skipped when the same folder is given again: hydra.sweep.dir=runs/sweeps/NAME."
    ),
    "evaluate": "Plays the policy of a run and writes every return to RUN/eval/<checkpoint>.json.",
}
RESUME = """\
resume (rlox train resume=RUN [key=value ...])
  resume=RUN                            goes on with the run in folder RUN, in the same folder: one
                                        that was stopped, killed or failed goes on at its newest
                                        whole checkpoint, one that is done with a larger
                                        total_steps. Only total_steps, eval.*, checkpoint.*, log.*,
                                        stop.*, device, torch_threads and threads may change; the
                                        rest is frozen in RUN/config.yaml, read as plain data"""
FLAGS = """\
flags (Hydra's, all of them work)
  --cfg job            print the configuration instead of running
  --info defaults      where each part of it comes from
  --config-dir FOLDER  a conf folder of your own (also RLOX_CONF_PATH)
  -m                   one run per combination of values
  +key=value, ~key     add or remove a key
  HYDRA_FULL_ERROR=1   (environment) the full traceback of an error"""


def command_help(command: str, args: Sequence[str] = ()) -> str:
    """The help text of one subcommand, with the keys of the algorithms that `args` name."""
    algos = chosen_algos(args)
    parts = [f"usage: rlox {command} [key=value ...]", NOTES[command]]
    if command != "evaluate":
        parts.append(_groups())
    keys = command_keys(command, algos)
    for section in dict.fromkeys(_section(k) for k in keys):
        if section == "algo":
            parts += [_algo(command, name, algos) for name in algos]
        else:
            title = f"{section or 'run'} (key=default  meaning)"
            parts.append("\n".join([title, *(_line(k) for k in keys if _section(k) == section)]))
    if command == "train":
        parts.append(RESUME)
    return "\n\n".join([*parts, FLAGS])


def _algo(command: str, name: str, shown: Sequence[str]) -> str:
    others = ", ".join(f"algo={other}" for other in ALGO_CONFIGS if other not in shown)
    title = f"algo={name} (key=default  meaning{f'; others: {others}' if others else ''})"
    keys = [key for key in command_keys(command, [name]) if _section(key) == "algo"]
    return "\n".join([title, *map(_line, keys)])


def _groups() -> str:
    lines = [
        "groups (group=option)",
        "  env      any Gymnasium id, e.g. env=Acrobot-v1, or env=module:MyEnv-v0",
    ]
    for group in LISTED_GROUPS:
        names = group_options(group, [CONF])
        if names:
            listed = ", ".join(names)
            lines += textwrap.wrap(
                listed, _width() - 11, initial_indent=f"  {group:<9}", subsequent_indent=" " * 11
            )
    lines.append(
        "  several loggers: logger=[csv,tensorboard]; without the tuned preset: tuned=null"
    )
    return "\n".join(lines)


def _section(key: Key) -> str:
    return key.name.split(".")[0] if "." in key.name else ""


def _line(key: Key) -> str:
    head = f"  {key.name}={value_text(key.default)}"
    choices = key.field.metadata.get("choices")
    accepts = "" if choices and len(choices) == 1 else expectation(key.field)
    meaning = str(key.field.metadata.get("doc", "")) + (f"; {accepts}" if accepts else "")
    indent = " " * 38
    wrapped = textwrap.wrap(
        meaning, _width(), initial_indent=f"{head:<36}  ", subsequent_indent=indent
    )
    return "\n".join(wrapped or [head])


def value_text(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(value_text, value))}]"
    return str(value)


def _width() -> int:
    return max(80, min(120, shutil.get_terminal_size().columns))
