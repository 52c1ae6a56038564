"""Tests of the constructors of algorithm classes, which follow from the fields of their configurations."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import pytest

from rlox.algorithms import A2C, ALGORITHMS, BC, DPO, PPO, SAC, SFT, TD3BC, Rainbow
from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, EnvConfig, PPOConfig, RunConfig, param
from rlox.configs.arguments import arguments_of
from rlox.errors import ConfigError, UnknownNameError
from rlox.runs.constructor import ObjectArgument

ENV = "env_id n_envs seed logger callbacks"
POLICY = "env_id n_envs seed policy logger callbacks"
GROUPS = "model ref_model reward_fn group_size kl_coef learning_rate max_new_tokens callbacks logger"
# The arguments that users may give by position, `ENV` for algorithms that are not named here. To change their
# order would silently change programs.
POSITIONAL = {
    "ppo": POLICY,
    "a2c": POLICY,
    "hybrid_ppo": "env_id n_envs seed hidden logger callbacks",
    "bc": "dataset obs_dim act_dim continuous hidden learning_rate batch_size callbacks logger",
    "td3_bc": "dataset obs_dim act_dim alpha hidden learning_rate tau gamma policy_delay target_noise "
    "noise_clip act_high batch_size callbacks logger",
    "iql": "dataset obs_dim act_dim expectile temperature hidden learning_rate tau gamma batch_size "
    "callbacks logger",
    "cql": "dataset obs_dim act_dim cql_alpha n_random_actions auto_alpha cql_target_value hidden "
    "learning_rate tau gamma batch_size auto_entropy target_entropy callbacks logger",
    "decision_transformer": "dataset obs_dim act_dim context_length hidden n_layers n_heads learning_rate "
    "batch_size target_return callbacks logger",
    "sft": "model learning_rate batch_size reward_fn max_new_tokens callbacks logger",
    "grpo": GROUPS,
    "rloo": GROUPS,
    "dpo": "model ref_model beta learning_rate callbacks logger",
    "online_dpo": "model ref_model preference_fn beta learning_rate max_new_tokens callbacks logger",
}


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_arguments_keep_their_positions(name: str) -> None:
    parameters = inspect.signature(ALGORITHMS[name]).parameters.values()
    positional = [o.name for o in parameters if o.kind is o.POSITIONAL_OR_KEYWORD]
    assert positional == POSITIONAL.get(name, ENV).split()


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_signature_has_each_used_field_with_its_default(name: str) -> None:
    config_class: Any = ALGO_CONFIGS[name]
    defaults = {o.name: o.default for o in inspect.signature(ALGORITHMS[name]).parameters.values()}
    config = config_class()
    used = {f.name for f in fields(config)} - {"name"} - set(config.drops)
    assert {field: defaults[field] for field in used} == {field: getattr(config, field) for field in used}
    assert not set(config.drops) & defaults.keys()
    if ALGO_CONFIGS[name].unit == "env_steps":
        env = EnvConfig()
        for field in {f.name for f in fields(env)} - {"id", "n_envs", "backend", "kwargs"}:
            assert defaults[field] == getattr(env, field)
        assert (defaults["env_backend"], defaults["env_kwargs"]) == (env.backend, env.kwargs)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_an_argument_sets_one_field(name: str) -> None:
    names = arguments_of(ALGO_CONFIGS[name])  # raises if fields of two parts have one argument
    assert not names.keys() & ALGORITHMS[name].object_arguments.keys()
    keys = [argument.key for argument in names.values() if not argument.is_hidden]
    buffers = {
        f"buffer.{f.name}" for kind in ALGO_CONFIGS[name].buffers for f in fields(BUFFER_CONFIGS[kind])
    }
    assert {key for key in keys if key.startswith("buffer.")} == buffers
    assert len(keys) == len(set(keys))


def test_help_explains_each_argument_in_the_words_of_the_configuration() -> None:
    text = pydoc.plain(pydoc.render_doc(SAC))
    assert "Soft actor-critic" in text
    for line in (
        "env_id : EnvLike = 'CartPole-v1'",
        "    Gymnasium id, a `gymnasium.Env`, or a callable that makes one",
        "    parallel copies; in [1, 1048576]; None: 1, or as many as a vectorised environment has",
        "buffer_size : int | None = None",
        "env_backend : str = 'auto'",
        "tau : float = 0.005",
    ):
        assert f" |  {line}\n" in text, line
    assert PPO.__doc__ is not None
    assert "in place of net_arch" in PPO.__doc__


def test_a_class_with_its_own_constructor_has_its_own_signature_and_documentation() -> None:
    class Narrow(PPO):
        """PPO with narrow layers."""

        def __init__(self, env_id: str, width: int = 8) -> None:
            super().__init__(env_id, n_envs=1, net_arch=(width,))

    assert str(inspect.signature(Narrow)) == "(env_id: 'str', width: 'int' = 8) -> 'None'"
    assert Narrow.__doc__ == "PPO with narrow layers."
    assert Narrow("Acrobot-v1", 4).config.algo.net_arch == (4,)  # type: ignore[attr-defined]


def test_too_many_or_repeated_positional_arguments_are_refused() -> None:
    with pytest.raises(TypeError) as refused:
        TD3BC(*range(16))
    assert str(refused.value) == (
        "TD3BC takes at most 15 positional arguments, got 16: dataset, obs_dim, act_dim, alpha, hidden, "
        "learning_rate, tau, gamma, policy_delay, target_noise, noise_clip, act_high, batch_size, callbacks, "
        "logger; give others by name"
    )
    with pytest.raises(TypeError, match=r"^PPO got multiple values for argument 'seed'$"):
        PPO("CartPole-v1", 2, 3, seed=4)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "argument"), [("capacity", "buffer_size"), ("kwargs", "env_kwargs"), ("path", "buffer_path")]
)
def test_the_name_of_a_field_is_answered_with_the_name_of_its_argument(field: str, argument: str) -> None:
    facade: Any = TD3BC if field == "path" else SAC
    with pytest.raises(
        UnknownNameError, match=rf"^unknown argument '{field}' for \w+; here that is {argument}$"
    ):
        facade(**{field: 1})


def test_a_configuration_in_the_environments_place_is_refused() -> None:
    config: Any = RunConfig()
    with pytest.raises(ConfigError, match=r"^a RunConfig is in the environment's place: from_config"):
        PPO(config)


@dataclass(frozen=True)
class WorkersConfig(PPOConfig):
    """A plugin's configuration with a field that the environment has too."""

    name: str = param("workers_ppo", "the algorithm", choices=("workers_ppo",))
    workers: int = param(2, "threads of the algorithm")


