"""What a search found: `best.yaml`, the summaries of its runs, and the closing lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlox_cli import plain_yaml, summary, sweep_backend, sweep_summary
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.kept_loggers import kept_loggers
from rlox_cli.run_folder import UNREADABLE, write_text
from rlox_cli.search.optimizer import Optimizer, best_of, counted, open_study
from rlox_cli.search.options import spelt
from rlox_cli.search.plan import SearchPlan
from rlox_cli.search.settings import BEST, SEARCH, STUDY
from rlox_cli.sweep import again, job_states
from rlox_cli.variants import VariantSource

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

WORDS = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
# words of a search's command line that its runs do not have
ITS_OWN = (
    "hydra/sweeper",
    "hydra/launcher",
    "hydra.sweep",
    "hydra.launcher",
    "hydra.mode",
    "sweep.",
)
MULTIRUN = ("-m", "--multirun")


def finish(plan: SearchPlan, outcomes: Sequence[dict[str, Any]], line: Sequence[str]) -> int:
    """Write and print what was found; the exit code of the search."""
    folder = plan.folder
    if plan.dry:
        return FAILED if any(outcome["code"] != OK for outcome in outcomes) else OK
    if not plan.state.begun:
        return FAILED
    study = open_study(plan.options, folder)
    trials = counted(study)
    sweep_summary.write(folder, outcomes, {})
    if kept := kept_loggers(outcomes, {o["identity"]: plan.base for o in outcomes}):
        print(kept)
    counts = Counter(WORDS[trial.state.name] for trial in trials)
    parts = ", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word])
    asked = plan.options.n_trials
    amount = f"{len(trials)} of {asked}" if len(trials) <= asked else f"{len(trials)}"
    more = "" if len(trials) <= asked else f" (search.n_trials={asked} asks for no more)"
    print(f"{amount} trials{f': {parts}' if parts else ''}{more}")
    best = best_of(trials)
    if best is not None:
        print(_best(plan, best, line))
    print(f"summary  {folder / 'summary.md'}")
    if plan.options.storage is None:
        shows = "optuna-dashboard " if find_spec("optuna_dashboard") else ""
        print(f"study    {shows}{shlex.quote(f'sqlite:///{folder / STUDY}')}")
    unread = list(job_states(folder).values()).count(UNREADABLE)
    if unread:
        print(f"{UNREADABLE}: {unread} run{'s' * (unread != 1)}, which the summary names")
    left = Optimizer(study, plan.options, folder).due(1)
    if left and line:
        print(f"to go on: {again(line, folder)}", flush=True)
    return OK if best is not None and not (left or counts["failed"] or unread) else FAILED


def command(plan: SearchPlan, params: Mapping[str, Any], line: Sequence[str]) -> str:
    """The trial as a command line that needs no search."""
    searched = {d.name for d in plan.space.dimensions}
    words = spelt(line[2:], list(VariantSource.in_force))
    kept = [word for word in words if not _its_own(word, searched)]
    chosen = [d.override(params[d.name]) for d in plan.space.dimensions]
    seeds = ",".join(map(str, plan.space.seeds))
    several = ["-m"] * (len(plan.space.seeds) > 1)
    algo = str(params.get("algo", plan.base.algo.name))
    engine = sweep_backend.chosen_for(algo, plan.base, sweep_backend.recorded(plan.folder))
    more = [] if engine is None or "algo.backend" in searched else [f"algo.backend={engine}"]
    kept = [word for word in kept if not (more and word == "algo.backend=auto")]
    return shlex.join(["rlox", "train", *several, *kept, *chosen, *more, f"seed={seeds}"])


def _its_own(word: str, searched: set[str]) -> bool:
    key = word.lstrip("+~").partition("=")[0]
    return word in MULTIRUN or key in (*searched, "seed", SEARCH) or key.startswith(ITS_OWN)


def _best(plan: SearchPlan, best: FrozenTrial, line: Sequence[str]) -> str:
    """Write `best.yaml`; the lines for the terminal."""
    notes, repeat = best.user_attrs, command(plan, best.params, line)
    data = {
        "trial": int(notes["position"]) + 1,
        "score": best.value,
        "seeds": list(plan.space.seeds),
        "scores": list(notes["scores"]),
        "runs": list(notes["runs"]),
        "values": {d.name: d.plain(best.params[d.name]) for d in plan.space.dimensions},
        "command": repeat,
    }
    write_text(plan.folder / BEST, plain_yaml.dump(data))
    of = f", mean of {len(plan.space.seeds)} seeds" if len(plan.space.seeds) > 1 else ""
    score = summary.number(best.value)
    return f"best     trial {data['trial']}: score {score}{of}, {plan.folder / BEST}\n  {repeat}"
