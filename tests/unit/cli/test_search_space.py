"""Tests of Hydra's sweep syntax as a search space, and of the options that set how to search."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.cli import Cli
from hydra.core.override_parser.overrides_parser import OverridesParser
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rlox.errors import ConfigError
from rlox_cli.config.options import CONF, group_options
from rlox_cli.runs.jobs import Job
from rlox_cli.search.options import expand_arguments
from rlox_cli.search.space import SearchSpace, read_space
from rlox_cli.sweeps.job_titles import job_title, trial_of, trial_override


def space_of(*overrides: str) -> SearchSpace:
    return read_space(OverridesParser.create().parse_overrides(list(overrides)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval(0.3,2)", FloatDistribution(0.3, 2.0)),
        ("tag(log,interval(1e-5,1e-2))", FloatDistribution(1e-5, 1e-2, log=True)),
        ("int(interval(8,64))", IntDistribution(8, 64)),
        ("tag(log,int(interval(8,64)))", IntDistribution(8, 64, log=True)),
        ("range(1,20)", IntDistribution(1, 19)),  # as in Hydra, the range does not include its stop
        ("range(20)", IntDistribution(0, 19)),
        ("range(8,65,8)", IntDistribution(8, 64, step=8)),
        ("range(9,0,-3)", IntDistribution(3, 9, step=3)),
        ("range(0.5,1.0,0.25)", FloatDistribution(0.5, 0.75, step=0.25)),
        ("tag(log,range(1,9))", IntDistribution(1, 8, log=True)),
        ("choice(0.9,0.99)", CategoricalDistribution(("0.9", "0.99"))),
        ("a,b,c", CategoricalDistribution(("a", "b", "c"))),
        ("[64],[64,64]", CategoricalDistribution(("[64]", "[64,64]"))),
        ("true,null,1", CategoricalDistribution(("true", "null", "1"))),
    ],
)
def test_an_override_of_several_values_is_a_dimension(text: str, expected: BaseDistribution) -> None:
    (dimension,) = space_of(f"key={text}").dimensions
    assert dimension.to_distribution() == expected


def test_to_plain_gives_a_chosen_value_its_type() -> None:
    (dimension,) = space_of("key=64,0.9,1e-3,[64,64],true,null,tanh").dimensions
    found = [dimension.to_plain(choice) for choice in dimension.choices]
    assert found == [64, 0.9, 0.001, [64, 64], True, None, "tanh"]
    assert [type(value) for value in found[:3]] == [int, float, float]
    assert dimension.to_plain(0.5) == 0.5


def test_job_overrides_combine_fixed_and_chosen_values_with_a_seed() -> None:
    space = space_of("env=A", "+x.y=interval(0,1)", "net=choice([64],[64,64])", "seed=4,5", "z=1")
    assert space.seeds == (4, 5)
    values = {"x.y": 0.1234567890123456789, "net": "[64,64]"}
    assert space.job_overrides(values, 5) == [
        "env=A", "z=1", "+x.y=0.12345678901234568", "net=[64,64]", "seed=5",
    ]  # fmt: skip


def test_a_later_override_of_a_search_dimension_fixes_its_value() -> None:
    space = space_of("a=interval(0,1)", "b=interval(0,1)", "a=0.5")
    assert [d.name for d in space.dimensions] == ["b"]
    assert space.fixed_overrides == ("a=0.5",)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("k=range(5,5)", "the range is empty"),
        ("k=interval(0.9,0.8)", "0.9 is above 0.8"),
        ("k=tag(log,interval(0,1))", "needs values above 0"),
        ("k=tag(lag,interval(1,2))", "unknown tag 'lag'"),
        ("k=tag(log,range(1,9,2))", "integer range, step 1"),
        ("k=tag(log,choice(1,2))", "expected interval"),
        ("k=1,1", "none twice"),
        ("seed=interval(0,9)", "seeds are not searched"),
        ("seed=1,1", "twice"),
        ("env=A,B", "cannot be compared"),
        ("run.name=a,b", "no hyperparameter"),
        ("k=1", "varies nothing"),
    ],
)
def test_the_search_space_refuses_overrides_that_make_no_dimension(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        space_of(override)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["env=A"], ["env=A"]),
        (["search=null"], ["hydra/sweeper=rlox_optuna"]),
        (["search=ppo"], ["search=ppo", "algo=ppo", "hydra/sweeper=rlox_optuna"]),
        (
            ["search=ppo", "algo=my", "search.n_trials=3"],
            ["search=ppo", "algo=my", "hydra.sweeper.n_trials=3", "hydra/sweeper=rlox_optuna"],
        ),
        (
            ["search=auto", "algo=sac"],
            ["search=sac", "algo=sac", "hydra/sweeper=rlox_optuna"],
        ),
        (["search="], ["search=ppo", "hydra/sweeper=rlox_optuna"]),
        (
            ["hydra/sweeper=rlox_optuna", "search.seed=3"],
            ["hydra/sweeper=rlox_optuna", "hydra.sweeper.seed=3"],
        ),
    ],
)
def test_expand_arguments_translates_search_options_for_hydra(words: list[str], expected: list[str]) -> None:
    assert expand_arguments(words, [CONF]) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search.n_trial=3"], "search.n_trials"),
        (["search=ppo", "hydra/sweeper=basic"], "hydra/sweeper=basic"),
        (["search=auto", "algo=ppo,a2c"], "name the space"),
    ],
)
def test_the_search_refuses_misspelled_and_conflicting_options(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        expand_arguments(words, [CONF])


def test_job_title_shows_the_trial_number_and_varied_values_in_few_digits() -> None:
    fixed = ["search=ppo", "env=CartPole-v1"]
    varied = ["algo.learning_rate=0.00017077730935814345", "algo.net_arch=[64,64]", "buffer.x=1000"]
    told = job_title([*fixed, *varied, "seed=4", trial_override(3)], frozenset(fixed))
    assert told == "trial 3: learning_rate=0.0001708 net_arch=[64,64] buffer.x=1000 seed=4"
    plain = job_title([*fixed, "algo.gamma=0.123456", "seed=4"], frozenset(fixed))
    assert plain == "algo.gamma=0.123456 seed=4"  # as it was typed


def test_the_folder_of_a_run_has_the_number_of_its_trial() -> None:
    overrides = ["algo.learning_rate=0.00017077730935814345", "seed=4"]
    job = Job(overrides, Path("search"), 7, None, trial=trial_of([*overrides, trial_override(3)]))
    assert job.name == "3_seed-4"
    assert Job(["seed=4"], Path("sweep"), 7, None).name == "7_seed-4"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search=pppo"], "did you mean 'ppo'?"),
        (["search=ppo", "algo.n_epoch=interval(1,9)"], "did you mean 'algo.n_epochs'"),
        (
            ["search=ppo", "algo=sac"],
            "search=ppo is the space of ppo, and algo=sac has no algo.n_steps: search=sac is the space of "
            "sac\n",
        ),
        (["search=ppo", "algo=bc"], "algo=bc has no algo.n_steps: there is no space of bc\n"),
        (["search=ppo", "algo.gamma=interval(0.5,1.5)"], "algo.gamma=1.5: expected a value in"),
        (["search=ppo", "algo.n_epochs=interval(1.5,3)"], "takes whole numbers"),
        (["search=ppo", "algo.activation=relu,tanhh"], "did you mean 'tanh'?"),
        (["search=ppo", "algo.gamma=2", "algo.batch_size=8,16"], "algo.gamma=2"),
        (["search=ppo", "search.sampler=tpi"], "did you mean 'tpe'?"),
        (["search=ppo", "search.n_trials=0"], "search.n_trials=0: expected"),
        (["search=ppo", "hydra.sweeper.n_trial=0"], "search.n_trials"),
        (["hydra/sweeper=rlox_optuna"], "varies nothing"),
        (
            ["search=ppo", "search.storage=postgres://me:hidden@x/y"],
            "search.storage has a password",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused_before_anything_starts(
    cli: Cli, tmp_path: Path, words: list[str], said: str
) -> None:
    result = cli("sweep", *words, "hydra.sweep.dir=place")
    assert result.code == 2
    assert said in result.err and "hidden" not in result.err
    assert len(result.err.splitlines()) <= 8
    assert list(tmp_path.iterdir()) == []


def test_an_interval_of_an_integer_key_gives_whole_numbers(cli: Cli) -> None:
    result = cli("sweep", "algo.n_epochs=interval(1,3)", "search.n_trials=3", "dry_run=true")
    assert result.code == 0, result.err
    assert "algo.n_epochs=1 " in result.out


@pytest.mark.parametrize("name", group_options("search", [CONF]))
def test_each_space_that_is_shipped_fits_its_algorithm(cli: Cli, tmp_path: Path, name: str) -> None:
    task = "Pendulum-v1" if name in ("sac", "tqc", "td3", "ddpg") else "CartPole-v1"
    result = cli("sweep", f"search={name}", f"env={task}", "dry_run=true")
    assert result.code == 0, result.err
    assert f"dry run: {name} on {task}" in result.out
    assert list(tmp_path.iterdir()) == []


def test_a_single_run_searches_nothing(cli: Cli) -> None:
    result = cli("train", "search=ppo")
    assert result.code == 2
    assert "rlox sweep search=ppo" in result.err
    assert cli("train", "search=null", "dry_run=true").code == 0
