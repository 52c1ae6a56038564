"""`rlox dataset`: it makes a new dataset and shows it."""

from __future__ import annotations

from rlox_cli.commands.dataset import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("what=make", "path=data", "env=Pendulum-v1", "steps=20", "overwrite=true"),
    busy="rlox.offline.collect:make_random_dataset",
    unwritable=((("path=file/x",), "file"),),
    least=("what=show", "path=nowhere"),
    conflicts=(
        ((), "give what=WHAT"),
        (("show",), "missing key 'path'"),
        (("make", "data"), "name the environment"),
        (("make", "data", "env=Pendulum-v1", "policy=run"), "which has its environment"),
        (("make", "data", "env=Pendulum-v1", "quality=medium"), "policy=RUN"),
        (("show", "data", "steps=5"), "steps=5 has no effect"),
        (("make", "data", "env=Pendulum-v1", "env.n_envs=4"), "env.n_envs=4 has no effect"),
        (("mend", "data"), "make, show, check"),
        (("show", "nowhere"), "nowhere"),
        (("show", "nowhere", "pth=x"), "'path'"),
        (("make", "data", "env=CartPoel-v1"), "CartPole-v1"),
        (("-m", "what=show", "path=a,b"), "call it once for each"),
    ),
)
