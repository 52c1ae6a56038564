"""`result.json` and the closing lines of a run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rlox.configs import RunConfig
from rlox.configs.loggers import WandbConfig
from rlox.runs.progress import format_duration, unit_label
from rlox_cli.runs.run_folder import FAILED, KILLED
from rlox_cli.runs.trust import trust_arguments

SCHEMA_VERSION = 1
TIME_PARTS = ("total", "collect", "update", "evaluate")


def replace_unprintable(text: str) -> str:
    """Replace characters that could move the cursor: anybody may have written the file that it is from."""
    return "".join(character if character.isprintable() else "?" for character in text)


def quote_path(path: Path) -> str:
    """Quote a path for a shell; a path that would be read as a flag or an override begins with `./`."""
    text = str(path)
    return shlex.quote(f"./{text}" if text[:1] in ("-", "~", "+") else text)


def result_document(config: RunConfig, outcome: Any, status: str, reason: str) -> dict[str, Any]:
    """Return the content of `result.json`.

    Non-finite numbers become null; `unscored` says why there is no score.
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
        "episodes_cut": evaluation.n_cut if evaluation else 0,
        "unscored": (evaluation.non_finite_message if evaluation else outcome.no_score_reason) or None,
        "train_return_last100": outcome.train_return_last100,
        "seconds": {part: outcome.seconds[part] for part in TIME_PARTS},
        "steps_per_second": {part: _rate(clock.now, outcome.seconds[part]) for part in TIME_PARTS},
    }
    # This rate counts steps of evaluations; they are known only if the final evaluation was the only one.
    only_final = evaluation is not None and config.eval.every == 0
    data["steps_per_second"]["evaluate"] = (
        _rate(sum(evaluation.lengths), outcome.seconds["evaluate"]) if only_final else None
    )
    return cast(dict[str, Any], replace_non_finite(data))


def evaluation_line(result: Any, is_best: bool) -> str:
    """Return the result of an evaluation during training, worded like the final one."""
    return (
        format_score(result.mean, result.iqm, result.ci95, len(result.returns))
        + ", the best so far" * is_best
    )


def closing_lines(
    config: RunConfig,
    data: dict[str, Any],
    folder: Path,
    best: tuple[float, int] | None = None,
    signal: str = "signal",
) -> str:
    """Return the lines that the user reads at the end.

    `best` is the highest evaluation and its step, `signal` the usual name of the signal that stopped the run.
    """
    seconds, rate = data["seconds"], data["steps_per_second"]["total"]
    unit_word = unit_label(data["unit"])
    speed = f", {rate:,.0f} {unit_word}/s" if rate else ""
    parts = ", ".join(f"{part} {seconds[part] or 0:.1f} s" for part in TIME_PARTS[1:])
    is_regular_end = data["reason"] in ("total_steps", data["status"])
    stopped_by = signal if data["reason"] == "signal" else data["reason"]
    stop_text = "" if is_regular_end or data["status"] == FAILED else f" (stopped by {stopped_by})"
    lines = [
        f"{data['status']}{stop_text}: {data['algo']} on {data['env']}, seed {data['seed']}",
        f"  score   {_score_text(data)}",
        f"  {unit_word:<7} {_steps_text(config, data)}",
        f"  time    {format_duration(seconds['total'])} ({parts}{speed})",
        f"  folder  {folder}",
    ]
    if best is not None and math.isfinite(best[0]):
        best_text = f"{format_number(best[0])} at {unit_word} {best[1]:,} (checkpoint=best)"
        lines.insert(2, f"  best    {best_text}")
    if data["episodes_cut"]:
        lines.insert(2, truncation_line(data["episodes_cut"], len(data["episodes"])).rstrip())
    if data["status"] in (KILLED, FAILED):
        lines.append(f"  resume  {resume_command(folder, config)}")
    if (mean := data["train_return_last100"]) is not None:
        lines.insert(2, f"  train   {format_number(mean)} mean return of the last 100 episodes")
    return "\n".join(lines)


