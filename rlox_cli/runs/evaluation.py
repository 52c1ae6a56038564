"""Evaluate a run: play its policy and write the return of every episode."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlox.configs import DecisionTransformerConfig, RunConfig, dotted_items, make_run, to_plain
from rlox.configs.env import is_text
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, StorageError
from rlox.runs.evaluation_limits import EvaluationMonitor, with_eval_limits
from rlox.runs.progress import ProgressSnapshot, make_reporter
from rlox.training.evaluate import Evaluator
from rlox_cli.commands.evaluate import EvaluateConfig
from rlox_cli.runs import summary
from rlox_cli.runs.run_folder import (
    DONE,
    nearest_runs_hint,
    read_config,
    read_state,
    read_status,
    slug,
    write_json,
)
from rlox_cli.runs.trust import resolve_trusted

if TYPE_CHECKING:
    from rlox.algorithms import DecisionTransformer
    from rlox.algorithms.text.facade import TextAlgorithm
    from rlox.runs.algorithm import Algorithm
    from rlox.training.evaluate import Evaluation
    from rlox.training.target_return import ReturnConditionedActor


def require_playable(config: EvaluateConfig) -> tuple[RunConfig, Path]:
    """Return the configuration to play and the checkpoint; raise every error that is known before playing."""
    run = Path(config.run)
    run_config = _trusted_config(config, run)
    text_files(config, run_config)
    if config.target_return is not None and not isinstance(run_config.algo, DecisionTransformerConfig):
        raise ConfigError(
            f"target_return={config.target_return:g}: {run_config.algo.name} takes no target return, "
            "only decision_transformer does; leave it out"
        )
    if config.best_of is not None and not is_text(run_config.env.id):
        raise ConfigError(f"best_of={config.best_of}: {run_config.algo.name} writes no text; leave it out")
    if config.best_of is not None and (config.video or config.render):
        raise ConfigError("text is not filmed or shown: leave video and render out")
    checkpoint = find_checkpoint(run, config.checkpoint)
    from rlox.envs.engines.factories import engine_factory_for

    if config.video and engine_factory_for(run_config.env) is not None:
        raise ConfigError(
            f"video=true: {run_config.env.id} is stepped by an engine (env.backend={run_config.env.backend}) "
            "that cannot render; leave video out"
        )
    if config.method == "fqe":
        from rlox.algorithms.assembly.offline import require_env
        from rlox.sources.dataset_file import read_document

        dataset_path = Path(config.buffer.path or "")
        require_env(read_document(dataset_path).get("env"), run_config.env.id, f"the dataset {dataset_path}")
    return run_config, checkpoint


def evaluate_run(config: EvaluateConfig) -> dict[str, Any]:
    """Play `config.episodes` episodes and write the result to a file of its own.

    `eval/<checkpoint>.json` is written too if the environment and the dataset of the evaluation are the
    run's own.

    If `config.method` is fqe, no episode is played: the value is estimated from a dataset.
    """
    if config.method == "fqe":
        return _estimate_value(config)
    run, (run_config, checkpoint) = Path(config.run), require_playable(config)
    from rlox.algorithms import ALGORITHMS

    name = slug(config.checkpoint)
    folder = _make_folder(run / "eval")
    video = _make_folder(run / "videos") / f"{name}.mp4" if config.video else None
    load = ALGORITHMS[run_config.algo.name].from_checkpoint
    load_options: dict[str, Any] = {"env_id": config.env.id, "env_kwargs": config.env.kwargs}
    load_options |= text_files(config, run_config)
    with closing(_load(config, load, checkpoint, load_options)) as algorithm, make_reporter() as report:
        _apply_limits(algorithm, config)
        if config.render:
            _close_training_envs(algorithm)
        monitor = EvaluationMonitor(lambda: False, partial(_report_progress, algorithm, report))
        target_return = _set_target_return(algorithm, config.target_return)
        play_options: dict[str, Any] = {"seed": config.seed, "deterministic": config.deterministic}
        if config.best_of is None:
            evaluation = algorithm.evaluate(
                config.episodes, **play_options, is_stopped=monitor, render=config.render
            )
        else:
            evaluation = _best_of(algorithm, config, config.best_of)
        if video:
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # render frames without a window
            _close_training_envs(algorithm)
            algorithm.evaluate(1, **play_options, video=video)
    data = _document(config, run_config, checkpoint, evaluation, video, target_return)
    result_path = folder / f"{_result_name(config, checkpoint, run_config)}.json"
    latest_paths = () if _difference_suffix(config, run_config) else (folder / f"{name}.json",)
    for target in (result_path, *latest_paths):
        write_json(target, data)
    mode = "" if config.deterministic else ", sampled actions"
    mode = mode if config.best_of is None else f", best of {config.best_of}"
    print(
        f"{run_config.algo.name} on {run_config.env.id}, checkpoint {checkpoint.resolve().name}{mode}\n"
        "  score   "
        f"{summary.format_score(data['mean'], data['iqm'], data['ci95'], len(evaluation.returns))}\n"
        + summary.truncation_line(evaluation.n_cut, len(evaluation.returns))
        + f"  file    {result_path}"
        + (f"\n  video   {video}" if video else "")
    )
    if evaluation.non_finite_message:
        raise NonFiniteError(f"{run}: {evaluation.non_finite_message}; {result_path} has null for these")
    return data


def _apply_limits(algorithm: Algorithm, config: EvaluateConfig) -> None:
    """Apply the requested limits in place of the run's `eval.n_envs` and `eval.max_steps`."""
    evaluator = algorithm.components.evaluate
    if evaluator is not None:
        limited_evaluator = with_eval_limits(evaluator, algorithm.name, config.n_envs, config.max_steps)
        algorithm.components = replace(algorithm.components, evaluate=limited_evaluator)


