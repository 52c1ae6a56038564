"""An evaluation of a run: its policy is played, and every episode's return written."""

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

from rlox.configs import DecisionTransformerConfig, RunConfig, leaves, make_run, plain
from rlox.configs.text import is_text
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, StorageError
from rlox.runs.evaluating import Evaluating, limited
from rlox.runs.progress import Snapshot, reporter
from rlox.training.evaluate import Evaluator
from rlox_cli import summary
from rlox_cli.commands.evaluate import EvaluateConfig
from rlox_cli.run_folder import (
    DONE,
    nearest_runs,
    read_config,
    read_status,
    slug,
    state_of,
    write_json,
)
from rlox_cli.trust import allowed

if TYPE_CHECKING:
    from rlox.algorithms import DecisionTransformer
    from rlox.algorithms.text_facade import TextAlgorithm
    from rlox.runs.algorithm import Algorithm
    from rlox.training.conditioned import ConditionedActor
    from rlox.training.evaluate import Evaluation


def playable(config: EvaluateConfig) -> tuple[RunConfig, Path]:
    """What is played, and the checkpoint; an error for what can be known before anything is played."""
    run = Path(config.run)
    trained = _trusted(config, run)
    text_files(config, trained)
    if config.target_return is not None and not isinstance(trained.algo, DecisionTransformerConfig):
        raise ConfigError(
            f"target_return={config.target_return:g}: {trained.algo.name} cannot be asked for a return, "
            "decision_transformer can; leave it out"
        )
    if config.best_of is not None and not is_text(trained.env.id):
        raise ConfigError(
            f"best_of={config.best_of}: {trained.algo.name} writes no text; leave it out"
        )
    if config.best_of is not None and (config.video or config.render):
        raise ConfigError("text is not filmed or shown: leave video and render out")
    checkpoint = checkpoint_of(run, config.checkpoint)
    from rlox.envs.engines.makers import maker_of

    if config.video and maker_of(trained.env) is not None:
        raise ConfigError(
            f"video=true: {trained.env.id} is stepped by an engine (env.backend={trained.env.backend}) that "
            "draws nothing; leave video out"
        )
    if config.method == "fqe":
        from rlox.algorithms.offline import require_env
        from rlox.sources.dataset_file import read_about

        data = Path(config.buffer.path or "")
        require_env(read_about(data).get("env"), trained.env.id, f"the dataset {data}")
    return trained, checkpoint


def evaluate_run(config: EvaluateConfig) -> dict[str, Any]:
    """Play `config.episodes` episodes; write the file of its own.

    `eval/<checkpoint>.json` is written too where the environment and the rows are the run's own.

    With `config.method` fqe the value is estimated from a dataset.
    """
    if config.method == "fqe":
        return _estimate(config)
    run, (trained, checkpoint) = Path(config.run), playable(config)
    from rlox.algorithms import ALGORITHMS

    name = slug(config.checkpoint)
    folder = _folder(run / "eval")
    video = _folder(run / "videos") / f"{name}.mp4" if config.video else None
    load = ALGORITHMS[trained.algo.name].from_checkpoint
    again: dict[str, Any] = {"env_id": config.env.id, "env_kwargs": config.env.kwargs}
    again |= text_files(config, trained)
    with closing(_loaded(config, load, checkpoint, again)) as algorithm, reporter() as report:
        _limit(algorithm, config)
        if config.render:
            _make_room(algorithm)
        stopped = Evaluating(lambda: False, partial(_sign, algorithm, report))
        asked = _ask(algorithm, config.target_return)
        ways: dict[str, Any] = {"seed": config.seed, "deterministic": config.deterministic}
        if config.best_of is None:
            played = algorithm.evaluate(
                config.episodes, **ways, stopped=stopped, render=config.render
            )
        else:
            played = _best_of(algorithm, config, config.best_of)
        if video:
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames, no window
            _make_room(algorithm)
            algorithm.evaluate(1, **ways, video=video)
    data = _document(config, trained, checkpoint, played, video, asked)
    kept = folder / f"{_own_name(config, checkpoint, trained)}.json"
    newest = () if _elsewhere(config, trained) else (folder / f"{name}.json",)
    for target in (kept, *newest):
        write_json(target, data)
    mode = "" if config.deterministic else ", sampled actions"
    mode = mode if config.best_of is None else f", best of {config.best_of}"
    print(
        f"{trained.algo.name} on {trained.env.id}, checkpoint {checkpoint.resolve().name}{mode}\n"
        f"  score   {summary.score(data['mean'], data['iqm'], data['ci95'], len(played.returns))}\n"
        + summary.cut(played.cut, len(played.returns))
        + f"  file    {kept}"
        + (f"\n  video   {video}" if video else "")
    )
    if played.flaw:
        raise NonFiniteError(f"{run}: {played.flaw}; {kept} has null for these")
    return data