def offline_message(config: RunConfig, folder: Path) -> str:
    """Return where unsent files for Weights & Biases are and how to send them; empty if there are none."""
    loggers = config.logger.values()
    if not any(isinstance(kind, WandbConfig) and kind.mode == "offline" for kind in loggers):
        return ""
    return f"  wandb   offline, in {folder / 'wandb'}; to send it: rlox sync {quote_path(folder)}"


def truncation_line(count: int, episodes: int) -> str:
    """Return a line on episodes that were cut off; empty if there are none."""
    return f"  cut     {count} of {episodes} episodes, at max_steps\n" if count else ""


def abandoned_message(config: RunConfig, outcome: Any, folder: Path) -> str:
    """Return the message on what is lost by a stop during a long operation."""
    checkpoint_steps = [int(p.name[5:17]) for p in folder.glob("checkpoints/step-*") if "." not in p.name]
    unit_word = unit_label(config.algo.unit)
    checkpoint_text = (
        f"the last checkpoint is at step {max(checkpoint_steps):,}"
        if checkpoint_steps
        else "there is no checkpoint yet"
    )
    lost_steps = outcome.clock.now - max(checkpoint_steps, default=0)
    return (
        f"stopped {outcome.abandoned_during}: {checkpoint_text}; {lost_steps:,} {unit_word} and the "
        "interrupted work will be repeated"
    )


def missing_checkpoints_message(folder: Path, step: Any) -> str:
    """Return the message on a finished run without checkpoints, and what to do."""
    step_text = f" at step {step:,}" if isinstance(step, int) else ""
    return (
        f"{folder} was done{step_text} and has no checkpoints any more\n"
        "  put checkpoints/ back, or start a new run: rlox train"
    )


def resume_command(folder: Path, config: RunConfig) -> str:
    """Return the command that resumes a run; it repeats the code that the run names."""
    return f"rlox resume {quote_path(folder)}{trust_arguments(config)}"


def replace_non_finite(value: Any) -> Any:
    """Return the data with `None` for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {k: replace_non_finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_non_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _score_text(data: dict[str, Any]) -> str:
    if data["score"] is None:
        return f"none: {data['unscored']}"
    return format_score(
        data["score"], data["score_iqm"], data["score_ci95"], len(data["episodes"]), "evaluation "
    )


def format_score(
    mean: float | None,
    iqm: float | None,
    ci95: Sequence[float | None] | None,
    episodes: int,
    qualifier: str = "",
) -> str:
    """Return `475.2 mean of 50 episodes (95% CI 460.1 to 489.9), IQM 500.0`, with enough digits.

    The interval is that of the mean. One episode has no interval: `475.2 in 1 episode`.
    """
    if episodes == 1 or ci95 is None:
        return f"{format_number(mean)} in {episodes} {qualifier}episode{'s' * (episodes != 1)}"
    low, high = ci95
    return (
        f"{format_number(mean)} mean of {episodes} {qualifier}episodes "
        f"(95% CI {format_number(low)} to {format_number(high)}), IQM {format_number(iqm)}"
    )


def _steps_text(config: RunConfig, data: dict[str, Any]) -> str:
    steps = data[data["unit"]]
    if steps > config.total_steps:
        rounding = f"{config.algo.batch_name} of {config.batch_steps:,}"
        return f"{steps:,} (total_steps={config.total_steps:,} rounded up to {rounding})"
    return f"{steps:,} of {config.total_steps:,}" if steps < config.total_steps else f"{steps:,}"


def _rate(steps: int, seconds: float) -> float | None:
    return steps / seconds if seconds > 0 else None


def format_number(value: float | None) -> str:
    """Format with one decimal from 100 on, two from 10 on, three below that."""
    if value is None:
        return "-"
    return f"{value:.{1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3}f}"
