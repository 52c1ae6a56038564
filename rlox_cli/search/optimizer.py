"""Optuna's study of a search, used by ask and tell so that the search can be killed at any point.

A trial has a position, its number among the trials that count. The values at a position depend on the
search's seed, the position and the trials told before it, so a killed search asks for the same values again.
"""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox_cli.search.settings import STUDY_FILE, SearchOptions

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

MIN_VERSION = (4, 7)
DATABASE_TIMEOUT = 60  # seconds that a process waits for another to unlock the database
POSITION_ATTRIBUTE, KILLED_ATTRIBUTE, RETRY_ATTRIBUTE, FOLDER_ATTRIBUTE = (
    "position",
    "killed",
    "again_of",
    "folder",
)


def require_optuna() -> None:
    """Raise `MissingExtraError` if Optuna is missing or too old."""
    try:
        version = importlib.metadata.version("optuna")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(f"a search needs the package optuna: {install_command('optuna')}") from error
    if tuple(map(int, version.split(".")[:2])) < MIN_VERSION:
        minimum = ".".join(map(str, MIN_VERSION))
        raise MissingExtraError(
            f"a search needs optuna >= {minimum}, but {version} is installed: {install_command('optuna')}"
        )


def storage_url(options: SearchOptions, folder: Path) -> str:
    """Return the URL of the study's storage."""
    if options.storage is not None:
        return options.storage
    from sqlalchemy import URL

    path = str((folder / STUDY_FILE).absolute())
    return URL.create("sqlite", database=path).render_as_string(hide_password=False)


