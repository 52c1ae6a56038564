"""What sets a job apart from the others of its sweep, for people; which trial of a search it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

# Hydra's own name for a job: the one word that reaches whichever process does it and is no setting of a run.
NAME_KEY = "hydra.job.name"
TRIAL = "trial-"
ALGO_PREFIX = "algo."  # what nearly all keys of a space are of
SIGNIFICANT_DIGITS = 4  # of a number that a sampler drew


def trial_override(number: int) -> str:
    """The override that says which trial a job is of; the first is 1."""
    return f"{NAME_KEY}={TRIAL}{number}"


def parse_trial_name(name: str) -> int | None:
    """The trial that a job's name in Hydra says; `None` for one that is of none."""
    number = name.removeprefix(TRIAL)
    return int(number) if name.startswith(TRIAL) and number.isdigit() else None


def trial_of(overrides: Sequence[str]) -> int | None:
    """The trial that overrides are of; `None` for those of a plain sweep."""
    names = [o.partition("=")[2] for o in overrides if o.startswith(f"{NAME_KEY}=")]
    return parse_trial_name(names[-1]) if names else None


def job_title(overrides: Sequence[str], common_overrides: Collection[str], trial: int | None = None) -> str:
    """`env=CartPole-v1 seed=1`; of a trial `trial 3: learning_rate=0.0001708 seed=0`."""
    own_overrides = [o for o in overrides if o not in common_overrides and not o.startswith("hydra.")]
    number = trial or trial_of(overrides)
    text = " ".join(own_overrides if number is None else _shorten_overrides(own_overrides))
    text = text.replace("\\:", ":")  # Hydra escapes what env=module:Id has
    return text if number is None else f"trial {number}: {text}"


def _shorten_overrides(overrides: Sequence[str]) -> Iterator[str]:
    """The values with as many digits as people read; the run's folder has all of them."""
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        is_float = "." in value or "e-" in value
        yield f"{key.removeprefix(ALGO_PREFIX)}={_round_text(value) if is_float else value}"


def _round_text(value: str) -> str:
    try:
        return f"{float(value):.{SIGNIFICANT_DIGITS}g}"
    except ValueError:
        return value
