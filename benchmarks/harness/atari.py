"""Train on an Atari game with `rlox train` or Stable-Baselines3; each training has its own process."""

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
REPLAYABLE_ENVS = ("ALE/Pong-v5",)  # half of the replayed games of Breakout diverge
MAX_REPLAYED = 3  # games per engine that are replayed


@dataclass(frozen=True)
class AtariWorkload:
    """A training with the Atari preset."""

    algo: str
    env: str
    steps: int
    seed: int = 0
    torch_threads: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ from the preset, whose 100,000 steps before the first update are 1% of its
        run.
        """
        return {"learning_starts": self.steps // 50} if self.algo == "dqn" else {}


class TimingCallback(Callback):
    """Measure the seconds from the first step to the last update and the buffer's size.

    It notes wall-clock seconds and CPU seconds of this process, and the rows and bytes that the buffer holds
    at the end.
    """

    notes: dict[str, Any] = {}  # the notes of the run in this process  # noqa: RUF012

    def on_training_start(self, **kwargs: Any) -> None:
        """Start the clocks."""
        self.started_at = time.perf_counter(), time.process_time()

    def on_training_end(self, **kwargs: Any) -> None:
        """Note the seconds and the buffer's size."""
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
    """Run `rlox train algo=... env=...` with the given backend; the evaluation has one game."""
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
    """Return the reported scores of the first environment's games, each with the replayed score."""
    first_env_scores = [episode["return"] for episode in episodes if episode["env"] == 0]
    complete_games = [
        (score, game) for score, game in zip(first_env_scores, games, strict=True) if game.is_complete
    ]
    return [(score, scores.replay_score(workload.env, game)) for score, game in complete_games[:MAX_REPLAYED]]


def train_sb3(workload: AtariWorkload) -> dict[str, Any]:
    """Train Stable-Baselines3 once, with its own wrappers and frame stack."""
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
    n_epochs = getattr(model, "n_epochs", 1)  # SB3 counts each epoch as an update
    return {
        "seconds": watch.seconds | cpu.seconds,
        "counts": {"env_steps": model.num_timesteps, "updates": model._n_updates // n_epochs},
        "buffer": _buffer_size(getattr(model, "replay_buffer", None)),
        "scores": [score for _, score in ends],
        "paid": ale_scores,
        "again": None,
    }


def _make_games(env: str, sticky: float, seed: int, n_envs: int) -> Any:
    """Make games in `AtariWrapper` with one frame a step, and stack four frames."""
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from rlox.envs.ids import find_spec

    find_spec(env)  # registers the games
    arguments = {"frameskip": 1, "repeat_action_probability": sticky}
    return VecFrameStack(make_atari_env(env, n_envs, seed=seed, env_kwargs=arguments), 4)


def _buffer_size(buffer: Any) -> dict[str, Any] | None:
    """Return the rows in a buffer and the bytes of a row; SB3 allocates its arrays in full at the start."""
    if buffer is None:
        return None
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    n_bytes = sum(getattr(buffer, name).nbytes for name in names)
    return {"rows": buffer.size(), "row_bytes": n_bytes / buffer.buffer_size}


def measure_training(workload: AtariWorkload, backend: str | None) -> dict[str, Any]:
    """Train with rlox, or with Stable-Baselines3 if `backend` is None; add this process's peak memory."""
    run = train_sb3(workload) if backend is None else train_rlox(workload, backend)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return run | {
        "peak_bytes": peak,
        "date": machine.utc_now(),
        "commit": machine.describe_commit(),
    }


def render(runs: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Return a table of speed, memory and scores of the first run of each work and system."""
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
