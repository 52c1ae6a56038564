"""One engine for all jobs of an algorithm in a sweep, so that what is compared was learned by the same one.

`algo.backend=auto` depends on sizes, so that jobs of one sweep could learn partly in torch and partly in the
native engine. The sweep decides before its first job and keeps it in `backend.json` of its folder, where jobs
read it, on whatever machine they run. What a job says itself stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rlox.configs import RunConfig, plain
from rlox.configs.offline import NO_ENV
from rlox.configs.text import is_text
from rlox.errors import ConfigError, StorageError
from rlox_cli.identity import job_folders, saved_run
from rlox_cli.run_folder import write_json

if TYPE_CHECKING:  # what shows help and versions makes no environment
    from rlox.envs.actions import ActionCodec
    from rlox.envs.spaces import ObservationCodec
    from rlox.training.backend import Backend

    Spaces = tuple[ObservationCodec, ActionCodec]

FILE = "backend.json"
AUTO = "auto"
ANY = "*"  # every algorithm, in the place of its name
UNKNOWN = "the sweeper chooses the settings of its jobs as it goes"
NOWHERE = "without an environment the sizes of its networks are not known before"


class Asked(NamedTuple):
    """A job, and the spaces that it learns in; `None` where it has no environment."""

    overrides: Sequence[str]
    config: RunConfig
    spaces: Spaces | None


def applied(config: RunConfig, names: Mapping[str, str]) -> RunConfig:
    """The configuration of a job, with the engine of its sweep where it leaves the choice to it."""
    name, algo = chosen_for(config.algo.name, config, names), cast(Any, config.algo)
    return config if name is None else replace(config, algo=replace(algo, backend=name))


def chosen_for(algo: str, config: RunConfig, names: Mapping[str, str]) -> str | None:
    """The engine of an algorithm's jobs, which are configured so; `None` where they say it themselves."""
    return names.get(algo, names.get(ANY)) if _open(config) else None


def recorded(folder: Path) -> dict[str, str]:
    """The engines that a sweep has decided for, by algorithm; none of one that began without."""
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(algo): str(entry["name"]) for algo, entry in data.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{folder / FILE} is damaged, expected the engine of each algorithm; put it back, or begin "
            "another sweep: hydra.sweep.dir=FOLDER"
        ) from error


def record(folder: Path, chosen: Mapping[str, Backend]) -> None:
    """Keep what was decided beside what was before."""
    if not chosen:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    path = folder / FILE
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    other = [
        algo for algo in chosen if algo in before and before[algo]["name"] != chosen[algo].name
    ]
    if other:
        raise ConfigError(f"{path} was written by another process just now; give the command again")
    write_json(path, {**{algo: asdict(backend) for algo, backend in chosen.items()}, **before})


def decide(folder: Path, before: Mapping[str, str], jobs: Sequence[Asked]) -> dict[str, Backend]:
    """The engine of each algorithm whose jobs leave the choice; torch unless native is for all of them.

    Of algorithms that the folder has decided for (`before`), and of those with jobs from before sweeps
    decided, none.
    """
    from rlox.training.backend import NATIVE, TORCH, Backend, foreseen

    _require_as_before(folder, before, jobs)
    chosen: dict[str, Backend] = {}
    for algo, own in _undecided(folder, before, jobs).items():
        found = [
            foreseen(job.config, *job.spaces) if job.spaces else Backend(TORCH, NOWHERE)
            for job in own
        ]
        torch = [backend for backend in found if backend.name != NATIVE]
        chosen[algo] = torch[0] if torch else found[0]
        if torch and len(torch) < len(found):
            part = f"native would be faster in {len(found) - len(torch)} of its {len(found)} jobs"
            chosen[algo] = Backend(TORCH, f"{torch[0].reason}; {part}")
    return chosen


def decide_between(
    folder: Path,
    before: Mapping[str, str],
    configs: Sequence[RunConfig],
    spaces: Spaces | None,
) -> dict[str, Backend]:
    """The same of a search, whose jobs are somewhere between configurations in the same spaces."""
    from rlox.training.backend import TORCH, Backend, foreseen_between

    jobs = [Asked((), config, spaces) for config in configs]
    undecided = _undecided(folder, before, jobs)
    return {
        algo: foreseen_between([job.config for job in own], *spaces)
        if spaces
        else Backend(TORCH, NOWHERE)
        for algo, own in undecided.items()
    }


def decide_unknown(folder: Path, before: Mapping[str, str]) -> dict[str, Backend]:
    """The same of jobs that nobody knows."""
    from rlox.training.backend import TORCH, Backend

    old = any(_open(config) for config in _configs(folder))
    return {} if old or before else {ANY: Backend(TORCH, UNKNOWN)}


def lines(chosen: Mapping[str, Backend], before: Mapping[str, str]) -> list[str]:
    """What people are told, once for the sweep."""
    kept = [
        f"backend {name} in {_jobs(algo)}, as when the sweep began" for algo, name in before.items()
    ]
    new = [f"backend {b.name} in {_jobs(algo)}: {b.reason}" for algo, b in chosen.items()]
    return kept + new


def _jobs(algo: str) -> str:
    return "all jobs" if algo == ANY else f"all jobs of {algo}"


def _open(config: RunConfig) -> bool:
    """Whether a job leaves the choice of the engine."""
    return plain(config.algo).get("backend") == AUTO


def _undecided(
    folder: Path, before: Mapping[str, str], jobs: Iterable[Asked]
) -> dict[str, list[Asked]]:
    """The jobs that leave the choice, by algorithm, of those for which the folder has none."""
    old = {config.algo.name for config in _configs(folder) if _open(config)}
    found: dict[str, list[Asked]] = {}
    for job in jobs:
        algo = job.config.algo.name
        if _open(job.config) and not {algo, ANY} & before.keys() and algo not in old:
            found.setdefault(algo, []).append(job)
    return found


def _require_as_before(folder: Path, before: Mapping[str, str], jobs: Iterable[Asked]) -> None:
    """`ConfigError` for a job that cannot learn with the engine that its sweep began with."""
    from rlox.training.backend import NATIVE, impossible

    for overrides, config, spaces in jobs:
        if before.get(config.algo.name) != NATIVE or not _open(config) or spaces is None:
            continue
        if why := impossible(config, *spaces):
            raise ConfigError(
                f"{folder} began with backend native for {config.algo.name} ({FILE}), and {why}; give this "
                "job a sweep of its own (hydra.sweep.dir=FOLDER), or algo.backend=torch\n"
                f"  in the job: {' '.join(overrides)}"
            )


def _configs(folder: Path) -> list[RunConfig]:
    """The configurations of the jobs that have been begun."""
    return [config for path in job_folders(folder) if (config := saved_run(path)) is not None]


class Looks:
    """The spaces of environments, of which each is made once for all jobs that have it."""

    def __init__(self) -> None:
        self._found: dict[str, Spaces] = {}

    def __call__(self, config: RunConfig) -> Spaces | None:
        """Those of a job; `ConfigError` where its algorithm cannot learn in them."""
        from rlox_cli import validate

        if config.env.id == NO_ENV or is_text(config.env.id):
            return None
        key = json.dumps(plain(replace(config.env, n_envs=1)), sort_keys=True, default=str)
        if key not in self._found:
            self._found[key] = validate.spaces_of(config)
        validate.require_spaces(config, *self._found[key])
        return self._found[key]
