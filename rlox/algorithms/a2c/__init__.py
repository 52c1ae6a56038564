"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one gradient step per rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from rlox.algorithms.a2c.native import NativeA2CLearner
from rlox.algorithms.assembly.on_policy import (
    NativeLearnerFactory,
    build_on_policy_run,
    get_collector,
    split_policy_argument,
)
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import A2CConfig, RunConfig
from rlox.configs.code import Code
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.loop import Learner
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env
from rlox.types import Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.policies.base import ActorCritic

__all__ = ["A2C"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an A2C run, which learns from rollouts."""
    algo = cast(A2CConfig, config.algo)
    selector = BackendSelector(algo.backend, config, context.saved_backend)

    def make_torch_learner(policy: ActorCritic) -> Learner[Rollout]:
        from rlox.algorithms.a2c.learner import A2CLearner

        return A2CLearner(policy, algo)

    native_factory = NativeLearnerFactory(selector, lambda native: NativeA2CLearner(native, algo))
    return build_on_policy_run(config, context, make_torch_learner, native_factory=native_factory)


class A2C(Algorithm):
    """Synchronous advantage actor-critic.

    Observation and action spaces come from the environment: `DiscretePolicy` for Discrete actions,
    `ContinuousPolicy` (or gSDE with `use_sde=True`) for Box.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 8, or that of a given vectorised environment
    seed : seed of every random stream of the run
    policy : a module with `get_action_and_logprob`, `get_value`, `get_logprob_and_entropy`, and `mode` for
        evaluation (or an `actor` that returns logits or means); or a factory that takes the spaces, also by
        name: `"module:Name"`, `{"name": "module:Name", "hidden": 32}`
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `A2CConfig` or `EnvConfig` (its `backend` as `env_backend`), or
        `device`; unknown names are errors
    """

    name = "a2c"
    make = staticmethod(make)
    collector = property(get_collector)

    def __init__(
        self,
        env_id: EnvLike = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        policy: nn.Module | Code | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = resolve_env(env_id, DEFAULT_ENV, config_kwargs)
        policy_module = split_policy_argument(policy, config_kwargs)
        config = config_from_arguments("a2c", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, policy_module, logger, callbacks)
