"""Updates to be timed apart from the runs that they belong to."""

from __future__ import annotations

from typing import Any

REPLAY = {"learning_starts": 600, "train_freq": 16, "gradient_steps": 16}
PARTS: dict[str, dict[str, Any]] = {"ppo": {"n_epochs": 4}, "a2c": {}}


def made(algo: str, env: str, width: int, batch_size: int, backend: str = "torch") -> Any:
    """A run whose updates are of batches of this size, each of several (`steps_of_an_update`)."""
    from rlox.build import build
    from rlox.configs import make_run

    own = {"name": algo, "backend": backend, "net_arch": [width, width], **PARTS.get(algo, REPLAY)}
    if algo == "a2c":
        own["n_steps"] = batch_size // 8
    else:
        own["batch_size"] = batch_size
    if algo == "ppo":
        own["n_steps"] = batch_size // 2
    tree = {"algo": own, "env": {"id": env, "n_envs": 8}, "seed": 0, "total_steps": 100_000}
    return build(make_run(tree))


def steps_of_an_update(algo: str) -> int:
    """Batches that one update of a run that was `made` learns from."""
    return 1 if algo == "a2c" else 16


def prepared(algo: str, env: str, width: int, batch_size: int) -> tuple[Any, Any, Any]:
    """A run, and what its second update learned from."""
    run = made(algo, env, width, batch_size)
    update, given = run.learner.update, []

    def note(batch: Any, clock: Any) -> Any:
        given.append((batch, clock))
        if len(given) == 2:
            run.stop("enough")
        return update(batch, clock)

    run.learner.update = note
    run.fit()
    run.learner.update = update
    return run, *given[1]
