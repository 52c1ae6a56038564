"""Titles that tell the jobs of a sweep apart, and the search trial that a job belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

# Hydra's job name: the only text that reaches the job's process and is not a setting of the run.
NAME_KEY = "hydra.job.name"
TRIAL = "trial-"
ALGO_PREFIX = "algo."  # the prefix of nearly all keys of a search space
SIGNIFICANT_DIGITS = 4  # of a sampled number


def trial_override(number: int) -> str:
    """Return the override that names a job's trial; the first is 1."""
    return f"{NAME_KEY}={TRIAL}{number}"


def parse_trial_name(name: str) -> int | None:
    """Return the trial in a job's Hydra name; `None` if it names none."""
    number = name.removeprefix(TRIAL)
    return int(number) if name.startswith(TRIAL) and number.isdigit() else None


def trial_of(overrides: Sequence[str]) -> int | None:
    """Return the trial that overrides name; `None` for a plain sweep."""
    names = [o.partition("=")[2] for o in overrides if o.startswith(f"{NAME_KEY}=")]
    return parse_trial_name(names[-1]) if names else None


def job_title(overrides: Sequence[str], common_overrides: Collection[str], trial: int | None = None) -> str:
    """Return `env=CartPole-v1 seed=1`; for a trial `trial 3: learning_rate=0.0001708 seed=0`."""
    own_overrides = [o for o in overrides if o not in common_overrides and not o.startswith("hydra.")]
    number = trial or trial_of(overrides)
    text = " ".join(own_overrides if number is None else _shorten_overrides(own_overrides))
    text = text.replace("\\:", ":")  # Hydra escapes the colon in env=module:Id
    return text if number is None else f"trial {number}: {text}"


def _shorten_overrides(overrides: Sequence[str]) -> Iterator[str]:
    """Yield the overrides with rounded numbers; the run folder has all digits."""
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        is_float = "." in value or "e-" in value
        yield f"{key.removeprefix(ALGO_PREFIX)}={_round_text(value) if is_float else value}"


def _round_text(value: str) -> str:
    try:
        return f"{float(value):.{SIGNIFICANT_DIGITS}g}"
    except ValueError:
        return value
