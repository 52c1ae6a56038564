"""PQN: Q-learning on rollouts, without replay buffer and target network (Gallici et al. 2025)."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.encoding import make_encoder_spec, require_actions
from rlox.algorithms.assembly.on_policy import get_collector
from rlox.configs import PQNConfig, RunConfig
from rlox.envs.engines.factories import close_on_error
from rlox.envs.make import EvalEnvFactory
from rlox.errors import ConfigError
from rlox.runs.algorithm import Algorithm
from rlox.training.actor import Actor
from rlox.training.components import BuildContext, RunComponents
from rlox.training.evaluate import Evaluator

__all__ = ["PQN"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a PQN run, which learns from epsilon-greedy rollouts."""
    from rlox.algorithms.pqn.collector import EpsilonGreedyCollector, EpsilonGreedySource
    from rlox.algorithms.pqn.learner import PQNLearner, build_policy, require_sizes

    algo, env_config = cast(PQNConfig, config.algo), config.env
    if context.policy is not None:
        raise ConfigError(f"{algo.name} takes no policy of your own; leave policy out")
    collector = EpsilonGreedyCollector(
        env_config.id if context.env is None else context.env,
        env_config.n_envs,
        config.seed,
        context.device_name,
        algo.gamma,
        algo.q_lambda,
        config=env_config,
    )
    env = collector.env
    with close_on_error(collector, context.env):
        require_actions(config, env.actions)
        encoder_spec = make_encoder_spec(algo, env.observations, env_config.id)
        require_sizes(algo, env, encoder_spec, context.device_name == "cpu")
        policy = build_policy(config, context, env, encoder_spec)
        learner = PQNLearner(policy, algo, context.streams)
        spaces = env.observations, env.actions
        actor = Actor(policy, *spaces, collector.obs_normalizer, context.device_name)
        source = EpsilonGreedySource(collector, policy, algo.n_steps, algo.epsilon)
        evaluator = Evaluator(actor, EvalEnvFactory(env_config, context.env), config.eval, env)
        return RunComponents(source, learner, actor, evaluator, encoder_spec.descriptions)


class PQN(Algorithm):
    """Parallelised Q-network: Q-learning with lambda-returns on rollouts, for Discrete actions.

    There is neither a replay buffer nor a target network; layer normalisation keeps the values stable.
    """

    name = "pqn"
    make = staticmethod(make)
    collector = property(get_collector)
