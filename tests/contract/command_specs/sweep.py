"""`rlox sweep`: it takes the keys of `rlox train`, with several values for each."""

from __future__ import annotations

from helpers.cli import TINY

from rlox_cli.commands.sweep import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=(*TINY, "total_steps=128", "seed=1,2"),
    busy="rlox.runs.progress:LineReporter.__call__",
    unwritable=((("hydra.sweep.dir=file/x",), "file"),),
    conflicts=(
        (("seed=0,x",), "in the job: seed=x"),
        (("env=CartPole-v1,CartPol-v1",), "'CartPole-v1'"),
        (("algo=a2c,ppo", "algo.clip_eps=0.1"), "it belongs to algo=ppo"),
        (("resume=RUN",), "rlox train resume=RUN"),
        (("sed=0,1",), "'seed'"),
        (("sweep.workers=2", "hydra/launcher=basic"), "both say where jobs run"),
        (("sweep.workers=0",), "sweep.workers"),
        (("search=pp",), "'ppo'"),
        (("search=ppo", "search.n_trial=2"), "'search.n_trials'"),
        (("search=ppo", "algo.n_epochs=range(3,3)"), "the range is empty"),
    ),
    same_keys_as="train",
)
