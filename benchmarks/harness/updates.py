"""Make updates that are timed separately from their runs."""

from __future__ import annotations

from typing import Any

REPLAY_SETTINGS = {"learning_starts": 600, "train_freq": 16, "gradient_steps": 16}
ON_POLICY_SETTINGS: dict[str, dict[str, Any]] = {"ppo": {"n_epochs": 4}, "a2c": {}}


def make_run_with_batches(algo: str, env: str, width: int, batch_size: int, backend: str = "torch") -> Any:
    """Make a run with this batch size; each update learns from several batches (`steps_per_update`)."""
    from rlox.build import build
    from rlox.configs import make_run

    algo_settings = {
        "name": algo,
        "backend": backend,
        "net_arch": [width, width],
        **ON_POLICY_SETTINGS.get(algo, REPLAY_SETTINGS),
    }
    if algo == "a2c":
        algo_settings["n_steps"] = batch_size // 8
    else:
        algo_settings["batch_size"] = batch_size
    if algo == "ppo":
        algo_settings["n_steps"] = batch_size // 2
    tree = {
        "algo": algo_settings,
        "env": {"id": env, "n_envs": 8},
        "seed": 0,
        "total_steps": 100_000,
    }
    return build(make_run(tree))


def steps_per_update(algo: str) -> int:
    """Return the number of batches in one update of a run of `make_run_with_batches`."""
    return 1 if algo == "a2c" else 16


def second_update(algo: str, env: str, width: int, batch_size: int) -> tuple[Any, Any, Any]:
    """Return a run, and the batch and clock of its second update."""
    run = make_run_with_batches(algo, env, width, batch_size)
    update, seen_batches = run.learner.update, []

    def record_update(batch: Any, clock: Any) -> Any:
        seen_batches.append((batch, clock))
        if len(seen_batches) == 2:
            run.stop("enough")
        return update(batch, clock)

    run.learner.update = record_update
    run.fit()
    run.learner.update = update
    return run, *seen_batches[1]
