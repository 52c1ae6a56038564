"""The results of a search: `best.yaml`, the summaries of its runs, and the closing lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlox_cli.config import plain_yaml
from rlox_cli.config.variants import VariantSource
from rlox_cli.runs import summary
from rlox_cli.runs.run_folder import UNREADABLE, write_text
from rlox_cli.search.optimizer import Optimizer, best_trial, counted_trials, open_study
from rlox_cli.search.options import expand_arguments
from rlox_cli.search.plan import SearchPlan
from rlox_cli.search.settings import BEST_FILE, SEARCH, STUDY_FILE
from rlox_cli.shell.exit_codes import FAILED, OK
from rlox_cli.sweeps import backend as sweep_backend
from rlox_cli.sweeps import summary as sweep_summary
from rlox_cli.sweeps.kept_loggers import kept_loggers_message
from rlox_cli.sweeps.sweep import continue_command, job_states

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

STATE_WORDS = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
# prefixes of keys that a search takes and its runs do not
SEARCH_ONLY_PREFIXES = (
    "hydra/sweeper",
    "hydra/launcher",
    "hydra.sweep",
    "hydra.launcher",
    "hydra.mode",
    "sweep.",
)
MULTIRUN_FLAGS = ("-m", "--multirun")


def finish_search(plan: SearchPlan, outcomes: Sequence[dict[str, Any]], command_line: Sequence[str]) -> int:
    """Write and print the results; return the exit code of the search."""
    folder = plan.folder
    if plan.is_dry_run:
        return FAILED if any(outcome["code"] != OK for outcome in outcomes) else OK
    if not plan.state.has_started:
        return FAILED
    study = open_study(plan.options, folder)
    trials = counted_trials(study)
    sweep_summary.write_summary(folder, outcomes, {})
    if message := kept_loggers_message(outcomes, {o["identity"]: plan.base for o in outcomes}):
        print(message)
    counts = Counter(STATE_WORDS[trial.state.name] for trial in trials)
    parts = ", ".join(
        f"{counts[state_word]} {state_word}" for state_word in STATE_WORDS.values() if counts[state_word]
    )
    n_trials = plan.options.n_trials
    amount = f"{len(trials)} of {n_trials}" if len(trials) <= n_trials else f"{len(trials)}"
    suffix = "" if len(trials) <= n_trials else f" (search.n_trials={n_trials} asks for no more)"
    print(f"{amount} trials{f': {parts}' if parts else ''}{suffix}")
    best = best_trial(trials)
    if best is not None:
        print(_write_best(plan, best, command_line))
    print(f"summary  {folder / 'summary.md'}")
    if plan.options.storage is None:
        dashboard_command = "optuna-dashboard " if find_spec("optuna_dashboard") else ""
        print(f"study    {dashboard_command}{shlex.quote(f'sqlite:///{folder / STUDY_FILE}')}")
    n_unreadable = list(job_states(folder).values()).count(UNREADABLE)
    if n_unreadable:
        print(f"{UNREADABLE}: {n_unreadable} run{'s' * (n_unreadable != 1)}, which the summary names")
    remaining = Optimizer(study, plan.options, folder).next_positions(1)
    if remaining and command_line:
        print(f"to go on: {continue_command(command_line, folder)}", flush=True)
    return OK if best is not None and not (remaining or counts["failed"] or n_unreadable) else FAILED


def trial_command(plan: SearchPlan, params: Mapping[str, Any], command_line: Sequence[str]) -> str:
    """Return a command line that repeats the trial without a search."""
    searched = {d.name for d in plan.space.dimensions}
    arguments = expand_arguments(command_line[2:], list(VariantSource.current_folders))
    kept_arguments = [argument for argument in arguments if not _is_search_only(argument, searched)]
    trial_overrides = [d.override(params[d.name]) for d in plan.space.dimensions]
    seeds = ",".join(map(str, plan.space.seeds))
    sweep_flag = ["-m"] * (len(plan.space.seeds) > 1)
    algo = str(params.get("algo", plan.base.algo.name))
    backend = sweep_backend.backend_for(algo, plan.base, sweep_backend.read_backends(plan.folder))
    backend_override = [] if backend is None or "algo.backend" in searched else [f"algo.backend={backend}"]
    kept_arguments = [
        argument for argument in kept_arguments if not (backend_override and argument == "algo.backend=auto")
    ]
    return shlex.join(
        ["rlox", "train", *sweep_flag, *kept_arguments, *trial_overrides, *backend_override, f"seed={seeds}"]
    )


def _is_search_only(argument: str, searched: set[str]) -> bool:
    key = argument.lstrip("+~").partition("=")[0]
    return (
        argument in MULTIRUN_FLAGS
        or key in (*searched, "seed", SEARCH)
        or key.startswith(SEARCH_ONLY_PREFIXES)
    )


def _write_best(plan: SearchPlan, best: FrozenTrial, command_line: Sequence[str]) -> str:
    """Write `best.yaml`; return the lines for the terminal."""
    attributes, command_line_text = best.user_attrs, trial_command(plan, best.params, command_line)
    data = {
        "trial": int(attributes["position"]) + 1,
        "score": best.value,
        "seeds": list(plan.space.seeds),
        "scores": list(attributes["scores"]),
        "runs": list(attributes["runs"]),
        "values": {d.name: d.to_plain(best.params[d.name]) for d in plan.space.dimensions},
        "command": command_line_text,
    }
    write_text(plan.folder / BEST_FILE, plain_yaml.dump(data))
    seeds_text = f", mean of {len(plan.space.seeds)} seeds" if len(plan.space.seeds) > 1 else ""
    score = summary.format_number(best.value)
    return (
        f"best     trial {data['trial']}: score {score}{seeds_text}, {plan.folder / BEST_FILE}\n"
        f"  {command_line_text}"
    )
