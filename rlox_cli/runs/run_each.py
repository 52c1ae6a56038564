"""Run a command on several run folders; an error of one does not stop the others."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

from omegaconf import DictConfig

from rlox.errors import RloxError
from rlox_cli.config import compose
from rlox_cli.config.verbatim import quote_existing_path
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import OK, exit_code
from rlox_cli.shell.messages import describe, shorten, strip_frames


def run_each(
    call: Call,
    runs: Sequence[str],
    rest: Sequence[str],
    task: Callable[[DictConfig], object],
    is_fatal: Callable[[], bool] = lambda: False,
) -> int:
    """Compose the command for each of `runs` and call `task`; return the highest exit code of their errors.

    An error of one run is printed and the next run follows. The error is raised instead if there is no other
    run, or if `is_fatal()` is true. If `runs` is empty, `rest` names the run.
    """
    code = OK
    for args in [[f"run={quote_existing_path(run)}", *rest] for run in runs] or [[*rest]]:
        try:
            compose.run(replace(call, args=args), task)
        except RloxError as error:
            if len(runs) < 2 or is_fatal():
                raise
            code = max(code, exit_code(error))
            if call.full_trace:
                traceback.print_exception(error)
            message = strip_frames(f"rlox {call.name}: {describe(error)}")
            print(shorten(message), file=sys.stderr)
    return code