def _close_training_envs(algorithm: Algorithm) -> None:
    """Close the training environments if no second instance may exist: rendering needs a new one."""
    evaluator = algorithm.components.evaluate
    if isinstance(evaluator, Evaluator) and evaluator.settings.reuse_env:
        algorithm.close()


def _report_progress(
    algorithm: Algorithm, report: Callable[[ProgressSnapshot], None], evaluated_fraction: float
) -> None:
    """Report the progress of the evaluation."""
    report(replace(ProgressSnapshot.of(algorithm.clock, None, 0.0, 0.0), evaluating=evaluated_fraction))


def _best_of(algorithm: Algorithm, config: EvaluateConfig, n: int) -> Evaluation:
    """Evaluate the best of `n` completions of a text model."""
    return cast("TextAlgorithm", algorithm).best_of(n, config.episodes, config.seed)


def _set_target_return(algorithm: Algorithm, target_return: float | None) -> float | None:
    """Set the target return of a return-conditioned policy and return it; `None` for other policies."""
    if not isinstance(algorithm.config.algo, DecisionTransformerConfig):
        return None
    if target_return is not None:
        cast("DecisionTransformer", algorithm).ask(target_return)
    return cast("ReturnConditionedActor", algorithm.components.actor).target_return.value


def _estimate_value(config: EvaluateConfig) -> dict[str, Any]:
    """Estimate the value of the policy by fitted Q evaluation."""
    run, dataset_path = Path(config.run), Path(config.buffer.path or "")
    (run_config, checkpoint), folder = require_playable(config), _make_folder(run / "eval")
    from rlox.algorithms import ALGORITHMS
    from rlox.offline.fqe import FQESettings, fitted_q_evaluation
    from rlox.runs.progress import make_reporter, progress_callback
    from rlox.sources.dataset_file import read_dataset
    from rlox.training.setup import torch_threads

    dataset = read_dataset(dataset_path)
    config_gamma = config.fqe.gamma
    gamma = getattr(run_config.algo, "gamma", 0.99) if config_gamma is None else config_gamma
    fqe = config.fqe
    fitting = FQESettings(
        gamma, fqe.updates, learning_rate=fqe.learning_rate, net_arch=fqe.net_arch, members=fqe.members,
        seed=config.seed,
    )  # fmt: skip
    load = ALGORITHMS[run_config.algo.name].from_checkpoint
    load_options: dict[str, Any] = {"env_id": config.env.id, "env_kwargs": config.env.kwargs}
    loaded_algorithm = closing(_load(config, load, checkpoint, load_options))
    with loaded_algorithm as algorithm, torch_threads(1), make_reporter() as report:
        progress = progress_callback(report, "updates", fqe.updates)
        value_estimate = fitted_q_evaluation(algorithm.components.actor, dataset.columns, fitting, progress)
    document = {
        "schema_version": summary.SCHEMA_VERSION,
        "method": "fqe",
        "algo": run_config.algo.name,
        "env": run_config.env.id,
        "checkpoint": checkpoint.resolve().name,
        "dataset": dataset.digest,
        "settings": to_plain(fitting),
        **to_plain(value_estimate),
    }
    settings_hash = hashlib.sha256(json.dumps(to_plain(fitting), sort_keys=True).encode()).hexdigest()[:8]
    result_path = folder / f"{checkpoint.resolve().name}_fqe_{dataset.digest[:8]}_{settings_hash}.json"
    finite_document: dict[str, Any] = summary.replace_non_finite(document)
    write_json(result_path, finite_document)
    low, high = value_estimate.ci90
    start_text = f"where episodes of {dataset_path} begin"
    if not value_estimate.is_converged:
        print(
            f"rlox evaluate: warning: the value has not converged: it was {value_estimate.earlier_value:.1f} "
            f"with a fifth of the updates left; give more: fqe.updates={5 * fqe.updates}",
            file=sys.stderr,
        )
    print(
        f"{run_config.algo.name} on {run_config.env.id}, checkpoint {checkpoint.resolve().name}\n"
        f"  value   {value_estimate.value:.1f} discounted by {gamma:g} (90% CI {low:.1f} to {high:.1f}), "
        f"{start_text}\n  file    {result_path}"
    )
    return finite_document


