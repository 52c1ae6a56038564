"""One backend for all jobs of an algorithm in a sweep, so that compared runs learn with the same backend.

`algo.backend=auto` depends on sizes, so jobs of one sweep could learn partly in torch and partly in the
native engine. The sweep decides before its first job and saves the decision in `backend.json` in its folder,
where jobs read it on any machine. A job that names its backend keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rlox.configs import RunConfig, to_plain
from rlox.configs.env import is_text
from rlox.configs.offline import NO_ENV
from rlox.errors import ConfigError, StorageError
from rlox_cli.runs.identity import job_folders, saved_run
from rlox_cli.runs.run_folder import write_json

if TYPE_CHECKING:  # help and versions need no environment
    from rlox.envs.actions import ActionCodec
    from rlox.envs.spaces import ObservationCodec
    from rlox.training.backend import Backend

    Spaces = tuple[ObservationCodec, ActionCodec]

FILE = "backend.json"
AUTO = "auto"
ANY_ALGO = "*"  # stands for every algorithm
UNKNOWN_REASON = "the sweeper chooses the settings of its jobs as it goes"
NO_ENV_REASON = "without an environment the sizes of its networks are not known in advance"


class BackendRequest(NamedTuple):
    """A job, and the spaces that it learns in; `None` if it has no environment."""

    overrides: Sequence[str]
    config: RunConfig
    spaces: Spaces | None


def apply_backend(config: RunConfig, names: Mapping[str, str]) -> RunConfig:
    """Return the configuration of a job, with the sweep's backend if the job leaves the choice open."""
    name, algo = backend_for(config.algo.name, config, names), cast(Any, config.algo)
    return config if name is None else replace(config, algo=replace(algo, backend=name))


def backend_for(algo: str, config: RunConfig, names: Mapping[str, str]) -> str | None:
    """Return the backend of an algorithm's jobs with this configuration; `None` if they name one."""
    return names.get(algo, names.get(ANY_ALGO)) if _leaves_choice(config) else None


def read_backends(folder: Path) -> dict[str, str]:
    """Return the backends that a sweep has decided on, by algorithm; empty if it has decided none."""
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(algo): str(entry["name"]) for algo, entry in data.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{folder / FILE} is damaged, expected the backend of each algorithm; put it back, or begin "
            "another sweep: hydra.sweep.dir=FOLDER"
        ) from error


def record_backends(folder: Path, backends: Mapping[str, Backend]) -> None:
    """Save new decisions beside earlier ones."""
    if not backends:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    path = folder / FILE
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    conflicting = [algo for algo in backends if algo in saved and saved[algo]["name"] != backends[algo].name]
    if conflicting:
        raise ConfigError(f"{path} was just written by another process; run the command again")
    write_json(path, {**{algo: asdict(backend) for algo, backend in backends.items()}, **saved})


def decide_backends(
    folder: Path, recorded_backends: Mapping[str, str], jobs: Sequence[BackendRequest]
) -> dict[str, Backend]:
    """Decide the backend of each algorithm whose jobs leave the choice open: native if all would use it.

    No decision is made for algorithms in `recorded_backends`, the decisions of the folder, or for algorithms
    that have jobs from before sweeps recorded decisions.
    """
    from rlox.training.backend import NATIVE, TORCH, Backend, predict_backend

    _require_recorded_backends(folder, recorded_backends, jobs)
    backends: dict[str, Backend] = {}
    for algo, algo_jobs in _undecided_jobs(folder, recorded_backends, jobs).items():
        candidates = [
            predict_backend(job.config, *job.spaces) if job.spaces else Backend(TORCH, NO_ENV_REASON)
            for job in algo_jobs
        ]
        torch_backends = [backend for backend in candidates if backend.name != NATIVE]
        backends[algo] = torch_backends[0] if torch_backends else candidates[0]
        if torch_backends and len(torch_backends) < len(candidates):
            reason = (
                f"native would be faster in {len(candidates) - len(torch_backends)} of its "
                f"{len(candidates)} jobs"
            )
            backends[algo] = Backend(TORCH, f"{torch_backends[0].reason}; {reason}")
    return backends


