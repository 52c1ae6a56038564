"""Updates to be timed apart from the runs that they belong to."""

from __future__ import annotations

from typing import Any

REPLAY = {"learning_starts": 600, "train_freq": 16, "gradient_steps": 16}
PARTS: dict[str, dict[str, Any]] = {"ppo": {"n_epochs": 4}, "a2c": {}}


def prepared(algo: str, env: str, width: int, batch_size: int) -> tuple[Any, Any, Any]:
    """A run, and what its second update learned from."""
    from rlox.build import build
    from rlox.configs import make_run

    made = {"name": algo, "backend": "torch", "net_arch": [width, width], **PARTS.get(algo, REPLAY)}
    if algo == "a2c":
        made["n_steps"] = batch_size // 8
    else:
        made["batch_size"] = batch_size
    if algo == "ppo":
        made["n_steps"] = batch_size // 2
    tree = {"algo": made, "env": {"id": env, "n_envs": 8}, "seed": 0, "total_steps": 100_000}
    run = build(make_run(tree))
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