def _limit(algorithm: Algorithm, config: EvaluateConfig) -> None:
    """Have evaluations keep to what is asked for in place of the run's `eval.n_envs` and `eval.max_steps`."""
    evaluator = algorithm.parts.evaluate
    if evaluator is not None:
        play = limited(evaluator, algorithm.name, config.n_envs, config.max_steps)
        algorithm.parts = replace(algorithm.parts, evaluate=play)


def _make_room(algorithm: Algorithm) -> None:
    """Close the environments of training where no other can live beside them: another kind of it draws."""
    evaluator = algorithm.parts.evaluate
    if isinstance(evaluator, Evaluator) and evaluator.settings.reuse_env:
        algorithm.close()


def _sign(algorithm: Algorithm, report: Callable[[Snapshot], None], evaluating: float) -> None:
    """Show that the evaluation goes on."""
    report(replace(Snapshot.of(algorithm.clock, None, 0.0, 0.0), evaluating=evaluating))


def _best_of(algorithm: Algorithm, config: EvaluateConfig, n: int) -> Evaluation:
    """The best of several completions, of a model that writes some."""
    return cast("TextAlgorithm", algorithm).best_of(n, config.episodes, config.seed)


def _ask(algorithm: Algorithm, target_return: float | None) -> float | None:
    """Say what return is to be reached, to a policy that can be asked; what it is asked for then."""
    if not isinstance(algorithm.config.algo, DecisionTransformerConfig):
        return None
    if target_return is not None:
        cast("DecisionTransformer", algorithm).ask(target_return)
    return cast("ConditionedActor", algorithm.parts.actor).wish.asked


def _estimate(config: EvaluateConfig) -> dict[str, Any]:
    """What the policy is worth by fitted Q evaluation."""
    run, data = Path(config.run), Path(config.buffer.path or "")
    (trained, checkpoint), folder = playable(config), _folder(run / "eval")
    from rlox.algorithms import ALGORITHMS
    from rlox.offline.fqe import Fitting, fitted_q
    from rlox.runs.progress import paced, reporter
    from rlox.sources.dataset_file import read_dataset
    from rlox.training.setup import torch_threads

    dataset = read_dataset(data)
    given = config.fqe.gamma
    gamma = getattr(trained.algo, "gamma", 0.99) if given is None else given
    fqe = config.fqe
    how = Fitting(
        gamma, fqe.updates, learning_rate=fqe.learning_rate, net_arch=fqe.net_arch, members=fqe.members,
        seed=config.seed,
    )  # fmt: skip
    load = ALGORITHMS[trained.algo.name].from_checkpoint
    again: dict[str, Any] = {"env_id": config.env.id, "env_kwargs": config.env.kwargs}
    loaded = closing(_loaded(config, load, checkpoint, again))
    with loaded as algorithm, torch_threads(1), reporter() as report:
        pace = paced(report, "updates", fqe.updates)
        found = fitted_q(algorithm.parts.actor, dataset.columns, how, pace)
    document = {
        "schema_version": summary.SCHEMA_VERSION,
        "method": "fqe",
        "algo": trained.algo.name,
        "env": trained.env.id,
        "checkpoint": checkpoint.resolve().name,
        "dataset": dataset.digest,
        "settings": plain(how),
        **plain(found),
    }
    ways = hashlib.sha256(json.dumps(plain(how), sort_keys=True).encode()).hexdigest()[:8]
    kept = folder / f"{checkpoint.resolve().name}_fqe_{dataset.digest[:8]}_{ways}.json"
    written: dict[str, Any] = summary.finite(document)
    write_json(kept, written)
    low, high = found.ci90
    where = f"where episodes of {data} begin"
    if not found.settled:
        print(
            f"rlox evaluate: warning: the value is not settled, it was {found.earlier:.1f} when a fifth of "
            f"the updates was left; give more, fqe.updates={5 * fqe.updates}",
            file=sys.stderr,
        )
    print(
        f"{trained.algo.name} on {trained.env.id}, checkpoint {checkpoint.resolve().name}\n"
        f"  value   {found.value:.1f} discounted by {gamma:g} (90% CI {low:.1f} to {high:.1f}), {where}\n"
        f"  file    {kept}"
    )
    return written


def text_files(config: Any, trained: RunConfig) -> dict[str, str]:
    """Where a run on text finds what it is about; `ConfigError` of any other run."""
    names = {f.name for f in fields(config)} & {"model", "tokenizer", "dataset", "eval_dataset"}
    given = {name: getattr(config, name) for name in sorted(names) if getattr(config, name)}
    if given and not is_text(trained.env.id):
        name = next(iter(given))
        raise ConfigError(
            f"{name}={given[name]}: {trained.algo.name} learned no text; leave it out"
        )
    return given


