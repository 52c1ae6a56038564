"""`rlox dataset`: a dataset is made where nothing is, and shown."""

from __future__ import annotations

from rlox_cli.commands.dataset import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("what=make", "path=data", "env=Pendulum-v1", "steps=20", "overwrite=true"),
    busy="rlox.offline.making:of_random_actions",
    unwritable=((("path=file/x",), "file"),),
    least=("what=show", "path=nowhere"),
    conflicts=(
        ((), "give what=WHAT"),
        (("show",), "missing key 'path'"),
        (("make", "data"), "name the environment"),
        (("make", "data", "env=Pendulum-v1", "policy=run"), "the run has its environment"),
        (("make", "data", "env=Pendulum-v1", "quality=medium"), "policy=RUN"),
        (("mak", "data"), "make, show, check"),
        (("show", "nowhere"), "nowhere"),
        (("show", "nowhere", "pth=x"), "'path'"),
        (("make", "data", "env=CartPoel-v1"), "CartPole-v1"),
        (("-m", "what=show", "path=a,b"), "call it once for each"),
    ),
)