def text_files(config: Any, run_config: RunConfig) -> dict[str, str]:
    """Return the given model and dataset paths; raise `ConfigError` if the run is not on text."""
    names = {f.name for f in fields(config)} & {"model", "tokenizer", "dataset", "eval_dataset"}
    paths = {name: getattr(config, name) for name in sorted(names) if getattr(config, name)}
    if paths and not is_text(run_config.env.id):
        name = next(iter(paths))
        raise ConfigError(f"{name}={paths[name]}: {run_config.algo.name} learned no text; leave it out")
    return paths


def _load(config: EvaluateConfig, load: Any, checkpoint: Path, load_options: dict[str, Any]) -> Any:
    try:
        return load(checkpoint, replay=False, trust=config.trust, device=config.device, **load_options)
    except CheckpointError as error:
        if config.env.id is None:
            raise
        raise ConfigError(
            f"env={config.env.id}: the policy was trained in another environment, with other spaces: {error}"
        ) from error


def _result_name(config: EvaluateConfig, checkpoint: Path, played_config: RunConfig) -> str:
    """Return a name that tells checkpoint, seed, episodes, way to play, environment and dataset apart."""
    name = f"{checkpoint.resolve().name}_s{config.seed}_e{config.episodes}"
    name += "" if config.max_steps is None else f"_max-{config.max_steps}"
    name += "" if config.deterministic else "_sampled"
    name += f"-{config.n_envs}" if config.n_envs and not config.deterministic else ""
    name += "" if config.best_of is None else f"_best-of-{config.best_of}"
    name += "" if config.target_return is None else f"_asked-{config.target_return:g}"
    return slug(name + _difference_suffix(config, played_config))


