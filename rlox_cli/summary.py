"""`result.json` and the closing lines of a run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rlox.configs import RunConfig
from rlox.configs.loggers import WandbConfig
from rlox.runs.progress import duration, word
from rlox_cli.run_folder import FAILED, KILLED
from rlox_cli.trust import repeated

SCHEMA_VERSION = 1
PARTS = ("total", "collect", "update", "evaluate")


def printable(text: str) -> str:
    """Text of a file that anybody may have written: no letter of it moves the cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def typed(path: Path) -> str:
    """A path as it is typed in a shell: one that would be read as a flag or an override begins with `./`."""
    text = str(path)
    return shlex.quote(f"./{text}" if text[:1] in ("-", "~", "+") else text)


def result(config: RunConfig, outcome: Any, status: str, reason: str) -> dict[str, Any]:
    """The content of `result.json`.

    Numbers that are not finite become null; `unscored` says why there is no score.
    """
    evaluation = outcome.evaluation
    clock = outcome.clock
    data = {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "reason": reason,
        "algo": config.algo.name,
        "env": config.env.id,
        "seed": config.seed,
        "name": config.run.name,
        "tags": list(config.run.tags),
        "unit": clock.unit,
        **clock.counters,
        "score": evaluation.mean if evaluation else None,
        "score_iqm": evaluation.iqm if evaluation else None,
        "score_ci95": list(evaluation.ci95) if evaluation and evaluation.ci95 else None,
        "episodes": list(evaluation.returns) if evaluation else [],
        "episodes_cut": evaluation.cut if evaluation else 0,
        "unscored": (evaluation.flaw if evaluation else outcome.unscored) or None,
        "train_return_last100": outcome.train_return_last100,
        "seconds": {part: outcome.seconds[part] for part in PARTS},
        "steps_per_second": {part: _rate(clock.now, outcome.seconds[part]) for part in PARTS},
    }
    # Steps of the evaluation itself, not of training; known when there was only the final one.
    only_final = evaluation is not None and config.eval.every == 0
    data["steps_per_second"]["evaluate"] = (
        _rate(sum(evaluation.lengths), outcome.seconds["evaluate"]) if only_final else None
    )
    return cast(dict[str, Any], finite(data))


def evaluation(found: Any, best: bool) -> str:
    """What an evaluation on the way came to, in the words of the last one."""
    return score(found.mean, found.iqm, found.ci95, len(found.returns)) + ", the best so far" * best


def closing(
    config: RunConfig,
    data: dict[str, Any],
    folder: Path,
    best: tuple[float, int] | None = None,
    signal: str = "signal",
) -> str:
    """What the user reads at the end.

    `best` is the highest evaluation and where it was made, `signal` what people call the one that stopped it.
    """
    seconds, rate = data["seconds"], data["steps_per_second"]["total"]
    counted = word(data["unit"])
    speed = f", {rate:,.0f} {counted}/s" if rate else ""
    parts = ", ".join(f"{part} {seconds[part] or 0:.1f} s" for part in PARTS[1:])
    plain = data["reason"] in ("total_steps", data["status"])
    by = signal if data["reason"] == "signal" else data["reason"]
    ended = "" if plain or data["status"] == FAILED else f" (stopped by {by})"
    lines = [
        f"{data['status']}{ended}: {data['algo']} on {data['env']}, seed {data['seed']}",
        f"  score   {_score(data)}",
        f"  {counted:<7} {_steps(config, data)}",
        f"  time    {duration(seconds['total'])} ({parts}{speed})",
        f"  folder  {folder}",
    ]
    if best is not None and math.isfinite(best[0]):
        at = f"{number(best[0])} at {counted} {best[1]:,} (checkpoint=best)"
        lines.insert(2, f"  best    {at}")
    if data["episodes_cut"]:
        lines.insert(2, cut(data["episodes_cut"], len(data["episodes"])).rstrip())
    if data["status"] in (KILLED, FAILED):
        lines.append(f"  resume  {resume_command(folder, config)}")
    if (mean := data["train_return_last100"]) is not None:
        lines.insert(2, f"  train   {number(mean)} mean return of the last 100 episodes")
    return "\n".join(lines)


def offline(config: RunConfig, folder: Path) -> str:
    """Where files for Weights & Biases are and how they are sent, where that is not done; else empty."""
    kinds = config.logger.values()
    if not any(isinstance(kind, WandbConfig) and kind.mode == "offline" for kind in kinds):
        return ""
    return f"  wandb   offline, in {folder / 'wandb'}; to send it: rlox sync {typed(folder)}"


def cut(count: int, episodes: int) -> str:
    """A line on episodes that had not ended when they were; empty where all had."""
    return f"  cut     {count} of {episodes} episodes, at max_steps\n" if count else ""


def abandoned(config: RunConfig, outcome: Any, folder: Path) -> str:
    """What a stop in the middle of something long costs."""
    saved = [int(p.name[5:17]) for p in folder.glob("checkpoints/step-*") if "." not in p.name]
    counted = word(config.algo.unit)
    where = (
        f"the last checkpoint is at step {max(saved):,}" if saved else "there is no checkpoint yet"
    )
    lost = outcome.clock.now - max(saved, default=0)
    return f"stopped {outcome.abandoned}: {where}; {lost:,} {counted} and what was under way are made again"


def checkpoints_are_gone(folder: Path, step: Any) -> str:
    """What a run that is done is without its checkpoints, and what to do."""
    at = f" at step {step:,}" if isinstance(step, int) else ""
    return (
        f"{folder} was done{at} and has no checkpoints any more\n"
        "  put checkpoints/ back, or start a new run: rlox train"
    )


def resume_command(folder: Path, config: RunConfig) -> str:
    """What to type to go on with a run, code that it names repeated."""
    return f"rlox resume {typed(folder)}{repeated(config)}"


def finite(value: Any) -> Any:
    """The same data with NaN and infinities as `None`, which JSON can say."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _score(data: dict[str, Any]) -> str:
    if data["score"] is None:
        return f"none: {data['unscored']}"
    return score(
        data["score"], data["score_iqm"], data["score_ci95"], len(data["episodes"]), "evaluation "
    )


def score(
    mean: float | None,
    iqm: float | None,
    ci95: Sequence[float | None] | None,
    episodes: int,
    of: str = "",
) -> str:
    """`475.2 mean of 50 episodes (95% CI 460.1 to 489.9), IQM 500.0`, in digits that suffice.

    The interval is that of the mean. One episode has no interval: `475.2 in 1 episode`.
    """
    if episodes == 1 or ci95 is None:
        return f"{number(mean)} in {episodes} {of}episode{'s' * (episodes != 1)}"
    low, high = ci95
    return (
        f"{number(mean)} mean of {episodes} {of}episodes "
        f"(95% CI {number(low)} to {number(high)}), IQM {number(iqm)}"
    )


def _steps(config: RunConfig, data: dict[str, Any]) -> str:
    taken = data[data["unit"]]
    if taken > config.total_steps:
        whole = f"{config.algo.batches} of {config.quantum:,}"
        return f"{taken:,} (total_steps={config.total_steps:,} rounded up to {whole})"
    return f"{taken:,} of {config.total_steps:,}" if taken < config.total_steps else f"{taken:,}"


def _rate(steps: int, seconds: float) -> float | None:
    return steps / seconds if seconds > 0 else None


def number(value: float | None) -> str:
    """With one decimal from 100 on, two from 10 on, three below that."""
    if value is None:
        return "-"
    return f"{value:.{1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3}f}"
