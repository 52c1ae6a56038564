"""A hundred mutants of right configurations, made from the schema itself: each is explained."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rlox.configs.params import parse_interval
from rlox_cli.schema import Key, command_keys

from .conftest import Cli
from .test_wrong_input import assert_explained

KEYS = [k for k in command_keys("train") if not k.name.startswith("env.kwargs")]
CONFLICTS = [
    (["env.backend=native", "env=LunarLander-v3"], "env.backend=auto"),
    (["env.backend=native", "env.workers=subprocess"], "env.backend=auto"),
    (["algo.use_sde=true"], "Box actions"),
    (["algo.n_steps=1", "env.n_envs=1"], "algo.n_steps"),
    (["algo.sde_sample_freq=0"], "sde_sample_freq"),
    (["algo.net_arch=[]"], "net_arch"),
    (["env.n_envs=1048576", "algo.n_steps=16777216"], "lower algo.n_steps or env.n_envs"),
]


def typo(name: str) -> str:
    """The name without the middle letter of its last part."""
    head, dot, last = name.rpartition(".")
    middle = len(last) // 2
    return f"{head}{dot}{last[:middle]}{last[middle + 1 :]}"


def outside(within: str) -> float:
    """A number below an interval, or above it where it has no lower end."""
    open_low, low, high, _ = parse_interval(within)
    if low == float("-inf"):
        return high + 1
    return low if open_low else low - 1


def of_wrong_type(key: Key) -> str | None:
    """A value that no field of this kind takes; text takes nearly everything."""
    return (
        None if key.hint in (str, str | None) else "{a: 1}" if "tuple" in str(key.hint) else "wat"
    )


def mutants() -> list[Any]:
    """(overrides, what the message must name), at least a hundred, about as many of each kind."""
    typos = [([f"{typo(k.name)}=1"], k.name) for k in KEYS if len(k.name.split(".")[-1]) > 4]
    types = [([f"{k.name}={of_wrong_type(k)}"], k.name) for k in KEYS if of_wrong_type(k)]
    ranges = [
        ([f"{k.name}={outside(k.field.metadata['within'])}"], k.name)
        for k in KEYS
        if k.field.metadata["within"] and "tuple" not in str(k.hint)
    ]
    choices = [
        ([f"{k.name}={k.field.metadata['choices'][0]}x"], str(k.field.metadata["choices"][0]))
        for k in KEYS
        if k.field.metadata["choices"] and "tuple" not in str(k.hint)
    ]
    missing = [([f"{k.name}=null"], k.name) for k in KEYS if k.hint in (int, float, bool)]
    mixed = itertools.chain.from_iterable(
        itertools.zip_longest(typos, types, ranges, choices, missing, CONFLICTS)
    )
    return [m for m in mixed if m is not None]


def test_there_are_at_least_a_hundred_mutants() -> None:
    assert len(mutants()) >= 100


@pytest.mark.parametrize(("overrides", "named"), mutants(), ids=lambda v: str(v)[:60])
def test_every_mutant_is_explained(
    cli: Cli, tmp_path: Path, overrides: list[str], named: str
) -> None:
    assert_explained(cli("train", *overrides), named, tmp_path)