def open_study(options: SearchOptions, folder: Path, create: bool = False) -> Study:
    """Open the study of a search; raise `ConfigError` for a storage that cannot be opened."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = storage_url(options, folder)
    try:
        with suppress_warnings():
            engine_options = (
                {"connect_args": {"timeout": DATABASE_TIMEOUT}} if url.startswith("sqlite") else {}
            )
            storage = optuna.storages.RDBStorage(url, engine_kwargs=engine_options)
            name = options.study_name or folder.absolute().name
            if options.storage is None and options.study_name is None:  # the folder may have been renamed
                name = next(iter(optuna.get_all_study_names(storage)), name)
            if not create:
                return optuna.load_study(study_name=name, storage=storage)
            study = optuna.create_study(
                study_name=name, storage=storage, direction="maximize", load_if_exists=True
            )
            if study.metric_names is None:
                study.set_metric_names(["score"])
            return study
    except Exception as error:
        raise ConfigError(_open_error_message(options, url, error)) from error


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress Optuna's warnings about its own future changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Optimizer:
    """Asks a study for trials at positions, and tells it their results."""

    def __init__(self, study: Study, options: SearchOptions, folder: Path) -> None:
        self.study, self.options = study, options
        self.folder = str(folder.absolute())

    def fail_abandoned(self) -> int:
        """Tell the study that abandoned running trials were killed; return their number."""
        from optuna.trial import TrialState

        running = self._trials(TrialState.RUNNING)
        for trial in running:
            if self.options.storage and trial.user_attrs.get(FOLDER_ATTRIBUTE) != self.folder:
                raise ConfigError(
                    f"trial {trial.number} of the study '{self.study.study_name}' runs in "
                    f"{trial.user_attrs.get(FOLDER_ATTRIBUTE)}: one search at a time works on a study; wait "
                    "for it, or name another: search.study_name=NAME"
                )
        for trial in running:
            self._set_attribute(trial, KILLED_ATTRIBUTE, True)
            self.study.tell(trial.number, state=TrialState.FAIL)
        return len(running)

    def next_positions(self, n_jobs: int) -> list[int]:
        """Return the positions to ask next; batches begin at multiples of `n_jobs`, also after a kill."""
        taken_positions = {trial.user_attrs[POSITION_ATTRIBUTE] for trial in counted_trials(self.study)}
        free_positions = [p for p in range(self.options.n_trials) if p not in taken_positions]
        return [p for p in free_positions if p // n_jobs == free_positions[0] // n_jobs]

    def ask(self, position: int, space: Mapping[str, BaseDistribution], constant_liar: bool) -> Trial:
        """Ask for the trial at a position: repeat one that was killed there, else get a new one."""
        from optuna.trial import TrialState

        if not self._trials(TrialState.WAITING):  # else a user enqueued one, or a kill left one
            killed_trials = [t for t in self._killed_trials(position) if t.params.keys() == space.keys()]
            attributes: dict[str, Any] = {POSITION_ATTRIBUTE: position, FOLDER_ATTRIBUTE: self.folder}
            if killed_trials:
                attributes[RETRY_ATTRIBUTE] = killed_trials[-1].number
            values = killed_trials[-1].params if killed_trials else {}
            self.study.enqueue_trial(values, user_attrs=attributes)
        with suppress_warnings():
            self.study.sampler = self._sampler(position, constant_liar)
            trial = self.study.ask(dict(space))
        if trial.user_attrs.get(POSITION_ATTRIBUTE) != position:
            trial.set_user_attr(POSITION_ATTRIBUTE, position)
            trial.set_user_attr(FOLDER_ATTRIBUTE, self.folder)
        return trial

    def tell(
        self,
        trial: Trial,
        state: str,
        value: float | None,
        evaluations: Sequence[tuple[int, float]],
    ) -> None:
        """Tell the study how a trial ended: `COMPLETE` with a value, `PRUNED` or `FAIL`."""
        from optuna.trial import TrialState

        report_evaluations(self.study, trial, evaluations)
        self.study.tell(trial, value, state=TrialState[state])

    def _killed_trials(self, position: int) -> list[FrozenTrial]:
        from optuna.trial import TrialState

        failed = self._trials(TrialState.FAIL)
        return [
            t
            for t in failed
            if t.user_attrs.get(KILLED_ATTRIBUTE) and t.user_attrs.get(POSITION_ATTRIBUTE) == position
        ]

    def _trials(self, *states: Any) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def _set_attribute(self, trial: FrozenTrial, name: str, value: Any) -> None:
        self.study._storage.set_trial_user_attr(trial._trial_id, name, value)

    def _sampler(self, position: int, constant_liar: bool) -> BaseSampler:
        """Make a sampler that depends only on seed and position; with `constant_liar` for parallel trials."""
        import numpy as np
        from optuna import samplers

        seed = int(np.random.SeedSequence([self.options.seed, position]).generate_state(1)[0])
        if self.options.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        return samplers.TPESampler(
            seed=seed,
            multivariate=True,
            constant_liar=constant_liar,
            n_startup_trials=self.options.n_startup_trials,
        )


def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that ended without being killed, by position."""
    trials = [
        t
        for t in study.get_trials(deepcopy=False)
        if t.state.is_finished()
        and not t.user_attrs.get(KILLED_ATTRIBUTE)
        and POSITION_ATTRIBUTE in t.user_attrs
    ]
    return sorted(trials, key=lambda t: int(t.user_attrs[POSITION_ATTRIBUTE]))


def best_trial(trials: Iterable[FrozenTrial]) -> FrozenTrial | None:
    """Return the complete trial with the highest score, the first of equal ones; `None` if there is none."""
    complete_trials = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return max(complete_trials, key=lambda trial: float(trial.value or 0.0), default=None)


def report_evaluations(study: Study, trial: Trial, evaluations: Sequence[tuple[int, float]]) -> None:
    """Report the evaluations that the study does not have yet."""
    reported_steps = set(study.get_trials(deepcopy=False)[trial.number].intermediate_values)
    for step, mean in evaluations:
        if step not in reported_steps:
            reported_steps.add(step)
            trial.report(mean, step)


def _open_error_message(options: SearchOptions, url: str, error: Exception) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url_text = make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        url_text = "the URL"
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return (
        f"the study cannot be opened: search.storage={url_text}, "
        f"search.study_name={options.study_name or 'null'}\n  {reason[:300]}"
    )