def _loaded(config: EvaluateConfig, load: Any, checkpoint: Path, again: dict[str, Any]) -> Any:
    try:
        return load(checkpoint, replay=False, trust=config.trust, device=config.device, **again)
    except CheckpointError as error:
        if config.env.id is None:
            raise
        raise ConfigError(
            f"env={config.env.id}: the policy was trained in another environment, with other spaces: {error}"
        ) from error


def _own_name(config: EvaluateConfig, checkpoint: Path, played: RunConfig) -> str:
    """One name for each checkpoint, seed, number of episodes, way to play, environment and file of rows."""
    name = f"{checkpoint.resolve().name}_s{config.seed}_e{config.episodes}"
    name += "" if config.max_steps is None else f"_max-{config.max_steps}"
    name += "" if config.deterministic else "_sampled"
    name += f"-{config.n_envs}" if config.n_envs and not config.deterministic else ""
    name += "" if config.best_of is None else f"_best-of-{config.best_of}"
    name += "" if config.target_return is None else f"_asked-{config.target_return:g}"
    return slug(name + _elsewhere(config, played))


def _elsewhere(config: EvaluateConfig, played: RunConfig) -> str:
    """What tells the environment or the rows from the run's own; empty where they are these."""
    trained = trained_config(Path(config.run))
    own, env = plain(trained.env), plain(played.env)
    name = f"_env-{env['id']}" if env["id"] != own["id"] else ""
    if env["kwargs"] != own["kwargs"]:
        text = json.dumps(config.env.kwargs, sort_keys=True, default=str)
        name += f"_kwargs-{_sha256(text.encode())[:8]}"
    if config.eval_dataset is not None:
        rows = _sha256(Path(config.eval_dataset).read_bytes())
        before = Path(trained.eval_dataset) if trained.eval_dataset else None
        moved = before is not None and not before.is_file()
        if not moved and (before is None or _sha256(before.read_bytes()) != rows):
            name += f"_rows-{rows[:8]}"
    return name


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _trusted(config: EvaluateConfig, run: Path) -> RunConfig:
    """What is played, as the run is configured; `ConfigError` for code that only the folder names."""
    trained = replace(trained_config(run), callbacks=())
    kwargs = {**trained.env.kwargs, **config.env.kwargs}
    env = replace(trained.env, id=config.env.id or trained.env.id, kwargs=kwargs)
    typed = [config.env.id or "", *(f"{k}={v}" for k, v in leaves(plain(config.env)["kwargs"]))]
    command = f"rlox evaluate {summary.typed(run)}"
    return allowed(replace(trained, env=env), config.trust, typed, run / "config.yaml", command)


def trained_config(run: Path) -> RunConfig:
    """The frozen configuration of a run, read as plain data; nothing that it names is imported."""
    path = run / "config.yaml"
    if (run / "manifest.json").is_file():
        raise ConfigError(
            f"run={run}: a checkpoint; name the run folder that it is in, and which one: "
            f"rlox evaluate {summary.typed(run.parent.parent)} checkpoint={run.name}"
        )
    if not path.is_file():
        raise ConfigError(f"run={run}: no run folder there ({path} is missing){nearest_runs(run)}")
    return make_run(read_config(run))


def _folder(path: Path) -> Path:
    """A folder that is there; `StorageError` before anything is played."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    return path


def checkpoint_of(run: Path, name: str) -> Path:
    """The checkpoint of that name; `ConfigError` where there is none to load."""
    from rlox.runs.checkpoint import resolve_checkpoint

    try:
        return resolve_checkpoint(run, name)
    except CheckpointError as error:
        why = str(error)
        if state_of(run) == DONE and not any(run.glob("checkpoints/step-*")):
            why = summary.checkpoints_are_gone(run, read_status(run).get("step"))
        raise ConfigError(f"checkpoint={name}: {why}") from error


def _document(
    config: EvaluateConfig,
    trained: RunConfig,
    checkpoint: Path,
    played: Any,
    video: Path | None,
    asked: float | None,
) -> dict[str, Any]:
    data = {
        "schema_version": summary.SCHEMA_VERSION,
        "algo": trained.algo.name,
        "env": trained.env.id,
        "checkpoint": checkpoint.resolve().name,
        "seed": config.seed,
        "deterministic": config.deterministic and config.best_of is None,
        "target_return": asked,
        **({} if config.best_of is None else {"best_of": config.best_of}),
        "env_kwargs": plain(trained.env)["kwargs"],
        "mean": played.mean,
        "std": played.std,
        "iqm": played.iqm,
        "ci95": None if played.ci95 is None else list(played.ci95),
        "episodes": list(played.returns),
        "lengths": list(played.lengths),
        "cut": played.cut,
        "unscored": played.flaw or None,
        "video": f"videos/{video.name}" if video else None,
    }
    finite: dict[str, Any] = summary.finite(data)
    return finite
