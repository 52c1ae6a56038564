"""`rlox train`: it creates, fills and closes a run folder."""

from __future__ import annotations

from helpers.cli import TINY

from rlox_cli.commands.train import COMMAND

from . import CommandSpec

DQN = ("algo=dqn", "tuned=null", "buffer=uniform")

SPEC = CommandSpec(
    command=COMMAND,
    works=TINY,
    busy="rlox.runs.progress:LineReporter.__call__",
    unwritable=((("run_root=file",), "file"), (("hydra.run.dir=file/x",), "file")),
    conflicts=(
        (("env.backend=native", "env=LunarLander-v3"), "env.backend=auto"),
        (("env.backend=native", "env.workers=subprocess"), "env.backend=auto"),
        (("algo.use_sde=true",), "Box actions"),
        (("algo.n_steps=1", "env.n_envs=1"), "algo.n_steps"),
        (("algo.sde_sample_freq=0",), "sde_sample_freq"),
        (("algo.net_arch=[]",), "net_arch"),
        (
            ("algo=a2c", "algo.use_rms_prop=false", "algo.rms_prop_tf_like=true"),
            "use_rms_prop=true",
        ),
        ((*DQN, "buffer.hindsight_k=8"), "buffer.hindsight=future"),
        ((*DQN, "algo.learning_starts=500", "total_steps=500"), "lower algo.learning_starts"),
        ((*DQN, "buffer.capacity=7", "env.n_envs=8"), "buffer.capacity=8 or more"),
        (("env.n_envs=1048576", "algo.n_steps=16777216"), "lower algo.n_steps or env.n_envs"),
    ),
)