def decide_backends_between(
    folder: Path,
    recorded_backends: Mapping[str, str],
    configs: Sequence[RunConfig],
    spaces: Spaces | None,
) -> dict[str, Backend]:
    """Decide the backends for a search, whose jobs lie between `configs` and have the same spaces."""
    from rlox.training.backend import TORCH, Backend, predict_backend_between

    jobs = [BackendRequest((), config, spaces) for config in configs]
    undecided = _undecided_jobs(folder, recorded_backends, jobs)
    return {
        algo: predict_backend_between([job.config for job in algo_jobs], *spaces)
        if spaces
        else Backend(TORCH, NO_ENV_REASON)
        for algo, algo_jobs in undecided.items()
    }


def decide_unknown_backends(folder: Path, recorded_backends: Mapping[str, str]) -> dict[str, Backend]:
    """Decide the backend for jobs that are not known in advance."""
    from rlox.training.backend import TORCH, Backend

    has_open_jobs = any(_leaves_choice(config) for config in _job_configs(folder))
    return {} if has_open_jobs or recorded_backends else {ANY_ALGO: Backend(TORCH, UNKNOWN_REASON)}


def backend_messages(backends: Mapping[str, Backend], recorded_backends: Mapping[str, str]) -> list[str]:
    """Return the lines on the backends, which are printed once per sweep."""
    kept_lines = [
        f"backend {name} in {_jobs_text(algo)}, as when the sweep began"
        for algo, name in recorded_backends.items()
    ]
    new_lines = [f"backend {b.name} in {_jobs_text(algo)}: {b.reason}" for algo, b in backends.items()]
    return kept_lines + new_lines


def _jobs_text(algo: str) -> str:
    return "all jobs" if algo == ANY_ALGO else f"all jobs of {algo}"


def _leaves_choice(config: RunConfig) -> bool:
    """Return whether a job leaves the choice of the backend open."""
    return to_plain(config.algo).get("backend") == AUTO


def _undecided_jobs(
    folder: Path, recorded_backends: Mapping[str, str], jobs: Iterable[BackendRequest]
) -> dict[str, list[BackendRequest]]:
    """Return the jobs that leave the choice open, by algorithm, where the folder has no decision."""
    earlier_algos = {config.algo.name for config in _job_configs(folder) if _leaves_choice(config)}
    by_algo: dict[str, list[BackendRequest]] = {}
    for job in jobs:
        algo = job.config.algo.name
        if (
            _leaves_choice(job.config)
            and not {algo, ANY_ALGO} & recorded_backends.keys()
            and algo not in earlier_algos
        ):
            by_algo.setdefault(algo, []).append(job)
    return by_algo


def _require_recorded_backends(
    folder: Path, recorded_backends: Mapping[str, str], jobs: Iterable[BackendRequest]
) -> None:
    """Raise `ConfigError` for a job that cannot learn with the backend that its sweep began with."""
    from rlox.training.backend import NATIVE, native_obstacle

    for overrides, config, spaces in jobs:
        if recorded_backends.get(config.algo.name) != NATIVE or not _leaves_choice(config) or spaces is None:
            continue
        if reason := native_obstacle(config, *spaces):
            raise ConfigError(
                f"{folder} began with backend native for {config.algo.name} ({FILE}), but {reason}; give "
                "this job a sweep of its own (hydra.sweep.dir=FOLDER), or algo.backend=torch\n"
                f"  in the job: {' '.join(overrides)}"
            )


def _job_configs(folder: Path) -> list[RunConfig]:
    """Return the configurations of the jobs that have begun."""
    return [config for path in job_folders(folder) if (config := saved_run(path)) is not None]


class SpacesCache:
    """The spaces of environments; each environment is created once for all jobs that have it."""

    def __init__(self) -> None:
        self._spaces: dict[str, Spaces] = {}

    def __call__(self, config: RunConfig) -> Spaces | None:
        """Return the spaces of a job; raise `ConfigError` if its algorithm cannot learn in them."""
        from rlox_cli.config import validate

        if config.env.id == NO_ENV or is_text(config.env.id):
            return None
        key = json.dumps(to_plain(replace(config.env, n_envs=1)), sort_keys=True, default=str)
        if key not in self._spaces:
            self._spaces[key] = validate.spaces_of(config)
        validate.require_spaces(config, *self._spaces[key])
        return self._spaces[key]
