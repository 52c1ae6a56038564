"""One training on a game of Atari, in a process of its own: by `rlox train`, or by Stable-Baselines3."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness import machine, scores
from harness.training import Stopwatch
from rlox.callbacks import Callback

PRESETS = Path(__file__).resolve().parents[2] / "conf" / "tuned"
REPLAYABLE_ENVS = ("ALE/Pong-v5",)  # half of the games of Breakout go another way when they are played again
MAX_REPLAYED = 3  # games of an engine that are played again


@dataclass(frozen=True)
class AtariWorkload:
    """A training with the preset of Atari."""

    algo: str
    env: str
    steps: int
    seed: int = 0
    torch_threads: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        """What is not the preset's: its 100,000 steps before the first update are 1% of its run."""
        return {"learning_starts": self.steps // 50} if self.algo == "dqn" else {}


class TimingCallback(Callback):
    """Seconds from the first step to the last update, as the clock and as this process's CPU has them, and
    what the buffer holds then.
    """

    notes: dict[str, Any] = {}  # of the run of this process  # noqa: RUF012

    def on_training_start(self, **kwargs: Any) -> None:
        """Begin."""
        self.started_at = time.perf_counter(), time.process_time()

    def on_training_end(self, **kwargs: Any) -> None:
        """Note what it came to."""
        clock, cpu = time.perf_counter(), time.process_time()
        memory = getattr(kwargs["algo"].source, "replay_sampler", None)
        buffer_size = None
        if memory is not None:
            buffer = memory.buffer
            buffer_size = {"rows": len(buffer), "row_bytes": buffer.nbytes / len(buffer)}
        TimingCallback.notes = {
            "total": clock - self.started_at[0],
            "cpu": cpu - self.started_at[1],
            "buffer": buffer_size,
        }


def train_rlox(workload: AtariWorkload, backend: str) -> dict[str, Any]:
    """`rlox train algo=... env=...` with the engine; its evaluation is of one game."""
    from rlox_cli.main import main

    overrides = [f"algo.{key}={value}" for key, value in workload.settings.items()]
    with (
        tempfile.TemporaryDirectory() as root,
        scores.record_ale_scores() as ale_scores,
        scores.record_games() as games,
    ):
        code = main(
            [
                "train", f"algo={workload.algo}", f"env={workload.env}", f"env.backend={backend}",
                f"total_steps={workload.steps}", f"seed={workload.seed}", "device=cpu", *overrides,
                f"torch_threads={workload.torch_threads}", "eval.episodes=1", f"run_root={root}",
                "callbacks=[harness.atari:TimingCallback]",
            ]
        )  # fmt: skip
        if code:
            raise SystemExit(code)
        (run,) = (path.parent for path in Path(root).glob("*/*/*/result.json"))
        result = json.loads((run / "result.json").read_text())
        lines = (run / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    seconds = {part: result["seconds"][part] for part in ("collect", "update")}
    return {
        "seconds": seconds | {part: TimingCallback.notes[part] for part in ("total", "cpu")},
        "counts": {"env_steps": result["env_steps"], "updates": result["updates"]},
        "buffer": TimingCallback.notes["buffer"],
        "scores": [episode["return"] for episode in episodes] + result["episodes"],
        "paid": None if backend == "envpool" else ale_scores,
        "again": None
        if backend == "auto" or workload.env not in REPLAYABLE_ENVS
        else _replay_games(workload, episodes, games),
    }


def _replay_games(
    workload: AtariWorkload, episodes: Sequence[Mapping[str, Any]], games: Sequence[scores.Game]
) -> list[tuple[float, float | None]]:
    """What was told of games of the first environment, and of the same games played again."""
    first_env_scores = [episode["return"] for episode in episodes if episode["env"] == 0]
    complete_games = [
        (score, game) for score, game in zip(first_env_scores, games, strict=True) if game.is_complete
    ]
    return [(score, scores.replay_score(workload.env, game)) for score, game in complete_games[:MAX_REPLAYED]]


def train_sb3(workload: AtariWorkload) -> dict[str, Any]:
    """The same in Stable-Baselines3, with its own wrappers and stack of frames."""
    import torch
    from learning import sb3

    preset: Any = OmegaConf.to_container(OmegaConf.load(PRESETS / workload.algo / "ALE.yaml"))
    preset["algo"] |= workload.settings
    sticky = preset["env"]["repeat_action_probability"]
    make_games = partial(_make_games, workload.env, sticky, workload.seed)
    model = sb3.make(workload.algo, workload.env, preset, workload.seed, make_games=make_games)
    torch.set_num_threads(workload.torch_threads)
    watch, cpu = Stopwatch(time.perf_counter), Stopwatch()
    model.collect_rollouts = watch.time_call("collect", model.collect_rollouts)
    model.train = watch.time_call("update", model.train)
    with scores.record_ale_scores() as ale_scores:
        ends = cpu.time_call("cpu", watch.time_call("total", sb3.train))(model, workload.steps)
    n_epochs = getattr(model, "n_epochs", 1)  # which it counts one by one
    return {
        "seconds": watch.seconds | cpu.seconds,
        "counts": {"env_steps": model.num_timesteps, "updates": model._n_updates // n_epochs},
        "buffer": _buffer_size(getattr(model, "replay_buffer", None)),
        "scores": [score for _, score in ends],
        "paid": ale_scores,
        "again": None,
    }


def _make_games(env: str, sticky: float, seed: int, n_envs: int) -> Any:
    """`AtariWrapper` around games a frame a step, four frames stacked."""
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from rlox.envs.ids import find_spec

    find_spec(env)  # which registers the games
    arguments = {"frameskip": 1, "repeat_action_probability": sticky}
    return VecFrameStack(make_atari_env(env, n_envs, seed=seed, env_kwargs=arguments), 4)


def _buffer_size(buffer: Any) -> dict[str, Any] | None:
    """Rows of a buffer, and the bytes of each; its arrays have their whole size from the start."""
    if buffer is None:
        return None
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    n_bytes = sum(getattr(buffer, name).nbytes for name in names)
    return {"rows": buffer.size(), "row_bytes": n_bytes / buffer.buffer_size}


def measure_training(workload: AtariWorkload, backend: str | None) -> dict[str, Any]:
    """A training by rlox with the engine, without one by Stable-Baselines3, and this process's memory."""
    run = train_sb3(workload) if backend is None else train_rlox(workload, backend)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return run | {
        "peak_bytes": peak,
        "date": machine.utc_now(),
        "commit": machine.describe_commit(),
    }


def render(runs: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """What else is known of the first run of each work and system: speed, memory, scores."""
    head = [
        "training", "system", "steps/s", "steps per CPU second", "peak memory", "a transition held",
        "a million of them", "games", "scores", "paid by ALE", "played again",
    ]  # fmt: skip
    rows = [head, ["---"] * len(head)]
    for (workload, system), run in runs.items():
        rows.append([workload, system, *_cells(run)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(run: Mapping[str, Any]) -> list[str]:
    steps, seconds, scores_of_run = run["counts"]["env_steps"], run["seconds"], run["scores"]
    row_bytes = run["buffer"] and run["buffer"]["row_bytes"]
    return [
        f"{steps / seconds['total']:,.0f}",
        f"{steps / seconds['cpu']:,.0f}",
        f"{run['peak_bytes'] / 1e6:,.0f} MB",
        f"{row_bytes:,.0f} B" if row_bytes else "-",
        f"{row_bytes / 1e3:.2f} GB" if row_bytes else "-",
        str(len(scores_of_run)),
        f"{min(scores_of_run):g} to {max(scores_of_run):g}" if scores_of_run else "-",
        "-" if run["paid"] is None else str(len(run["paid"])),
        "-" if run["again"] is None else str(len(run["again"])),
    ]
