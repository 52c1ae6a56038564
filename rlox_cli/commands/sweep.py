"""`rlox sweep`: one run per combination of values, the same as `rlox train -m`."""

from __future__ import annotations

from dataclasses import replace

from rlox_cli.commands.train import check, rewrite
from rlox_cli.config.run_schema import RUN
from rlox_cli.search.settings import SEARCH, SearchOptions
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE
from rlox_cli.sweeps.options import SweepOptions, split_sweep_options

# Flags with which Hydra prints something instead of running jobs.
SHOW_FLAGS = {"--cfg", "-c", "--info", "-i", "--hydra-help"}


def _run(call: Call) -> int:
    from rlox_cli.runs.training import train, train_many
    from rlox_cli.search.options import expand_call

    show_flags = SHOW_FLAGS & {arg.split("=")[0] for arg in call.args}
    if not show_flags:
        return train_many(call)
    return train(replace(call, args=split_sweep_options(expand_call(call))[1]))


COMMAND = Command(
    name="sweep",
    summary="one run per combination of values, the same as train -m",
    description=(
        "Trains one agent per combination: seed=0,1,2 or 'seed=range(0,5)'. Jobs already done are\n"
        "skipped when the same folder is given again: hydra.sweep.dir=runs/sweeps/NAME. With search=ALGO\n"
        "Optuna chooses the values, from interval(a,b), range(a,b) or a,b,c."
    ),
    examples=(
        "rlox sweep env=CartPole-v1,Acrobot-v1 'seed=range(0,5)'",
        "rlox sweep env=CartPole-v1 algo=ppo,a2c 'seed=range(0,10)' sweep.workers=8",
        "rlox sweep search=ppo env=CartPole-v1 search.n_trials=30 eval.every=10000",
    ),
    schema=RUN,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    failure_meaning="some job failed",
    check=check,
    run=_run,
    rewrite=rewrite,
    is_sweepable=True,
    extra_options={"sweep": SweepOptions, SEARCH: SearchOptions},
)