def _difference_suffix(config: EvaluateConfig, played_config: RunConfig) -> str:
    """Return a suffix if the environment or the evaluation dataset is not the run's own, else ''."""
    run_config = read_run_config(Path(config.run))
    run_env, played_env = to_plain(run_config.env), to_plain(played_config.env)
    name = f"_env-{played_env['id']}" if played_env["id"] != run_env["id"] else ""
    if played_env["kwargs"] != run_env["kwargs"]:
        text = json.dumps(config.env.kwargs, sort_keys=True, default=str)
        name += f"_kwargs-{_sha256(text.encode())[:8]}"
    if config.eval_dataset is not None:
        dataset_hash = _sha256(Path(config.eval_dataset).read_bytes())
        dataset_path = Path(run_config.eval_dataset) if run_config.eval_dataset else None
        is_missing = dataset_path is not None and not dataset_path.is_file()
        if not is_missing and (dataset_path is None or _sha256(dataset_path.read_bytes()) != dataset_hash):
            name += f"_rows-{dataset_hash[:8]}"
    return name


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _trusted_config(config: EvaluateConfig, run: Path) -> RunConfig:
    """Return the configuration to play; raise `ConfigError` for code that only the folder names."""
    run_config = replace(read_run_config(run), callbacks=())
    kwargs = {**run_config.env.kwargs, **config.env.kwargs}
    env = replace(run_config.env, id=config.env.id or run_config.env.id, kwargs=kwargs)
    trusted_arguments = [
        config.env.id or "",
        *(f"{k}={v}" for k, v in dotted_items(to_plain(config.env)["kwargs"])),
    ]
    command = f"rlox evaluate {summary.quote_path(run)}"
    return resolve_trusted(
        replace(run_config, env=env), config.trust, trusted_arguments, run / "config.yaml", command
    )


def read_run_config(run: Path) -> RunConfig:
    """Return the frozen configuration of a run, read as plain data; nothing that it names is imported."""
    path = run / "config.yaml"
    if (run / "manifest.json").is_file() and not (run.parent.parent / "config.yaml").is_file():
        raise ConfigError(
            f"run={run}: this is a checkpoint without a run folder, as save() in Python writes it; use it in "
            f"Python: from_checkpoint({str(run)!r})"
        )
    if (run / "manifest.json").is_file():
        raise ConfigError(
            f"run={run}: this is a checkpoint; name its run folder and the checkpoint: "
            f"rlox evaluate {summary.quote_path(run.parent.parent)} checkpoint={run.name}"
        )
    if not path.is_file():
        raise ConfigError(f"run={run}: no run folder there ({path} is missing){nearest_runs_hint(run)}")
    return make_run(read_config(run))


def _make_folder(path: Path) -> Path:
    """Create the folder if it is missing; raise `StorageError` before anything is played."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    return path


def find_checkpoint(run: Path, name: str) -> Path:
    """Return the checkpoint of that name; raise `ConfigError` if there is none to load."""
    from rlox.runs.checkpoint import resolve_checkpoint

    try:
        return resolve_checkpoint(run, name)
    except CheckpointError as error:
        reason = str(error)
        if read_state(run) == DONE and not any(run.glob("checkpoints/step-*")):
            reason = summary.missing_checkpoints_message(run, read_status(run).get("step"))
        raise ConfigError(f"checkpoint={name}: {reason}") from error


def _document(
    config: EvaluateConfig,
    run_config: RunConfig,
    checkpoint: Path,
    evaluation: Any,
    video: Path | None,
    target_return: float | None,
) -> dict[str, Any]:
    data = {
        "schema_version": summary.SCHEMA_VERSION,
        "algo": run_config.algo.name,
        "env": run_config.env.id,
        "checkpoint": checkpoint.resolve().name,
        "seed": config.seed,
        "deterministic": config.deterministic and config.best_of is None,
        "target_return": target_return,
        **({} if config.best_of is None else {"best_of": config.best_of}),
        "env_kwargs": to_plain(run_config.env)["kwargs"],
        "mean": evaluation.mean,
        "std": evaluation.std,
        "iqm": evaluation.iqm,
        "ci95": None if evaluation.ci95 is None else list(evaluation.ci95),
        "episodes": list(evaluation.returns),
        "lengths": list(evaluation.lengths),
        "cut": evaluation.n_cut,
        "unscored": evaluation.non_finite_message or None,
        "video": f"videos/{video.name}" if video else None,
    }
    finite_data: dict[str, Any] = summary.replace_non_finite(data)
    return finite_data