@dataclass(frozen=True)
class LoggerFieldConfig(PPOConfig):
    """A plugin's configuration with a field named like an object that the class takes."""

    name: str = param("logger_ppo", "the algorithm", choices=("logger_ppo",))
    logger: str = param("", "a logger of the algorithm")


@dataclass(frozen=True)
class TwiceConfig(PPOConfig):
    """A plugin's configuration with one argument for two fields."""

    name: str = param("twice_ppo", "the algorithm", choices=("twice_ppo",))
    width: int = param(2, "the width")
    depth: int = param(2, "the depth", argument="width")


@dataclass(frozen=True)
class RenamedConfig(PPOConfig):
    """A plugin's configuration that gives its field another argument."""

    drops: ClassVar[Mapping[str, str]] = {"target_kl": "has no limit"}
    name: str = param("renamed_ppo", "the algorithm", choices=("renamed_ppo",))
    workers: int = param(2, "threads of the algorithm", argument="algo_workers")


def plugin_class(config: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a subclass of PPO with this configuration, as if a plugin had registered it."""
    name = config.__dataclass_fields__["name"].default
    monkeypatch.setitem(ALGO_CONFIGS, name, config)
    return type("Mine", (PPO,), {"name": name, "__doc__": "Mine."})


def test_a_plugin_whose_argument_would_set_two_fields_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = plugin_class(WorkersConfig, monkeypatch)
    with pytest.raises(ConfigError) as refused:
        mine("CartPole-v1")
    assert str(refused.value) == (
        "algo=workers_ppo: its class cannot have an argument workers, which would set algo.workers and "
        "env.workers; declare algo.workers with another name, or with param(argument=...)"
    )
    mine = plugin_class(LoggerFieldConfig, monkeypatch)
    with pytest.raises(ConfigError, match=r"^algo=logger_ppo: Mine takes logger, so algo\.logger cannot"):
        mine("CartPole-v1")
    assert mine.__doc__ == "Mine."  # help does not fail
    assert str(inspect.signature(mine)) == "(*args: 'Any', **options: 'Any') -> 'None'"
    mine = plugin_class(TwiceConfig, monkeypatch)
    with pytest.raises(
        ConfigError, match=r"argument width, which would set algo\.width and algo\.depth; declare"
    ):
        mine("CartPole-v1")


def test_a_class_with_an_unknown_positional_argument_is_refused_by_name() -> None:
    class Wrong(PPO):
        positional = ("env_id", "wide")

    with pytest.raises(ConfigError, match=r"^Wrong\.positional has wide, which is no argument of algo=ppo$"):
        Wrong("CartPole-v1")


def test_a_class_may_take_an_object_of_its_own() -> None:
    class Curious(PPO):
        object_arguments = PPO.object_arguments | {"bonus": ObjectArgument("float", "its weight", 2.0)}

        def _init_from_arguments(self, objects: dict[str, Any], fields: dict[str, Any]) -> None:
            self.bonus = objects.pop("bonus")
            super()._init_from_arguments(objects, fields)

    assert (Curious("CartPole-v1").bonus, Curious("CartPole-v1", bonus=3.0).bonus) == (2.0, 3.0)
    assert inspect.signature(Curious).parameters["bonus"].default == 2.0


def test_a_subclass_without_documentation_lists_its_own_arguments() -> None:
    class Quiet(SAC):
        pass

    assert Quiet.__doc__ is not None
    assert "tau : float = 0.005" in Quiet.__doc__
    Quiet.__doc__ = "Other words."
    assert Quiet.__doc__.startswith("Other words.\n\nParameters\n")


@pytest.mark.parametrize("facade", [SFT, DPO])
@pytest.mark.parametrize("server", [None, "vllm"])
def test_algorithms_without_generation_take_no_server(facade: Any, server: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown argument 'server' for \w+"):
        facade("tiny", task="copy", server=server)


def test_no_environment_is_not_the_default_environment() -> None:
    nothing: Any = None
    for call in (lambda: PPO(nothing), lambda: PPO(env_id=nothing)):
        with pytest.raises(ConfigError, match=r"^env_id=None: expected an environment"):
            call()


def test_a_dataset_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^dataset and buffer_path are two names of the same argument"):
        BC("a", buffer_path="b")


def test_help_of_an_algorithm_leaves_out_settings_of_environments_that_it_refuses() -> None:
    parameters = inspect.signature(BC).parameters
    assert "env_kwargs" in parameters
    assert not {"n_envs", "normalize_obs", "workers"} & parameters.keys()
    assert "env_kwargs" not in inspect.signature(SFT).parameters


def test_a_plugins_class_needs_no_constructor_and_may_rename_an_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = plugin_class(RenamedConfig, monkeypatch)
    made = mine("Acrobot-v1", 2, algo_workers=3, workers="sync")
    assert (made.config.algo.workers, made.config.env.workers, made.config.env.n_envs) == (3, "sync", 2)
    parameters = inspect.signature(mine).parameters
    assert parameters["algo_workers"].default == 2
    assert parameters["workers"].default == "sync"
    assert "target_kl" not in parameters
    assert mine.__doc__.startswith("Mine.\n\nParameters\n----------\nenv_id : EnvLike = 'CartPole-v1'\n")


def test_help_shows_the_defaults_that_an_algorithm_has_for_its_buffer() -> None:
    shown = inspect.signature(Rainbow).parameters["alpha"].default
    assert shown == Rainbow("CartPole-v1", learning_starts=8).config.buffer.alpha == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["seed", "env_backend", "env", "hidden", "callbacks", "logger", "gamma"])
def test_an_argument_cannot_be_set_later(name: str) -> None:
    made: Any = PPO("CartPole-v1", n_envs=1, n_steps=8, batch_size=8)
    with pytest.raises(AttributeError, match=rf"^PPO\.{name} cannot be set: learning uses the arguments"):
        setattr(made, name, 1)
    made.note = "of my own"
    assert made.note == "of my own"


@pytest.mark.parametrize("hidden", [None, True, "64"])
def test_a_hidden_width_that_is_no_number_is_refused_under_its_own_name(hidden: Any) -> None:
    with pytest.raises(ConfigError, match=r"^hidden=.*: expected the width of two layers, or a list of"):
        PPO("CartPole-v1", hidden=hidden)


def test_a_hint_says_which_algorithms_have_the_argument_that_it_names() -> None:
    with pytest.raises(UnknownNameError, match=r"here that is exploration_noise, .*, which ddpg, td3 have$"):
        SAC("Pendulum-v1", action_noise=None)


def test_an_epsilon_of_rmsprop_is_refused_where_adam_learns() -> None:
    with pytest.raises(ConfigError, match=r"^algo\.rms_prop_eps=1\.0 without algo\.use_rms_prop: "):
        A2C("CartPole-v1", use_rms_prop=False, rms_prop_eps=1.0)
    assert A2C("CartPole-v1", use_rms_prop=False).config.algo.rms_prop_eps == 1e-5  # type: ignore[attr-defined]


def test_a_preset_that_is_no_text_is_refused() -> None:
    number: Any = 3
    with pytest.raises(ConfigError, match=r"^preset=3: expected the name of a preset, such as 'CartPole"):
        PPO.tuned("CartPole-v1", number)
