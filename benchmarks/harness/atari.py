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
REPEATED = (
    "ALE/Pong-v5",
)  # half of the games of Breakout go another way when they are played again
REPLAYED = 3  # games of an engine that are played again


@dataclass(frozen=True)
class Work:
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


class Watch(Callback):
    """Seconds from the first step to the last update, as the clock and as this process's CPU has them, and
    what the buffer holds then.
    """

    notes: dict[str, Any] = {}  # of the run of this process  # noqa: RUF012

    def on_training_start(self, **kwargs: Any) -> None:
        """Begin."""
        self.began = time.perf_counter(), time.process_time()

    def on_training_end(self, **kwargs: Any) -> None:
        """Note what it came to."""
        clock, cpu = time.perf_counter(), time.process_time()
        memory = getattr(kwargs["algo"].source, "memory", None)
        held = None
        if memory is not None:
            buffer = memory.buffer
            held = {"rows": len(buffer), "row_bytes": buffer.nbytes / len(buffer)}
        Watch.notes = {"total": clock - self.began[0], "cpu": cpu - self.began[1], "buffer": held}


def train_rlox(work: Work, backend: str) -> dict[str, Any]:
    """`rlox train algo=... env=...` with the engine; its evaluation is of one game."""
    from rlox_cli.main import main

    given = [f"algo.{key}={value}" for key, value in work.settings.items()]
    with tempfile.TemporaryDirectory() as root, scores.paid() as paid, scores.played() as played:
        code = main(
            [
                "train", f"algo={work.algo}", f"env={work.env}", f"env.backend={backend}",
                f"total_steps={work.steps}", f"seed={work.seed}", "device=cpu", *given,
                f"torch_threads={work.torch_threads}", "eval.episodes=1", f"run_root={root}",
                "callbacks=[harness.atari:Watch]",
            ]
        )  # fmt: skip
        if code:
            raise SystemExit(code)
        (run,) = (path.parent for path in Path(root).glob("*/*/*/result.json"))
        result = json.loads((run / "result.json").read_text())
        lines = (run / "episodes.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    seconds = {part: result["seconds"][part] for part in ("collect", "update")}
    return {
        "seconds": seconds | {part: Watch.notes[part] for part in ("total", "cpu")},
        "counts": {"env_steps": result["env_steps"], "updates": result["updates"]},
        "buffer": Watch.notes["buffer"],
        "scores": [episode["return"] for episode in told] + result["episodes"],
        "paid": None if backend == "envpool" else paid,
        "again": None
        if backend == "auto" or work.env not in REPEATED
        else _again(work, told, played),
    }


def _again(
    work: Work, told: Sequence[Mapping[str, Any]], played: Sequence[scores.Game]
) -> list[tuple[float, float | None]]:
    """What was told of games of the first environment, and of the same games played again."""
    of_first = [episode["return"] for episode in told if episode["env"] == 0]
    known = [(score, game) for score, game in zip(of_first, played, strict=True) if game.whole]
    return [(score, scores.again(work.env, game)) for score, game in known[:REPLAYED]]


def train_sb3(work: Work) -> dict[str, Any]:
    """The same in Stable-Baselines3, with its own wrappers and stack of frames."""
    import torch
    from learning import sb3

    preset: Any = OmegaConf.to_container(OmegaConf.load(PRESETS / work.algo / "ALE.yaml"))
    preset["algo"] |= work.settings
    sticky = preset["env"]["repeat_action_probability"]
    made = partial(_games, work.env, sticky, work.seed)
    model = sb3.make(work.algo, work.env, preset, work.seed, games=made)
    torch.set_num_threads(work.torch_threads)
    watch, cpu = Stopwatch(time.perf_counter), Stopwatch()
    model.collect_rollouts = watch.timed("collect", model.collect_rollouts)
    model.train = watch.timed("update", model.train)
    with scores.paid() as paid:
        ends = cpu.timed("cpu", watch.timed("total", sb3.train))(model, work.steps)
    each = getattr(model, "n_epochs", 1)  # which it counts one by one
    return {
        "seconds": watch.seconds | cpu.seconds,
        "counts": {"env_steps": model.num_timesteps, "updates": model._n_updates // each},
        "buffer": _held(getattr(model, "replay_buffer", None)),
        "scores": [score for _, score in ends],
        "paid": paid,
        "again": None,
    }


def _games(env: str, sticky: float, seed: int, n_envs: int) -> Any:
    """`AtariWrapper` around games a frame a step, four frames stacked."""
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from rlox.envs.ids import find_spec

    find_spec(env)  # which registers the games
    arguments = {"frameskip": 1, "repeat_action_probability": sticky}
    return VecFrameStack(make_atari_env(env, n_envs, seed=seed, env_kwargs=arguments), 4)


def _held(buffer: Any) -> dict[str, Any] | None:
    """Rows of a buffer, and the bytes of each; its arrays have their whole size from the start."""
    if buffer is None:
        return None
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    taken = sum(getattr(buffer, name).nbytes for name in names)
    return {"rows": buffer.size(), "row_bytes": taken / buffer.buffer_size}


def measured(work: Work, backend: str | None) -> dict[str, Any]:
    """A training by rlox with the engine, without one by Stable-Baselines3, and this process's memory."""
    found = train_sb3(work) if backend is None else train_rlox(work, backend)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found | {"peak_bytes": peak, "date": machine.now(), "commit": machine.describe_commit()}


def render(runs: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """What else is known of the first run of each work and system: speed, memory, scores."""
    head = [
        "training", "system", "steps/s", "steps per CPU second", "peak memory", "a transition held",
        "a million of them", "games", "scores", "paid by ALE", "played again",
    ]  # fmt: skip
    rows = [head, ["---"] * len(head)]
    for (work, system), run in runs.items():
        rows.append([work, system, *_cells(run)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(run: Mapping[str, Any]) -> list[str]:
    steps, seconds, told = run["counts"]["env_steps"], run["seconds"], run["scores"]
    held = run["buffer"] and run["buffer"]["row_bytes"]
    return [
        f"{steps / seconds['total']:,.0f}",
        f"{steps / seconds['cpu']:,.0f}",
        f"{run['peak_bytes'] / 1e6:,.0f} MB",
        f"{held:,.0f} B" if held else "-",
        f"{held / 1e3:.2f} GB" if held else "-",
        str(len(told)),
        f"{min(told):g} to {max(told):g}" if told else "-",
        "-" if run["paid"] is None else str(len(run["paid"])),
        "-" if run["again"] is None else str(len(run["again"])),
    ]
