"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), of vectors and of choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from rlox.algorithms import native_sac
from rlox.algorithms.encoding import Encoding
from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, SACConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError
from rlox.policies.engine import NativeRefused
from rlox.policies.native_vectors import VectorSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.native_fields import not_of_spaces
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of

__all__ = ["SAC"]


def make(config: RunConfig, tools: Tools) -> Parts:
    """SAC's learner on replayed transitions."""

    def compose(env: VectorEnv, encoding: Encoding, choice: Choice) -> OffPolicy:
        of = _choices if env.actions.discrete else _vectors
        return of(config, tools, env, encoding, choice)

    return off_policy_parts(config, tools, compose)


def _vectors(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, choice: Choice
) -> OffPolicy:
    """Of a Box."""
    algo, actions = cast(SACConfig, config.algo), env.actions.unit(config.env.id, "sac")
    sizes = VectorSizes(
        encoding.features,
        actions.size,
        2 * actions.size,
        algo.n_critics,
        *algo.widths,
        algo.activation,
    )
    given = config, tools, env, encoding, actions
    made = choice.native(sizes.widest, lambda: native_sac.composed(*given, sizes))
    if made is not None:
        return made
    from rlox.algorithms.torch_sac import of_vectors

    return of_vectors(*given)


def _choices(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, choice: Choice
) -> OffPolicy:
    """Of a Discrete space, which torch learns."""
    algo = cast(SACConfig, config.algo)
    if algo.use_sde:
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, {config.env.id} has {env.action_space}; leave "
            "algo.use_sde out"
        )

    def native() -> NoReturn:
        why = not_of_spaces(algo, env.actions, tools.device_name, encoding.make is not None)
        raise NativeRefused(why)

    actor, critic = algo.widths
    sizes = encoding.features, env.actions.size, *actor, *critic
    choice.native(lambda: max(sizes), native)
    from rlox.algorithms.torch_sac import of_choices

    return of_choices(config, tools, env, encoding)


class SAC(Algorithm):
    """Soft actor-critic for Box actions with finite bounds, and for Discrete ones.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 1, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `SACConfig` (`ent_coef`, `tau`, `use_sde`, ...), of its buffer
        (`buffer_size`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or `device`; unknown
        names are errors
    """

    name = "sac"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("sac", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)
