"""The compiled half of rlox: native environments, advantage kernels, primitives of
language-model post-training, random streams.

Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
tensors. Errors are subclasses of `rlox.errors.RloxError`.
"""
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar, final, overload, type_check_only
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import disjoint_base
__all__ = ['Acrobot', 'CartPole', 'CloningEngine', 'DPOPair', 'DQNEngine', 'Explorer', 'HindsightConfig', 'IQLEngine', 'Iteration', 'MmapReplayBuffer', 'MountainCar', 'MountainCarContinuous', 'NativeEnv', 'OfflineDatasetBuffer', 'OnPolicyEngine', 'Pendulum', 'PrioritizedReplayBuffer', 'ReplayBuffer', 'ReplayIteration', 'RolloutPolicy', 'RunningStats', 'RunningStatsVec', 'SACEngine', 'SequenceReplayBuffer', 'SingleEnv', 'Stream', 'TD3Engine', 'VecEnv', 'compute_batch_group_advantages', 'compute_batch_token_kl', 'compute_batch_token_kl_schulman', 'compute_gae', 'compute_gae_batched', 'compute_gae_batched_f32', 'compute_gae_time_major', 'compute_group_advantages', 'compute_lambda_returns', 'compute_n_step_returns', 'compute_token_kl', 'compute_token_kl_schulman', 'compute_vtrace', 'explained_variance', 'native_env_ids', 'num_threads', 'pack_sequences', 'pack_tokens', 'prune_replay', 'set_num_threads', 'stream_seed', 'unpack_sequences']
_Float = TypeVar('_Float', np.float32, np.float64)

@final
class RunningStats:
    """Running count, mean and variance of numbers, in float64.

    Batches and other statistics are merged as in Chan, Golub and LeVeque 1983, so the result is that
    of the whole up to rounding, and does not depend on threads. NaN and infinity are refused and
    leave the object as it was.
    """

    def __new__(cls) -> RunningStats:
        ...

    def update(self, x: float) -> None:
        """Takes in one number. Raises ShapeError if it is none, NonFiniteError for NaN and infinity."""

    def batch_update(self, xs: ArrayLike) -> None:
        """Takes in numbers `[n]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStats) -> None:
        """Takes in everything that `other` has seen. Raises ConfigError if that makes more than 2**53
        numbers.
        """

    def normalize(self, x: float, clip: float | None=None, eps: float=1e-08) -> float:
        """(x - mean) / sqrt(var + eps) of one number, cut to [-clip, clip] if `clip` is given.
        Raises ConfigError unless eps is positive and clip at least 0.
        """

    @overload
    def normalize_batch(self, xs: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """`normalize` of numbers `[n]`: float32 if `xs` is, else float64."""

    @overload
    def normalize_batch(self, xs: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    def reset(self) -> None:
        """Forgets everything."""

    def state(self) -> dict[str, int | float]:
        """Format, count, mean and sum of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | float]) -> None:
        """Continues from what `state()` returned. Raises CheckpointError if it is something else."""

    @property
    def count(self) -> int:
        """How many numbers were seen."""

    @property
    def mean(self) -> float:
        """Their mean; 0 before there are any."""

    @property
    def var(self) -> float:
        """Their population variance (divisor count); 1 before there are any."""

    @property
    def std(self) -> float:
        """The square root of `var`."""

@final
class OnPolicyEngine:
    """Updates of an actor and a critic without torch: gradients, clipping and steps over one vector of
    parameters, which are the caller's.

    Networks are multilayer perceptrons with the names and shapes of torch's modules (`actor.0.weight`
    `[out, in]`, `actor.0.bias`, `actor.2.weight`, ..., `critic. ...`, `log_std`), each parameter at a multiple
    of 16 numbers of the vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        parameters: names and shapes in the order of the vector.
        kind: `choices` (a softmax), `numbers` (normal, `log_std` `[size]`) or `sde` (gSDE, `log_std`
            `[features, size]`).
        size: how many choices, or numbers of an action.
        obs_dim: numbers of an observation.
        actor: widths of the actor's hidden layers.
        critic: widths of the critic's.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a kind or precision that there is not, or layers beyond those of the widths.
    """

    def __new__(cls, parameters: Sequence[tuple[str, Sequence[int]]], *, kind: str, size: int, obs_dim: int, actor: Sequence[int], critic: Sequence[int], activation: str='tanh', precision: str='f32') -> OnPolicyEngine:
        ...

    def ppo(self, parameters: NDArray[np.floating[Any]], exp_avg: NDArray[np.floating[Any]], exp_avg_sq: NDArray[np.floating[Any]], steps: NDArray[np.int64], obs: ArrayLike, actions: ArrayLike, log_probs: ArrayLike, values: ArrayLike, advantages: ArrayLike, returns: ArrayLike, order: ArrayLike, *, batch_size: int, learning_rate: float, clip_eps: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, clip_vloss: bool=False, normalize_advantages: bool=True, target_kl: float | None=None, adam_eps: float=1e-05, mask: ArrayLike | None=None) -> dict[str, float]:
        """Learns from the rows of a rollout in minibatches, one pass for each row of `order`.

        Each minibatch takes one step of Adam along the gradient of
        E[-min(r A, clip(r, 1 - e, 1 + e) A)] + vf_coef E[(V - R)^2] - ent_coef E[H] (Schulman et al.
        2017, eq. 9), cut to `max_grad_norm`.

        Args:
            parameters: the vector, changed in place, as the next two are.
            exp_avg: Adam's first moments.
            exp_avg_sq: Adam's second moments.
            steps: steps of Adam so far, int64 `[1]`, counted in place, also where an update fails.
            obs: `[rows, obs_dim]`.
            actions: choices `[rows]`, or `[rows, size]`.
            log_probs: of the policy that acted, `[rows]`.
            values: V(o) when it acted, `[rows]`.
            advantages: `[rows]`.
            returns: what V is to become, `[rows]`.
            order: numbers of rows, `[passes, n]`.
            batch_size: rows of a minibatch; the last of a pass may have fewer.
            learning_rate: Adam's step size; its betas are 0.9 and 0.999.
            clip_eps: e.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: None: gradients are not cut.
            clip_vloss: values learn within e of what they were.
            normalize_advantages: of each minibatch.
            target_kl: the passes end at a minibatch whose KL estimate is more than 1.5 times this.
            adam_eps: Adam's epsilon.
            mask: which choices were allowed, `[rows, size]`.

        Returns:
            Means over the minibatches: `policy`, `value`, `entropy`, `total`, `approx_kl`,
            `clip_fraction`, `grad_norm` (before it was cut); and counts: `epochs` (whole passes),
            `steps`, `samples`.

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: an action, a row or a batch size that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    def a2c(self, parameters: NDArray[np.floating[Any]], first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]] | None, steps: NDArray[np.int64], obs: ArrayLike, actions: ArrayLike, advantages: ArrayLike, returns: ArrayLike, *, learning_rate: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, normalize_advantages: bool=False, alpha: float=0.99, eps: float=1e-05, tf_like: bool=False, mask: ArrayLike | None=None) -> dict[str, float]:
        """One step along the gradient of -E[log pi(a | o) A] + vf_coef E[(V - R)^2] - ent_coef E[H] (Mnih
        et al. 2016, sec. 4) over all rows, cut to `max_grad_norm`.

        Args:
            parameters: the vector, changed in place, as the moments are.
            first: RMSprop's means of squares (in TensorFlow's form they begin at 1), or Adam's first
                moments.
            second: Adam's second moments; without them the rule is RMSprop.
            steps: steps so far, int64 `[1]`, counted in place, also where an update fails.
            obs: `[rows, obs_dim]`.
            actions: choices `[rows]`, or `[rows, size]`.
            advantages: `[rows]`.
            returns: what V is to become, `[rows]`.
            learning_rate: the step size.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: None: gradients are not cut.
            normalize_advantages: over all rows.
            alpha: what RMSprop keeps of its means.
            eps: epsilon of RMSprop or Adam, whose betas are 0.9 and 0.999.
            tf_like: epsilon inside of RMSprop's root.
            mask: which choices were allowed, `[rows, size]`.

        Returns:
            `policy`, `value`, `entropy`, `total`, `grad_norm` (before it was cut).

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: an action that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    @property
    def gradient(self) -> NDArray[np.floating[Any]]:
        """A copy of the gradient of the last minibatch's loss, cut to `max_grad_norm`: zeros before there was one."""

    def __len__(self) -> int:
        ...

@final
class DQNEngine:
    """Trainings of a network of action values without torch: gradients, clipping and steps over one vector
    of parameters, which are the caller's.

    The network is a multilayer perceptron with the names and shapes of torch's modules (`q.0.weight`
    `[out, in]`, `q.0.bias`, `q.2.weight`, ...; dueling `q.shared. ...`, `q.value. ...`, `q.advantage. ...`), each
    parameter at a multiple of 16 numbers of the vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        parameters: names and shapes in the order of the vector.
        size: how many choices.
        obs_dim: numbers of an observation.
        hidden: widths of the hidden layers.
        activation: `tanh`, `relu`, `elu` or `silu`.
        dueling: value and advantage in streams of their own (Wang et al. 2016).
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a precision that there is not, or layers beyond those of the widths.
    """

    def __new__(cls, parameters: Sequence[tuple[str, Sequence[int]]], *, size: int, obs_dim: int, hidden: Sequence[int], activation: str='relu', dueling: bool=False, precision: str='f32') -> DQNEngine:
        ...

    def learn(self, parameters: NDArray[np.floating[Any]], target: ArrayLike, exp_avg: NDArray[np.floating[Any]], exp_avg_sq: NDArray[np.floating[Any]], steps: NDArray[np.int64], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], weights: ArrayLike | None=None, *, learning_rate: float, double: bool=False, loss: str='huber', max_grad_norm: float | None=None, adam_eps: float=1e-08) -> dict[str, float]:
        """One step of Adam for each of k batches, along the gradient of E[w loss(Q(s, a) - y)] with
        y = R + gamma^m Q'(s', argmax Q'(s', .)) (Mnih et al. 2015), cut to `max_grad_norm`.

        Args:
            parameters: the vector, changed in place, as the moments are.
            target: the parameters of Q', a vector of the same layout.
            exp_avg: Adam's first moments.
            exp_avg_sq: Adam's second moments.
            steps: steps of Adam so far, int64 `[1]`, counted in place, also where a training fails.
            obs: `[k, rows, obs_dim]`.
            actions: choices `[k, rows]`.
            rewards: R, `[k, rows]`.
            next_obs: `[k, rows, obs_dim]`.
            discounts: gamma^m, 0 after a termination, `[k, rows]`.
            errors: written: Q(s, a) - y, `[k, rows]`.
            weights: w, `[k, rows]`; None: 1.
            learning_rate: Adam's step size; its betas are 0.9 and 0.999.
            double: the argmax is of Q(s', .) (van Hasselt et al. 2016).
            loss: `huber` (quadratic up to 1) or `mse`.
            max_grad_norm: None: gradients are not cut.
            adam_eps: Adam's epsilon.

        Returns:
            Means over the batches: `loss`, `q_mean`, `grad_norm` (before it was cut).

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: an action, a loss or a setting that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    def __len__(self) -> int:
        ...

@final
class TD3Engine:
    """Trainings of a deterministic policy and its critics without torch (Fujimoto et al. 2018).

    The actor is a multilayer perceptron whose output tanh takes to [-1, 1], with parameters `actor.0.weight`
    `[out, in]`, `actor.0.bias`, `actor.2.weight`, ...; the critics are stacked: `weights.0` `[members, out,
    in]`, `weights.1`, ..., `biases.0` `[members, out]`, ... Each lies at a multiple of 16 numbers of its
    vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        actor_parameters: names and shapes in the order of the actor's vector.
        critic_parameters: of the critics'.
        obs_dim: numbers of an observation.
        size: numbers of an action.
        members: critics.
        actor: widths of the actor's hidden layers.
        critic: widths of the critics'.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a precision that there is not, or layers beyond those of the widths.
    """

    def __new__(cls, actor_parameters: Sequence[tuple[str, Sequence[int]]], critic_parameters: Sequence[tuple[str, Sequence[int]]], *, obs_dim: int, size: int, members: int, actor: Sequence[int], critic: Sequence[int], activation: str='relu', precision: str='f32') -> TD3Engine:
        ...

    def learn(self, actor: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], critic: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], target_actor: NDArray[np.floating[Any]], target_critic: NDArray[np.floating[Any]], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], noise: ArrayLike | None=None, weights: ArrayLike | None=None, *, first: int, learning_rate: float, tau: float, policy_delay: int, target_noise: float, noise_clip: float, max_grad_norm: float | None=None, adam_eps: float=1e-08, alpha: float | None=None) -> dict[str, float]:
        """One step of the critics for each of k batches, along the gradient of sum_i E[w (Q_i(s, a) - y)^2] with
        y = R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))); at every `policy_delay` one of the actor
        along that of -E[Q_1(s, mu(s))], and the targets follow.

        Args:
            actor: four arrays, changed in place: the actor's vector, Adam's first and second moments, steps int64
                `[1]`, counted also where a training fails.
            critic: the same of the critics.
            target_actor: the target's vector, changed in place.
            target_critic: that of the critics' target.
            obs: `[k, rows, obs_dim]`.
            actions: `[k, rows, size]`, in [-1, 1].
            rewards: R, `[k, rows]`.
            next_obs: `[k, rows, obs_dim]`.
            discounts: gamma^m, 0 after a termination, `[k, rows]`.
            errors: written: E_i |Q_i(s, a) - y|, `[k, rows]`.
            noise: standard normal, `[k, rows, size]`; None where target_noise is 0.
            weights: w, `[k, rows]`; None: 1.
            first: number of the first batch in the run.
            learning_rate: Adam's step size, of both.
            tau: how far the targets move.
            policy_delay: batches for each step of the actor.
            target_noise: deviation of the noise on the target's actions.
            noise_clip: at which it is cut off.
            max_grad_norm: None: gradients are not cut.
            adam_eps: Adam's epsilon.
            alpha: of TD3+BC (Fujimoto & Gu 2021): the actor's loss is E[(mu(s) - a)^2] - alpha / E|Q_1| E[Q_1];
                None: TD3's.

        Returns:
            Means over the batches: `critic` (the loss), `q_mean`, `grad_norm` (of the critics, before it was
            cut), and `actor` (its loss), where it learned.

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: a setting that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

@final
class IQLEngine:
    """Trainings of implicit Q-learning's networks without torch (Kostrikov et al. 2022).

    The actor is a multilayer perceptron whose output tanh takes to [-1, 1], the means of normal numbers with
    parameters `log_std` `[size]`, cut off at -5 and 2, `actor.0.weight` `[out, in]`, `actor.0.bias`, ...; the
    critics are stacked as those of a `TD3Engine`; the value is `value.0.weight`, ... Each parameter lies at a
    multiple of 16 numbers of its vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        actor_parameters: names and shapes in the order of the actor's vector.
        critic_parameters: of the critics'.
        value_parameters: of the value's.
        obs_dim: numbers of an observation.
        size: numbers of an action.
        members: critics.
        actor: widths of the actor's hidden layers.
        critic: widths of the critics' and the value's.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a precision that there is not, or layers beyond those of the widths.
    """

    def __new__(cls, actor_parameters: Sequence[tuple[str, Sequence[int]]], critic_parameters: Sequence[tuple[str, Sequence[int]]], value_parameters: Sequence[tuple[str, Sequence[int]]], *, obs_dim: int, size: int, members: int, actor: Sequence[int], critic: Sequence[int], activation: str='relu', precision: str='f32') -> IQLEngine:
        ...

    def learn(self, actor: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], critic: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], value: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], target: NDArray[np.floating[Any]], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], *, learning_rate: float, actor_learning_rate: float, tau: float, expectile: float, temperature: float, max_weight: float, max_grad_norm: float | None=None, adam_eps: float=1e-08) -> dict[str, float]:
        """One step of V, the actor, the critics and their target for each of k batches (algorithm 1): of V along
        the gradient of E[|expectile - 1(u < 0)| u^2] with u = min_i Q'_i(s, a) - V(s); of the actor along that
        of -E[w log pi(a | s)] with w = min(e^(temperature u), max_weight); of the critics along that of
        sum_i E[(Q_i(s, a) - R - gamma^m V(s'))^2].

        Args:
            actor: four arrays, changed in place: the actor's vector, Adam's first and second moments, steps int64
                `[1]`, counted also where a training fails.
            critic: the same of the critics.
            value: the same of V.
            target: the vector of the critics' target, changed in place.
            obs: `[k, rows, obs_dim]`.
            actions: `[k, rows, size]`.
            rewards: R, `[k, rows]`.
            next_obs: `[k, rows, obs_dim]`.
            discounts: gamma^m, 0 after a termination, `[k, rows]`.
            errors: written: E_i |Q_i(s, a) - y|, `[k, rows]`.
            learning_rate: Adam's step size, of critics and value.
            actor_learning_rate: of the actor.
            tau: how far the target moves.
            expectile: which one V is.
            temperature: beta.
            max_weight: limit of w.
            max_grad_norm: None: gradients are not cut.
            adam_eps: Adam's epsilon.

        Returns:
            Means over the batches: `critic`, `value` and `actor` (losses), `q_mean`, `v_mean`, `weight` (w),
            `grad_norm` (of the critics, before it was cut).

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: a setting that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

@final
class CloningEngine:
    """Trainings of a policy towards somebody's actions without torch (Pomerleau 1991).

    The policy is a multilayer perceptron with parameters `net.0.weight` `[out, in]`, `net.0.bias`, ...: logits of
    choices, or means of normal numbers, whose parameters `log_std` `[size]` come first. Each parameter lies at a
    multiple of 16 numbers of the vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        parameters: names and shapes in the order of the vector.
        kind: `choices` or `numbers`.
        size: how many choices, or numbers of an action.
        obs_dim: numbers of an observation.
        hidden: widths of the hidden layers.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a kind or precision that there is not.
    """

    def __new__(cls, parameters: Sequence[tuple[str, Sequence[int]]], *, kind: str, size: int, obs_dim: int, hidden: Sequence[int], activation: str='relu', precision: str='f32') -> CloningEngine:
        ...

    def learn(self, policy: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], obs: ArrayLike, actions: ArrayLike, *, learning_rate: float, squared: bool=False, max_grad_norm: float | None=None, adam_eps: float=1e-08) -> dict[str, float]:
        """One step of Adam for each of k batches, along the gradient of -E[log pi(a | o)], or of vectors of
        E[(mean - a)^2].

        Args:
            policy: four arrays, changed in place: the vector, Adam's first and second moments, steps int64 `[1]`,
                counted also where a training fails.
            obs: `[k, rows, obs_dim]`.
            actions: choices `[k, rows]`, or vectors `[k, rows, size]`.
            learning_rate: Adam's step size.
            squared: the squared error of vectors in place of their likelihood.
            max_grad_norm: None: gradients are not cut.
            adam_eps: Adam's epsilon.

        Returns:
            Means over the batches: `loss`, `fit` (the part of choices that are the likeliest, or E|mean - a|),
            `grad_norm` (before it was cut).

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: an action or a setting that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    def outputs(self, parameters: NDArray[np.float32], obs: ArrayLike, out: NDArray[np.float32]) -> None:
        """What the network says: logits, or means.

        Args:
            parameters: the vector, float32.
            obs: `[n, obs_dim]`.
            out: written: float32 `[n, size]`.

        Raises:
            ShapeError: an array has another shape or dtype, or `out` shares memory with another argument.
        """

@final
class SACEngine:
    """Trainings of a squashed Gaussian policy and its critics without torch (Haarnoja et al. 2018).

    The actor is a multilayer perceptron that gives means and log standard deviations, with parameters
    `actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ...; the critics are stacked: `weights.0`
    `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`, ... Each lies at a multiple of 16
    numbers of its vector, as `rlox.optim.FlatParameters` lays them out.

    Args:
        actor_parameters: names and shapes in the order of the actor's vector.
        critic_parameters: of the critics'.
        obs_dim: numbers of an observation.
        size: numbers of an action.
        members: critics.
        actor: widths of the actor's hidden layers.
        critic: widths of the critics'.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation that there is not.
        ShapeError: a parameter of another shape.
        ConfigError: a precision that there is not, or layers beyond those of the widths.
    """

    def __new__(cls, actor_parameters: Sequence[tuple[str, Sequence[int]]], critic_parameters: Sequence[tuple[str, Sequence[int]]], *, obs_dim: int, size: int, members: int, actor: Sequence[int], critic: Sequence[int], activation: str='relu', precision: str='f32') -> SACEngine:
        ...

    def learn(self, actor: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], critic: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]], target: NDArray[np.floating[Any]], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], noise: ArrayLike, weights: ArrayLike | None=None, temperature: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]] | None=None, *, entropy_or_alpha: float, first: int, learning_rate: float, tau: float, target_update_interval: int, max_grad_norm: float | None=None, adam_eps: float=1e-08) -> dict[str, float]:
        """One step of temperature, critics and actor for each of k batches: along the gradients of
        -log alpha E[log pi + H], of sum_i E[w (Q_i(s, a) - y)^2] / 2 with
        y = R + gamma^m (min_i Q'_i(s', a') - alpha log pi(a' | s')), and of E[alpha log pi - min_i Q_i].

        Args:
            actor: four arrays, changed in place: the actor's vector, Adam's first and second moments, steps int64
                `[1]`, counted also where a training fails.
            critic: the same of the critics.
            target: the vector of the critics' target, changed in place.
            obs: `[k, rows, obs_dim]`.
            actions: `[k, rows, size]`, in [-1, 1].
            rewards: R, `[k, rows]`.
            next_obs: `[k, rows, obs_dim]`.
            discounts: gamma^m, 0 after a termination, `[k, rows]`.
            errors: written: E_i |Q_i(s, a) - y|, `[k, rows]`.
            noise: standard normal, `[k, 2, rows, size]`: of what is done in s, and in s'.
            weights: w, `[k, rows]`; None: 1.
            temperature: four arrays as the actor's, of 16 numbers, the first of which is log alpha; None: alpha
                stays.
            entropy_or_alpha: H with a temperature that is learned, alpha without.
            first: number of the first batch in the run.
            learning_rate: Adam's step size, of all.
            tau: how far the target moves.
            target_update_interval: batches for each of its moves.
            max_grad_norm: None: gradients are not cut.
            adam_eps: Adam's epsilon.

        Returns:
            Means over the batches: losses `critic`, `actor`, `temperature`; `q_mean`, `entropy`, `alpha`,
            `grad_norm` (of the critics, before it was cut).

        Raises:
            ShapeError: an array has another shape; an output is not of the engine's precision.
            ConfigError: a setting that there is not.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

@final
class Explorer:
    """The network of a `DQNEngine`, or the actor of a `SACEngine`, `TD3Engine` or `IQLEngine`, exploring without torch.

    Args:
        engine: whose networks act; of precision `f32`.
        deviation: of the noise that a `TD3Engine`'s actor is disturbed with; 0 for other engines.

    Raises:
        ConfigError: another engine, or one of another precision; a deviation that is negative or not finite.
    """

    def __new__(cls, engine: DQNEngine | SACEngine | TD3Engine | IQLEngine, deviation: float=0.0) -> Explorer:
        ...

    def act(self, parameters: ArrayLike, obs: ArrayLike, actions: NDArray[Any], noise: ArrayLike | None=None) -> None:
        """Chooses actions.

        Args:
            parameters: the vector of the network.
            obs: `[n, obs_dim]`.
            actions: written: float32 `[n, size]`; or int64 `[n]`, of which those from 0 on are made already and
                stay.
            noise: standard normal, `[n, size]`; None for choices.

        Raises:
            ShapeError: an array has another shape or dtype, or an output shares memory with another argument.
        """

    def collect(self, parameters: ArrayLike, envs: VecEnv, obs: NDArray[np.float32], next_obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], totals: NDArray[np.float64], lengths: NDArray[np.int64], noise: ArrayLike | None=None, bounds: tuple[ArrayLike, ArrayLike] | None=None, *, given: int=0) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """Steps every environment T times: acting, stepping, and writing what a replay buffer takes.

        The columns `[T, n, ...]` are written; what is said of them is what `act` and `step_into` say of each
        step. Row 0 of `obs` is where the environments stand.

        Args:
            parameters: the vector of the network.
            envs: a `VecEnv` whose spaces are those of the network.
            obs: o_t, float32 `[T + 1, n, obs_dim]`.
            next_obs: what step t led to, float32 `[T, n, obs_dim]`: the last observation of an episode that it
                ended.
            actions: int64 `[T, n]`, or float32 `[T, n, size]`, as `act` writes them.
            rewards: float64 `[T, n]`.
            terminated: bool `[T, n]`.
            truncated: bool `[T, n]`.
            totals: rewards of each running episode so far, float64 `[n]`, summed in place.
            lengths: steps of each so far, int64 `[n]`, counted in place.
            noise: standard normal, `[T - given, n, size]`; None for choices.
            bounds: arrays `[size]` of the environments' actions that -1 and 1 stand for, None: themselves.
            given: at so many steps the actions are there already.

        Returns:
            None if no episode ended, else arrays `[k]` in the order of steps and environments: the steps,
            the environments, last observations `[k, obs_dim]`, sums of rewards, lengths.

        Raises:
            ShapeError: an array is not C-contiguous, writeable, of that dtype and shape, or shares memory
                with another argument.
            ConfigError: environments of another kind of actions; bounds that are not finite or not in order.
            NonFiniteError: an action is NaN or infinite.
        """

@final
class ReplayIteration:
    """A stretch of steps that is collected, stored, and learned from by batches of the buffer in one call, with the
    bits of `Explorer.collect`, `push_batch`, `sample` and the engine's `learn` one after the other.

    Args:
        explorer: acts, and its engine learns.
        envs: a `VecEnv` whose spaces are those of the network.
        buffer: a `ReplayBuffer` or `PrioritizedReplayBuffer` of float32 observations and rewards.
        batch: the dict of an earlier `sample` with `n_batches`, whose arrays are written.
        parameters: as are the next ten, what `Explorer.collect` takes.
        obs: float32 `[T + 1, n, obs_dim]`.
        next_obs: float32 `[T, n, obs_dim]`.
        actions: int64 `[T, n]`, or float32 `[T, n, size]`.
        rewards: float64 `[T, n]`.
        terminated: bool `[T, n]`.
        truncated: bool `[T, n]`.
        totals: float64 `[n]`.
        lengths: int64 `[n]`.
        noise: `[T - given, n, size]`; None for choices.
        bounds: two arrays `[size]`; None: actions are the environments'.
        given: at so many steps the actions are there already.
        n_step: of the batches' returns.
        gamma: discount, in [0, 1].

    Raises:
        ConfigError: `n_step` or `gamma` out of range.
    """

    def __new__(cls, explorer: Explorer, envs: VecEnv, buffer: ReplayBuffer | PrioritizedReplayBuffer, batch: dict[str, Any], parameters: ArrayLike, obs: NDArray[np.float32], next_obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], totals: NDArray[np.float64], lengths: NDArray[np.int64], noise: ArrayLike | None=None, bounds: tuple[ArrayLike, ArrayLike] | None=None, *, given: int, n_step: int, gamma: float) -> ReplayIteration:
        ...

    def learn(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Collects, stores and draws, and hands what it is given to the `learn` of the engine.

        Returns:
            What that returns.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: another buffer, or environments of another kind of actions.
            NonFiniteError: a column that was collected, a loss, gradient or parameter is NaN or infinite.
        """

    @property
    def collected(self) -> bool:
        """Whether the last call got as far as steps that are stored: what broke it off then was the learning."""

    @property
    def seconds(self) -> float:
        """Seconds that learning took in the last call."""

    def episodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """What `Explorer.collect` returns of the last call's steps: the episodes that ended."""

@final
class RolloutPolicy:
    """The policy of an `OnPolicyEngine`, acting without torch: one environment's action depends on its
    observation, the parameters and the stream ("action", `rollout`) of the run only.

    Args:
        engine: whose networks act; of precision `f32`.
        noise_kept: steps of a rollout for which gSDE acts with the same noise; None: all.

    Raises:
        ConfigError: `noise_kept` is 0.
    """

    def __new__(cls, engine: OnPolicyEngine, noise_kept: int | None=...) -> RolloutPolicy:
        ...

    def act(self, parameters: ArrayLike, obs: ArrayLike, actions: NDArray[Any], log_probs: NDArray[np.float32], values: NDArray[np.float32], *, seed: int, rollout: int, step: int, mask: ArrayLike | None=None) -> None:
        """Chooses actions at random for step `step` of a rollout.

        Args:
            parameters: the vector of the engine.
            obs: `[n, obs_dim]`.
            actions: written: int64 `[n]`, or float32 `[n, size]`.
            log_probs: written: log pi(a | o), float32 `[n]`.
            values: written: V(o), float32 `[n]`.
            seed: the run's.
            rollout: number of the rollout in the run.
            step: number of the step in the rollout.
            mask: which choices are allowed, `[n, size]`.

        Raises:
            ShapeError: an array has another shape or dtype, or an output shares memory with another argument.
            ConfigError: a mask allows nothing, or is given for actions that are numbers.
        """

    def values(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]:
        """V(o) of observations, float32 `[n]`.

        Args:
            parameters: the vector of the engine.
            obs: `[n, obs_dim]`.

        Raises:
            ShapeError: an array has another shape.
        """

    def outputs(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]:
        """What the actor's network says of observations, float32 `[n, size]`: logits of choices, or means.

        Args:
            parameters: the vector of the engine.
            obs: `[n, obs_dim]`.

        Raises:
            ShapeError: an array has another shape.
        """

    def collect(self, parameters: ArrayLike, envs: VecEnv, obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], log_probs: NDArray[np.float32], values: NDArray[np.float32], next_values: NDArray[np.float32], totals: NDArray[np.float64], lengths: NDArray[np.int64], *, seed: int, rollout: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """Steps every environment T times: acting, stepping, writing, and valuing what was reached.

        The columns `[T, n, ...]` are written; what is said of them is what `act` and `step_into` say
        of each step. Row 0 of `obs` is where the environments stand. A call that is broken off leaves in row
        T where they stand then, and sums and lengths as of then.

        Args:
            parameters: the vector of the engine.
            envs: a `VecEnv` whose spaces are those of the engine.
            obs: o_t, float32 `[T + 1, n, obs_dim]`.
            actions: int64 `[T, n]`, or float32 `[T, n, size]`.
            rewards: float32 `[T, n]`.
            terminated: bool `[T, n]`.
            truncated: bool `[T, n]`.
            log_probs: log pi(a_t | o_t), float32 `[T, n]`.
            values: V(o_t), float32 `[T + 1, n]`.
            next_values: V of what step t reached, float32 `[T, n]`: 0 where an episode was terminated, the
                final observation's where it was truncated.
            totals: rewards of each running episode so far, float64 `[n]`, summed in place.
            lengths: steps of each so far, int64 `[n]`, counted in place.
            seed: the run's.
            rollout: number of the rollout in the run.

        Returns:
            None if no episode ended, else arrays `[k]` in the order of steps and environments: the steps,
            the environments, last observations `[k, obs_dim]`, sums of rewards, lengths.

        Raises:
            ShapeError: an array is not C-contiguous, writeable, of that dtype and shape, or shares memory
                with another argument.
            NonFiniteError: an action is NaN or infinite.
        """

@final
class Iteration:
    """A rollout that is collected and learned from in one call, with the bits of `RolloutPolicy.collect`,
    `compute_gae_time_major` and `OnPolicyEngine.ppo` or `.a2c` one after the other.

    Args:
        policy: acts, and its engine learns; of precision `f32`.
        envs: a `VecEnv` whose spaces are those of the engine.
        obs: as are the next seven, what `RolloutPolicy.collect` writes.
        actions: int64 `[T, n]`, or float32 `[T, n, size]`.
        rewards: float32 `[T, n]`.
        terminated: bool `[T, n]`.
        truncated: bool `[T, n]`.
        log_probs: float32 `[T, n]`.
        values: float32 `[T + 1, n]`.
        next_values: float32 `[T, n]`.
        advantages: written: generalised advantage estimates, float32 `[T, n]`.
        returns: written: advantages + values, float32 `[T, n]`.
        totals: rewards of each running episode so far, float64 `[n]`, summed in place.
        lengths: steps of each so far, int64 `[n]`, counted in place.
        seed: the run's.
        rollout: number of the rollout in the run.
        gamma: discount, in [0, 1].
        lam: trace decay, in [0, 1].

    Raises:
        ConfigError: `gamma` or `lam` out of range.
    """

    def __new__(cls, policy: RolloutPolicy, envs: VecEnv, obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], log_probs: NDArray[np.float32], values: NDArray[np.float32], next_values: NDArray[np.float32], advantages: NDArray[np.float32], returns: NDArray[np.float32], totals: NDArray[np.float64], lengths: NDArray[np.int64], *, seed: int, rollout: int, gamma: float, lam: float) -> Iteration:
        ...

    def ppo(self, parameters: NDArray[np.float32], exp_avg: NDArray[np.float32], exp_avg_sq: NDArray[np.float32], steps: NDArray[np.int64], order: ArrayLike, *, batch_size: int, learning_rate: float, clip_eps: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, clip_vloss: bool=False, normalize_advantages: bool=True, target_kl: float | None=None, adam_eps: float=1e-05) -> dict[str, float]:
        """Collects, and learns as PPO: as many passes as `order` has.

        Args:
            parameters: the vector, changed in place, as the next two are.
            exp_avg: Adam's first moments.
            exp_avg_sq: Adam's second moments.
            steps: steps of Adam so far, int64 `[1]`, counted in place, also where an update fails.
            order: numbers of rows, step by step and environment by environment, `[passes, n]`.
            batch_size: rows of a minibatch; the last of a pass may have fewer.
            learning_rate: Adam's step size; its betas are 0.9 and 0.999.
            clip_eps: the ratio of new to old probabilities stays within this of 1.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: None: gradients are not cut.
            clip_vloss: values learn within `clip_eps` of what they were.
            normalize_advantages: of each minibatch.
            target_kl: the passes end at a minibatch whose KL estimate is more than 1.5 times this.
            adam_eps: Adam's epsilon.

        Returns:
            What `OnPolicyEngine.ppo` does, `explained_variance` of the returns by the values, and the `seconds`
            that learning took, advantages and all.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: a row or a batch size that there is not; an engine of another precision.
            NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
        """

    def a2c(self, parameters: NDArray[np.float32], first: NDArray[np.float32], second: NDArray[np.float32] | None, steps: NDArray[np.int64], *, learning_rate: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, normalize_advantages: bool=False, alpha: float=0.99, eps: float=1e-05, tf_like: bool=False) -> dict[str, float]:
        """Collects, and learns as A2C: one step along the gradient of all rows.

        Args:
            parameters: the vector, changed in place, as the moments are.
            first: RMSprop's means of squares (in TensorFlow's form they begin at 1), or Adam's first
                moments.
            second: Adam's second moments; without them the rule is RMSprop.
            steps: steps so far, int64 `[1]`, counted in place, also where an update fails.
            learning_rate: the step size.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: None: gradients are not cut.
            normalize_advantages: over all rows.
            alpha: what RMSprop keeps of its means.
            eps: epsilon of RMSprop or Adam, whose betas are 0.9 and 0.999.
            tf_like: epsilon inside of RMSprop's root.

        Returns:
            What `OnPolicyEngine.a2c` does, `explained_variance` of the returns by the values, and the `seconds`
            that learning took, advantages and all.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: an engine of another precision.
            NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
        """

    @property
    def collected(self) -> bool:
        """Whether the last call got as far as a whole rollout: what broke it off then was the learning."""

    def episodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """What `RolloutPolicy.collect` returns of the last call's rollout: the episodes that ended."""

@final
class RunningStatsVec:
    """Running count, mean and variance of vectors, per dimension, in float64.

    As `RunningStats`.

    Args:
        dim: numbers in a vector, at least 1.

    Raises:
        ConfigError: dim is not an integer in 1..2**28.
    """

    def __new__(cls, dim: int) -> RunningStatsVec:
        ...

    def update(self, x: ArrayLike) -> None:
        """Takes in one vector `[dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def batch_update(self, xs: ArrayLike) -> None:
        """Takes in vectors `[n, dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStatsVec) -> None:
        """Takes in everything that `other` has seen. Raises ShapeError for another dimension, and
        ConfigError if that makes more than 2**53 vectors.
        """

    @overload
    def normalize(self, x: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """(x - mean) / sqrt(var + eps) of one vector `[dim]`, cut to [-clip, clip] if `clip` is given:
        float32 if `x` is, else float64. Raises ConfigError unless eps is positive and clip at
        least 0.
        """

    @overload
    def normalize(self, x: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    @overload
    def normalize_batch(self, xs: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """`normalize` of vectors `[n, dim]`."""

    @overload
    def normalize_batch(self, xs: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    def reset(self) -> None:
        """Forgets everything."""

    def state(self) -> dict[str, int | NDArray[np.float64]]:
        """Format, count, means and sums of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | NDArray[np.float64]]) -> None:
        """Continues from what `state()` returned. Raises CheckpointError if it is something else."""

    @property
    def dim(self) -> int:
        """Numbers in a vector."""

    @property
    def count(self) -> int:
        """How many vectors were seen."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Their mean, `[dim]`; 0 before there are any."""

    @property
    def var(self) -> NDArray[np.float64]:
        """Their population variance (divisor count), `[dim]`; 1 before there are any."""

    @property
    def std(self) -> NDArray[np.float64]:
        """The square root of `var`, `[dim]`."""

@final
class HindsightConfig:
    """How `ReplayBuffer.sample(her=...)` replaces goals (Andrychowicz et al. 2017, section 4.5).

    For buffers of dict observations with `achieved_goal` and `desired_goal`. A drawn transition is
    relabelled with probability `ratio`: `desired_goal` of both its observations becomes what
    `next_obs` achieved in a transition of the same episode, and its reward is computed anew.
    `terminated` and `truncated` stay. An episode that still runs counts up to its newest
    transition, one that was partly overwritten from its oldest.

    Args:
        compute_reward: `compute_reward(achieved_goal, desired_goal, info)` with the goals of the m
            relabelled transitions, `[m, ...]`, the achieved ones of `next_obs`, and an empty dict;
            returns the rewards, `[m]`, finite. The `compute_reward` of a Gymnasium-Robotics
            environment.
        strategy: "future" (any transition from the relabelled one on), "final" (the episode's
            last) or "episode" (any).
        k: relabelled transitions for each that is not: `ratio` is k / (k + 1).
        ratio: the probability itself, in [0, 1], instead of `k`.

    Raises:
        UnknownNameError: there is no such strategy.
        ConfigError: `ratio` is out of range, or `compute_reward` cannot be called.
    """

    def __new__(cls, compute_reward: Callable[..., ArrayLike], strategy: str='future', k: int=4, *, ratio: float | None=None) -> HindsightConfig:
        ...

    @property
    def strategy(self) -> str:
        """The strategy's name."""

    @property
    def ratio(self) -> float:
        """The probability that a drawn transition is relabelled."""

@final
class ReplayBuffer:
    """A ring of transitions, sampled uniformly with replacement.

    The oldest transition is overwritten first, in a ring of `capacity // n_envs` rows for each
    environment. An observation is stored once though it is the `next_obs` of one row and the `obs`
    of the next; where the bytes differ (a reset) both are kept. Numbers are stored as they are,
    NaN and infinity included.

    Any number of threads may call any methods at once: a call sees whole rows only, sampling does
    not wait for sampling, and the GIL is released during long calls and while waiting. Results
    never depend on the number of threads.

    Args:
        capacity: transitions held over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        n_envs: environments pushed side by side.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
            i-th batch.
        sampler: the rule by which `sample` draws: "uniform", every transition alike, or
            "episode_balanced", every episode alike and within it every transition.
        obs_shape: shape of an observation.
        obs_dtype: uint8 to uint64, int8 to int64, float32, float64 or bool.
        obs_spaces: `{name: (dtype, shape)}` for observations that are dicts of arrays.
        action_shape: shape of an action.
        action_dtype: as `obs_dtype`.
        reward_dtype: float32 or float64.
        frame_stack: `(k, "first")` or `(k, "last")` if an observation stacks k frames along its
            first or last axis, oldest first (for dict observations, a mapping from names to such
            pairs): each frame is stored once. Stacks are compared by bytes, so any reset
            convention is reproduced exactly; frames that a reset changes take memory of their own.
        extra_columns: `{name: (dtype, shape)}` of further columns, pushed as `extra`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, sampler: Literal['uniform', 'episode_balanced']='uniform', obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, sampler: Literal['uniform', 'episode_balanced']='uniform', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        """A buffer for the observations and actions of Gymnasium spaces; Discrete actions are
        `(1,)` of the space's dtype. Other keywords are those of the constructor that no space says.

        Raises UnsupportedSpaceError for spaces whose elements are no arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, every argument with a
        leading axis `[n_envs]`.

        Args:
            obs: the observation acted on, in the declared shape (or any with as many elements if
                that is flat), or a mapping for dict observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal: its value is 0.
            truncated: whether the episode was cut short: the state reached has a value.
            next_obs: what the step led to, the last observation of the episode where one ended.
                Left out, it is the next `obs` pushed for the same environment (until then, and
                where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array of another shape, or a number that the column cannot hold.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: it refuses a segment and memory has no room to wait.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment, oldest first, each array with a leading
        axis `[n]`; otherwise as `push`.

        Args:
            env_ids: the environment of each row, `[n]`, the rows of one environment in time order;
                without it all are of environment 0.

        Raises:
            ShapeError, StorageError: as `push`; rows before a refused segment are stored.
        """

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, her: HindsightConfig | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions by the buffer's rule, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: the same seed and contents give the same batch; without one the buffer's own
                draws go on, which `state` saves.
            n_batches: several batches in one call, equal to as many calls; every array then has a
                leading axis `[n_batches]`. With a seed, batch i draws from
                `Stream(seed, "replay", i)`.
            n_step: rewards become R = sum_{k<m} gamma^k r_{t+k} and `next_obs` and the flags those
                of row t+m-1, with m = n_step, or less where the episode ends or the newest row is
                reached; `discounts` is added. (Sutton & Barto 2018, equation 7.1.)
            gamma: discount per step, in [0, 1]; needed with `n_step`.
            her: hindsight relabelling of dict observations; see `HindsightConfig`.
            out: a dict of arrays as returned by an earlier call of the same sizes, or of CPU
                tensors, to be filled in place and returned.

        Returns:
            A dict: `obs` and `next_obs` `[B, ...]` (dicts for dict observations), `actions`
            `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, the extra
            columns, `indices` uint64 `[B]` for `gather` and `update`, and with `n_step`
            `discounts` float32 `[B]`, gamma^m (1 - terminated).

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype, or what `compute_reward` of `her`
                returned is not one number for each goal.
            NonFiniteError: what it returned is NaN or infinite.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the given indices, uint64 `[n]`, as `sample` returns them.

        Raises:
            StaleIndexError: one was overwritten or never written.
            CheckpointError: of a buffer on disk: a row there is damaged; names the file and byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of the
        rows with the given indices, `[n]`; of an index given twice the last value stays.

        Returns:
            How many rows were overwritten in the meantime, or are padding (2**64 - 1, which is
            -1 as int64), and were passed over.

        Raises StaleIndexError if one was never written, or a `load` or `restore` forgot it; nothing
        is changed then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever its
        flags say: n-step windows and goals do not join it to what is pushed next. For an
        environment that died and was replaced.
        """

    def clear(self) -> None:
        """Forgets every transition; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned, in a buffer of the same columns, capacity and number
        of environments (and alpha): the same rows, indices, draws and priorities.

        Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may share.

        Rows that are in a segment there already are only listed, so a save costs what came since
        the last one (after an `update` the records of all rows, without observations); segments
        that no saved buffer lists are removed. After the call the save outlasts a power cut;
        killed before that, the earlier save of that name stays.

        Returns:
            Bytes written for rows.

        Raises:
            StorageError: the disk refuses, or another process is writing there.
            ConfigError: `name` is not of letters, digits, `_` and `-`, or is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from what a buffer of the same columns and size (and alpha) saved: the same
        rows, indices, draws and priorities. In the folder of a `MmapReplayBuffer` the name `newest`
        is what a reopening finds.

        Raises:
            CheckpointError: a file is damaged (named, with the byte), missing, or of a buffer of
                another layout. Nothing is changed then.
        """

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records and whole blocks of observations though
        memory is taken as it is first written.
        """

@final
class SequenceReplayBuffer:
    """A ring of transitions, sampled as windows of consecutive ones.

    Storage, `push`, `push_batch`, `gather`, `update` and thread safety are those of
    `ReplayBuffer`; only `sample` differs.

    Args:
        capacity: transitions held over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        n_envs: environments pushed side by side.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
            i-th batch.
        cross_episodes: windows may go on into the next episode of the same environment, where
            `is_first` is set; by default they never do.
        obs_shape: and the other keywords, as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        """A buffer for the observations and actions of Gymnasium spaces; Discrete actions are
        `(1,)` of the space's dtype. Other keywords are those of the constructor that no space says.

        Raises UnsupportedSpaceError for spaces whose elements are no arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, every argument with a
        leading axis `[n_envs]`.

        Args:
            obs: the observation acted on, in the declared shape (or any with as many elements if
                that is flat), or a mapping for dict observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal: its value is 0.
            truncated: whether the episode was cut short: the state reached has a value.
            next_obs: what the step led to, the last observation of the episode where one ended.
                Left out, it is the next `obs` pushed for the same environment (until then, and
                where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array of another shape, or a number that the column cannot hold.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: it refuses a segment and memory has no room to wait.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment, oldest first, each array with a leading
        axis `[n]`; otherwise as `push`.

        Args:
            env_ids: the environment of each row, `[n]`, the rows of one environment in time order;
                without it all are of environment 0.

        Raises:
            ShapeError, StorageError: as `push`; rows before a refused segment are stored.
        """

    def sample(self, batch_size: int, seq_len: int, seed: int | None=None, *, n_batches: int | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws windows of `seq_len` consecutive transitions of one environment, with replacement.

        Uniform over all places where a whole window fits into its episode, which ends at the
        newest transition if it still runs and begins at the oldest held. An episode shorter than
        `seq_len` has one place, its first transition, and its window is padded with zeros.

        Args:
            batch_size: windows per batch, B.
            seq_len: transitions per window, L.
            seed: as for `ReplayBuffer.sample`.
            n_batches: as for `ReplayBuffer.sample`.
            out: as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with leading axes `[B, L]`, and bool `[B, L]`
            `is_first`, where an episode begins (not merely a window), and `mask`, False where the
            window is padding, whose `indices` are 2**64 - 1.

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the given indices, uint64 `[n]`, as `sample` returns them.

        Raises:
            StaleIndexError: one was overwritten or never written.
            CheckpointError: of a buffer on disk: a row there is damaged; names the file and byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of the
        rows with the given indices, `[n]`; of an index given twice the last value stays.

        Returns:
            How many rows were overwritten in the meantime, or are padding (2**64 - 1, which is
            -1 as int64), and were passed over.

        Raises StaleIndexError if one was never written, or a `load` or `restore` forgot it; nothing
        is changed then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever its
        flags say: n-step windows and goals do not join it to what is pushed next. For an
        environment that died and was replaced.
        """

    def clear(self) -> None:
        """Forgets every transition; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned, in a buffer of the same columns, capacity and number
        of environments (and alpha): the same rows, indices, draws and priorities.

        Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may share.

        Rows that are in a segment there already are only listed, so a save costs what came since
        the last one (after an `update` the records of all rows, without observations); segments
        that no saved buffer lists are removed. After the call the save outlasts a power cut;
        killed before that, the earlier save of that name stays.

        Returns:
            Bytes written for rows.

        Raises:
            StorageError: the disk refuses, or another process is writing there.
            ConfigError: `name` is not of letters, digits, `_` and `-`, or is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from what a buffer of the same columns and size (and alpha) saved: the same
        rows, indices, draws and priorities. In the folder of a `MmapReplayBuffer` the name `newest`
        is what a reopening finds.

        Raises:
            CheckpointError: a file is damaged (named, with the byte), missing, or of a buffer of
                another layout. Nothing is changed then.
        """

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records and whole blocks of observations though
        memory is taken as it is first written.
        """

@final
class MmapReplayBuffer:
    """A ring of transitions whose newer part is in memory and whose older part is on disk.

    `cold_path` becomes a folder of immutable segments, every row under a checksum and read by
    position (not through a mapping: a file that is cut short is an error, never a signal). One
    process at a time may use it. Rows that an earlier buffer of the same columns and `n_envs`
    sealed there are taken over, also if its process was killed; `reopen=False` refuses them.

    Rows are sealed in segments of 1/256 of `total_capacity` or 1 MiB (at most a third of
    `hot_capacity`); `n_unsealed` newest rows would be lost with the process, `flush` seals them. An
    observation is stored once, uint8 stays uint8, frames of stacks are shared, as in
    `ReplayBuffer`; from the same pushes and seed both sample the same rows.

    Args:
        hot_capacity: transitions kept in memory at least (2/256 of `total_capacity` if that is
            more).
        total_capacity: transitions held in all, fewer than 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        cold_path: the folder.
        n_envs: environments pushed side by side.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
            i-th batch.
        reopen: take over rows that are there.
        obs_shape: and the other keywords, as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        StorageError: the disk refuses, another buffer uses the folder, or it has rows and
            `reopen` is False.
        CheckpointError: what is there is damaged (the file and byte are named) or of other columns.
    """

    def __new__(cls, hot_capacity: int, total_capacity: int, obs_dim: int | None=None, act_dim: int | None=None, cold_path: str | PathLike[str] | None=None, *, n_envs: int=1, seed: int=0, reopen: bool=True, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> MmapReplayBuffer:
        ...

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, every argument with a
        leading axis `[n_envs]`.

        Args:
            obs: the observation acted on, in the declared shape (or any with as many elements if
                that is flat), or a mapping for dict observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal: its value is 0.
            truncated: whether the episode was cut short: the state reached has a value.
            next_obs: what the step led to, the last observation of the episode where one ended.
                Left out, it is the next `obs` pushed for the same environment (until then, and
                where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array of another shape, or a number that the column cannot hold.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: it refuses a segment and memory has no room to wait.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment, oldest first, each array with a leading
        axis `[n]`; otherwise as `push`.

        Args:
            env_ids: the environment of each row, `[n]`, the rows of one environment in time order;
                without it all are of environment 0.

        Raises:
            ShapeError, StorageError: as `push`; rows before a refused segment are stored.
        """

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement, from memory and disk; as
        `ReplayBuffer.sample` without `her`. An n-step window does not go on over a reopening.

        Raises:
            ConfigError: the buffer is empty or closed, or a setting is out of range.
            CheckpointError: a row on disk is damaged; names the file and byte.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the given indices, uint64 `[n]`, as `sample` returns them.

        Raises:
            StaleIndexError: one was overwritten or never written.
            CheckpointError: of a buffer on disk: a row there is damaged; names the file and byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column of rows that are not sealed on disk yet, given by
        their indices, `[n]`; otherwise as `ReplayBuffer.update`.

        Segments never change: a value written over a sealed row would be lost when the row leaves
        memory, so that is refused. Only rows pushed since the last segment was sealed can be updated;
        a newest row that waits for its next observation counts in `n_unsealed` though it is sealed.

        Returns:
            How many rows left the ring in the meantime, or are padding, and were passed over.

        Raises ConfigError if one of the rows is sealed, StaleIndexError if one was never written; nothing
        is written then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever its
        flags say: n-step windows and goals do not join it to what is pushed next. For an
        environment that died and was replaced.
        """

    def flush(self) -> None:
        """Seals the rows that are only in memory, so that they outlast the process. The newest row of
        an environment is left out while its next observation is not known.
        """

    def close(self, keep: bool=False) -> None:
        """Ends the buffer and removes its files but for what saves need; with `keep` every row is
        sealed and the files stay for a later buffer. Closing twice is allowed.

        A buffer that is dropped without `close` leaves what was sealed.
        """

    def save(self, name: str='last') -> None:
        """Saves the state exactly, running episodes and draws included, as `name` beside the rows,
        which are sealed and kept as long as that save.
        """

    def load(self, name: str='last') -> None:
        """Goes on from the state saved as `name`; rows pushed since are forgotten.

        Raises CheckpointError for files that are damaged or missing; nothing is changed then.
        """

    def verify(self) -> None:
        """Reads and checks every sealed row; raises CheckpointError at the first damaged one."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_hot(self) -> int:
        """Transitions in memory."""

    @property
    def n_unsealed(self) -> int:
        """Newest transitions that would be lost if the process died now."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for transitions."""

    @property
    def disk_bytes(self) -> int:
        """Bytes of the segments on disk."""

@final
class OfflineDatasetBuffer:
    """A dataset of transitions for offline learning: built once, then read only.

    Rows are in time order, episode after episode; `terminated` or `truncated` ends an episode.
    Rows after the last end are one more, incomplete, episode, sampled from and counted like the
    others. A `next_obs` that equals the next row's `obs` is stored once.

    Args:
        obs: `[n, ...]`, or flat, `[n * obs_dim]`, of any dtype of a column; float16 becomes
            float32, uint32 and uint64 int64.
        next_obs: as `obs`; the last observation of the episode where one ends.
        actions: `[n, ...]`, `[n]` or flat, `[n * act_dim]`.
        rewards: `[n]`, which says how many rows there are.
        terminated: `[n]`, whether the state reached is terminal.
        truncated: `[n]`, whether the episode was cut short.
        normalize: standardise float observations by the dataset's mean and population standard
            deviation of each element (elements with a deviation below 1e-6 are only centred);
            `stats` has both, `normalize` and `denormalize` convert others.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)`.

    Raises:
        ShapeError: arrays that do not fit together. NonFiniteError: NaN or infinity in
        observations, actions, rewards or flags, or observations beyond about 1e150. ConfigError: no rows.
    """

    def __new__(cls, obs: ArrayLike, next_obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, normalize: bool=False, *, seed: int=0) -> OfflineDatasetBuffer:
        ...

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: the same seed gives the same batch; without one the dataset's own draws go on.
            n_batches: several batches in one call; every array then has a leading axis.
            out: a dict that an earlier call of the same sizes returned, to be filled in place.

        Returns:
            A dict: `obs` and `next_obs` `[B, ...]` (normalised if asked for), `actions`
            `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, `indices`
            uint64 `[B]`, the rows of the dataset.

        Raises:
            ConfigError: a setting is out of range.
        """

    def sample_trajectories(self, batch_size: int, seq_len: int, seed: int | None=None) -> dict[str, NDArray[Any]]:
        """Draws stretches of episodes, as the Decision Transformer trains on (Chen et al. 2021).

        The first row of each is uniform over the dataset; a stretch ends with its episode and is
        padded at its end with zeros, where `mask` is False.

        Args:
            batch_size: stretches, B.
            seq_len: rows of each with padding, L.
            seed: as for `sample`.

        Returns:
            A dict: `obs` `[B, L, ...]`, `actions` `[B, L, act_dim]`, `rewards` `[B, L]`,
            `returns_to_go` `[B, L]` (undiscounted sum of the rewards from that row to the end of
            its episode, summed in float64), `timesteps` int64 `[B, L]` (steps of the episode
            before that row), `mask` bool `[B, L]`.

        Raises:
            ConfigError: a setting is out of range.
        """

    def stats(self) -> dict[str, Any]:
        """What the dataset consists of.

        Returns:
            A dict: `n_transitions`, `n_episodes` (the incomplete one at the end included),
            `n_complete_episodes`, `obs_dim` and `act_dim` (numbers per row), `mean_return`,
            `std_return` (population), `min_return`, `max_return` (undiscounted),
            `mean_episode_length`, and for float observations `obs_mean` and `obs_std`
            (population), float64 in the shape of an observation, of `obs` as passed in.
        """

    def n_episodes(self) -> int:
        """Number of episodes, the incomplete one at the end included."""

    def normalize(self, obs: ArrayLike) -> NDArray[Any]:
        """(obs - mean) / std of the dataset, for observations from elsewhere, `[..., *obs]`, in their
        precision. Elements whose std is below 1e-6 are only centred.

        Raises ConfigError for a dataset without float observations.
        """

    def denormalize(self, obs: ArrayLike) -> NDArray[Any]:
        """obs * std + mean of the dataset, the inverse of `normalize`.

        Raises ConfigError for a dataset without float observations.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the dataset and its draws as `name` in the folder `path`, which other saves and
        buffers may share; otherwise as `ReplayBuffer.save`. Rows are written by the first save into
        a folder and only listed by the others.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from what a dataset of the same columns and number of rows saved, both with
        `normalize` or both without: the same rows, moments and draws.

        Raises:
            CheckpointError: a file is damaged (named, with the byte), missing, or of another
                layout. Nothing is changed then.
        """

    @property
    def normalized(self) -> bool:
        """Whether sampled observations are normalised."""

    def __len__(self) -> int:
        ...

@final
class PrioritizedReplayBuffer:
    """A ring of transitions, sampled with probability proportional to priority^alpha.

    Slot i is drawn with P(i) = p_i / sum of p, p_i = priority^alpha (0^0 = 1), and has the weight
    (N P(i))^-beta divided by the largest weight of any transition held (Schaul et al. 2016,
    equation 1 and section 3.4). A batch is stratified: one draw in each of B equal parts of the
    sum (appendix B.2.1). Storage, columns and thread safety are those of `ReplayBuffer`.

    Args:
        capacity: transitions held over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        alpha: priority exponent in [0, 1]: 0 is uniform, 1 fully prioritized.
        beta: exponent of the importance weights in [0, 1].
        n_envs: environments pushed side by side.
        seed: as for `ReplayBuffer`.
        stratified: False draws independently instead.
        obs_shape: and the other keywords, as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, alpha: float=0.6, beta: float=0.4, *, n_envs: int=1, seed: int=0, stratified: bool=True, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, alpha: float=0.6, beta: float=0.4, n_envs: int=1, seed: int=0, stratified: bool=True, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        """A buffer for the observations and actions of Gymnasium spaces; Discrete actions are
        `(1,)` of the space's dtype. Other keywords are those of the constructor that no space says.

        Raises UnsupportedSpaceError for spaces whose elements are no arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priority: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push`, with a priority in [0, 1e100]; without one the largest seen so
        far, 1 at first. With `n_envs > 1` priorities are `[n_envs]`.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priorities: ArrayLike | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push_batch`, with priorities, `[n]`, as in `push`."""

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions with probability proportional to priority^alpha, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: and the other arguments, as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with `weights`, float32 `[B]`, in [0, 1]: 0 only where float32 has
            no smaller number.

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the given indices, uint64 `[n]`, as `sample` returns them.

        Raises:
            StaleIndexError: one was overwritten or never written.
            CheckpointError: of a buffer on disk: a row there is damaged; names the file and byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of the
        rows with the given indices, `[n]`; of an index given twice the last value stays.

        Returns:
            How many rows were overwritten in the meantime, or are padding (2**64 - 1, which is
            -1 as int64), and were passed over.

        Raises StaleIndexError if one was never written, or a `load` or `restore` forgot it; nothing
        is changed then.
        """

    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> int:
        """Sets the priorities, `[n]`, of the rows with the given indices, `[n]`: new absolute TD
        errors plus a small constant. Of an index given twice the last priority stays.

        Returns:
            How many rows were overwritten in the meantime, or are padding, and were passed over.

        Raises, with nothing changed:
            ConfigError: a priority is negative or above 1e100.
            NonFiniteError: a priority is NaN or infinite.
            StaleIndexError: a row was never written, or a `load` forgot it.
            ShapeError: the lengths differ.
        """

    def set_beta(self, beta: float) -> None:
        """Replaces beta, in [0, 1]."""

    @property
    def alpha(self) -> float:
        """Exponent of the priorities."""

    @property
    def beta(self) -> float:
        """Exponent of the importance weights."""

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever its
        flags say: n-step windows and goals do not join it to what is pushed next. For an
        environment that died and was replaced.
        """

    def clear(self) -> None:
        """Forgets every transition; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned, in a buffer of the same columns, capacity and number
        of environments (and alpha): the same rows, indices, draws and priorities.

        Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may share.

        Rows that are in a segment there already are only listed, so a save costs what came since
        the last one (after an `update` the records of all rows, without observations); segments
        that no saved buffer lists are removed. After the call the save outlasts a power cut;
        killed before that, the earlier save of that name stays.

        Returns:
            Bytes written for rows.

        Raises:
            StorageError: the disk refuses, or another process is writing there.
            ConfigError: `name` is not of letters, digits, `_` and `-`, or is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from what a buffer of the same columns and size (and alpha) saved: the same
        rows, indices, draws and priorities. In the folder of a `MmapReplayBuffer` the name `newest`
        is what a reopening finds.

        Raises:
            CheckpointError: a file is damaged (named, with the byte), missing, or of a buffer of
                another layout. Nothing is changed then.
        """

    @property
    def max_priority(self) -> float:
        """The priority of a row that is pushed without one: the largest so far, 1 at first."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records and whole blocks of observations though
        memory is taken as it is first written.
        """

@final
class Stream:
    """A random stream keyed by (seed, name, index), with a position that can be saved.

    The draws depend on the key and the position only: adding a stream never shifts another.

    Args:
        seed: the run's seed, 0 to 2**64 - 1.
        name: what the stream is for, such as "env".
        index: which of several streams of that name, such as the number of an environment.

    Raises:
        ConfigError: seed or index is not an integer in range.
    """

    def __new__(cls, seed: int, name: str, index: int=0) -> Stream:
        ...

    def uniform(self, n: int) -> NDArray[np.float64]:
        """`n` uniform numbers in [0, 1) with 53 random bits each, float64 `[n]`.

        Each advances the position by 2. Raises ConfigError if `n` is not in 0..2**28.
        """

    def normal(self, n: int) -> NDArray[np.float64]:
        """`n` standard normal numbers, float64 `[n]`: Box and Muller's cosine branch,
        sqrt(-2 ln(1 - u)) cos(2 pi v) with u, v the next two uniform numbers.

        Each advances the position by 4. Raises ConfigError if `n` is not in 0..2**28.
        """

    def standard_normal(self, n: int) -> NDArray[np.float32]:
        """`n` standard normal numbers, float32 `[n]`, by a mapping of their own, four times as fast as
        `normal`'s and the same on every platform: Wichura's AS 241 of uniform numbers of 52 bits,
        rounded from float64.

        Each advances the position by 2. Raises ConfigError if `n` is not in 0..2**28.
        """

    def permutation(self, n: int) -> NDArray[np.int64]:
        """0, ..., n - 1 in an order that all are equally likely (Fisher and Yates), int64 `[n]`.

        Raises ConfigError if `n` is not in 0..2**28.
        """

    def orthogonal(self, rows: int, columns: int) -> NDArray[np.float64]:
        """A random orthogonal matrix, float64 `[rows, columns]`: rows, or columns where they are fewer, are
        orthogonal and of length 1, and all such matrices equally likely (Saxe et al. 2014). By Gram and
        Schmidt's of standard normal numbers in fixed order: the same on every platform.

        Each of the `rows * columns` numbers advances the position by 2. Raises ConfigError for more than
        2**28 of them.
        """

    def next_u64(self) -> int:
        """The next 64 random bits as an integer; advances the position by 2."""

    @property
    def position(self) -> int:
        """Words of 32 bits drawn so far; assign a saved value to continue from there."""

    @position.setter
    def position(self, value: int) -> None:
        ...

@type_check_only
class _Step(TypedDict):
    obs: NDArray[np.float32]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_obs: NDArray[np.float32]
    final_mask: NDArray[np.bool_]

@disjoint_base
class NativeEnv:
    """The fixed facts of a native environment; made as a `VecEnv` or a `SingleEnv`."""

    @property
    def env_id(self) -> str:
        """Gymnasium's id of the environment."""

    @property
    def obs_dim(self) -> int:
        """Numbers per observation."""

    @property
    def state_dim(self) -> int:
        """Numbers in the state of one environment."""

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode is truncated."""

    @property
    def n_actions(self) -> int | None:
        """Number of actions of a Discrete space, None for Box."""

    @property
    def action_dim(self) -> int:
        """Numbers per action: 1 for Discrete."""

    @property
    def action_low(self) -> NDArray[np.float32] | None:
        """Lowest action, float32 `[action_dim]`, None for Discrete."""

    @property
    def action_high(self) -> NDArray[np.float32] | None:
        """Highest action, float32 `[action_dim]`, None for Discrete."""

    @property
    def observation_low(self) -> NDArray[np.float32]:
        """Lowest observation, float32 `[obs_dim]`, minus infinity where unbounded."""

    @property
    def observation_high(self) -> NDArray[np.float32]:
        """Highest observation, float32 `[obs_dim]`, infinity where unbounded."""

@type_check_only
class _SingleStep(TypedDict):
    obs: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool

@disjoint_base
class SingleEnv(NativeEnv):
    """One native environment: `reset` starts an episode, `step` advances it until it ends.

    Its episodes are those of row 0 of `VecEnv(1, seed, env_id)`; after the end of an episode
    `step` is an error until `reset` is called.

    Args:
        env_id: one of `native_env_ids()`.
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.

    Raises:
        UnknownNameError: `env_id` is not native; names the nearest.
        ConfigError: the seed is out of range.
    """

    def __new__(cls, env_id: str, seed: int=0) -> SingleEnv:
        ...

    def reset(self, seed: int | None=None) -> NDArray[np.float32]:
        """Starts an episode; returns its first observation, float32 `[obs_dim]`.

        Args:
            seed: start over as a new environment with this seed; None draws on.

        Raises ConfigError for a seed out of range.
        """

    def step(self, action: ArrayLike) -> _SingleStep:
        """Advances the episode by one action.

        Args:
            action: an integer for Discrete; for Box a number, or numbers `[action_dim]`, clipped
                to the bounds by the environment.

        Returns:
            A dict: `obs` float32 `[obs_dim]`, the observation the step reached; `reward` float;
            `terminated` and `truncated` bool. After one of them, call `reset()`.

        Raises:
            EnvError: no episode is running, or an action out of range.
            ShapeError: an action of the wrong kind or size.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state, float64 `[state_dim]`; between episodes that of the next one's start."""

    def set_state(self, state: ArrayLike, elapsed: int | None=None) -> None:
        """Replaces the state by finite numbers `[state_dim]`, and, unless None, the number of steps
        taken in the episode, which is below `max_episode_steps`. Starts an episode if none is running.

        Raises ShapeError, NonFiniteError or ConfigError for what does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """Everything needed to continue exactly here: the dict of `VecEnv.snapshot()` for one
        environment, and `episode`, 0 before the first, 1 while one is running, 2 after its end.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, made under any seed.

        Raises:
            CheckpointError: a field is missing, or of another environment or format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

@final
class Acrobot(SingleEnv):
    """One `Acrobot-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> Acrobot:
        ...

@final
class CartPole(SingleEnv):
    """One `CartPole-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> CartPole:
        ...

@final
class MountainCar(SingleEnv):
    """One `MountainCar-v0`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> MountainCar:
        ...

@final
class MountainCarContinuous(SingleEnv):
    """One `MountainCarContinuous-v0`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> MountainCarContinuous:
        ...

@final
class Pendulum(SingleEnv):
    """One `Pendulum-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> Pendulum:
        ...

@final
class VecEnv(NativeEnv):
    """`n` native environments stepped as one batch, with time limits and SAME_STEP autoreset.

    An environment whose episode ends starts its next one within the same step. Results depend
    on the seeds and the actions only, not on threads or on how many environments there are.
    Several threads may call one object: a call waits until the one before it has returned.

    Args:
        n: number of environments, 1 to 2**24.
        seed: environment i draws its episode starts from `Stream(seed, "env", i)`.
        env_id: one of `native_env_ids()`.
        seeds: explicit integers, `[n]`, instead of `seed`: environment i draws from
            `Stream(seeds[i], "env", 0)`, wherever it sits in the batch.
        shard: environments stepped together on one thread; never changes a result.
        parallel_from: number of environments from which threads share them; never changes a result.
        precision: "f64" steps as Gymnasium does; "f32" keeps and steps the state in float32, 1.3
            to 2.5 times as fast at 2,048 environments, with the deviation that is stated and tested
            for each environment.

    Raises:
        UnknownNameError: `env_id` is not native; names the nearest.
        ConfigError: `n`, a seed or `shard` is out of range, a `seed` other than 0 is given beside `seeds`, or `env_id` has no kernel of that
            precision.
        ShapeError: `seeds` has another length than `n`.
    """

    def __new__(cls, n: int, seed: int=0, env_id: str='CartPole-v1', *, seeds: Iterable[int] | None=None, shard: int=1024, parallel_from: int=16384, precision: str='f64') -> VecEnv:
        ...

    def reset_all(self) -> NDArray[np.float32]:
        """Starts a new episode in every environment; returns the observations, float32 `[n, obs_dim]`."""

    def observe_into(self, obs: NDArray[np.float32]) -> None:
        """Writes the current observations into `obs`, a C-contiguous float32 array `[n, obs_dim]`.

        Raises ShapeError if `obs` is anything else.
        """

    def step_all(self, actions: ArrayLike) -> _Step:
        """Steps every environment once.

        Args:
            actions: integers `[n]` for Discrete, numbers `[n, action_dim]` for Box (`[n]` will do
                if action_dim is 1); the environment clips to the bounds.

        Returns:
            A dict of fresh arrays: `obs` float32 `[n, obs_dim]`, the next episode's first where
            one ended; `rewards` float64 `[n]`; `terminated` and `truncated` bool `[n]`;
            `final_obs` float32 `[n, obs_dim]`, the observation each step reached: `obs`, except
            the ended episode's last where one ended; `final_mask` bool `[n]`, where one ended.

        Raises:
            ShapeError: a wrong number or dtype of actions.
            EnvError: an action out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def step_into(self, actions: ArrayLike, obs: NDArray[np.float32], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Steps every environment once, writing into arrays of the caller; allocates nothing else.

        Args:
            actions: as for `step_all`; int64 or float32 C-contiguous arrays are not copied.
            obs: float32 `[n, obs_dim]`.
            rewards: float64 `[n]`.
            terminated: bool `[n]`.
            truncated: bool `[n]`.

        Returns:
            None if no episode ended, else `(indices, final_obs)`: which environments, int64 `[k]`
            ascending, and their ended episodes' last observations, float32 `[k, obs_dim]`.

        Raises:
            ShapeError: an output is not C-contiguous, writeable, of that dtype and shape, or
                shares memory with another argument; or a wrong number or dtype of actions.
            EnvError: an action out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state of every environment, float64 `[n, state_dim]`."""

    def set_state(self, state: ArrayLike, elapsed: ArrayLike | None=None) -> None:
        """Replaces the state of every environment, rounded to float32 where that is what it is kept
        in (precision "f32", and MountainCarContinuous-v0 as in Gymnasium), streams and step counts staying as they are.

        Args:
            state: finite numbers `[n, state_dim]`.
            elapsed: steps already taken in each running episode, integers `[n]`, each below
                `max_episode_steps`; None keeps the present counts.

        Raises:
            ShapeError, NonFiniteError, ConfigError: what was given does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """Everything needed to continue exactly here, as a dict of arrays, integers and strings:
        `format`, `env_id`, `precision`, `n_envs`, `state`, `elapsed`, and each stream's `seeds`, `indices`
        and `positions`.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, precision and size, made under any seed.

        Raises:
            CheckpointError: a field is missing, or of another environment, precision, size or
                format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def precision(self) -> str:
        """What the environments are stepped in: "f64" or "f32"."""

@overload
def compute_gae(rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of one trajectory: advantages A_t and returns A_t + V(s_t), each `[T]`.

    A_t = delta_t + gamma lam (1 - end_t) A_{t+1},
    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).

    Two forms. `dones` are episode ends without bootstrap and `last_value` is V of the state after
    the last step. `terminated`, `truncated` and `next_values` treat time limits exactly:
    `next_values` is V of the state each step reached, the final observation's after truncation.

    Args:
        rewards: r_t, `[T]`.
        values: V(s_t), `[T]`.
        dones: episode ends after step t, `[T]`, bool or numbers.
        last_value: V(s_T); 0 if `next_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[T]`.
        truncated: the episode was cut after step t, `[T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[T]`; ignored where terminated.

    Returns:
        (advantages, returns): float32 if rewards and values are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae(rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

@overload
def compute_gae_batched(rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of N trajectories of T steps, flat in env-major order: env 0's T steps, then env 1's, ...

    As `compute_gae`, with arrays `[N * T]`.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be left out if `last_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each `[N * T]`: float32 if rewards and values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae_batched(rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_batched(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def compute_gae_batched_f32(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`compute_gae_batched` with rewards and values taken as float32, whatever their dtype.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be left out if `last_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each float32 `[N * T]`.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float32], values: NDArray[np.float32], next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.float32] | None=None, returns: NDArray[np.float32] | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of a `[T, N]` rollout, vectorised over the N environments.

    As `compute_gae`: either `next_values` with `terminated` and `truncated`, exact at time limits,
    or `last_values` with `dones`, where V(s_{t+1}) is the next row of `values`. float32 arrays are
    summed in float32, whose error grows with 1 / (1 - gamma lam): some 1e-6 of the largest value.

    Args:
        rewards: r_t, `[T, N]`.
        values: V(s_t), `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, `[T, N]`: the final observation's
            after truncation; ignored after termination.
        terminated: s_{t+1} is terminal, `[T, N]`.
        truncated: the episode was cut after step t, `[T, N]`; needs `next_values`.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        dones: episode ends after step t, `[T, N]`, bool or numbers; instead of the two above.
        last_values: V of the state after the last step of each env, `[N]`; instead of
            `next_values`.
        advantages: where to write A_t; C-contiguous, of the result's dtype and shape.
        returns: where to write A_t + V(s_t); likewise.

    Returns:
        (advantages, returns), each `[T, N]`: the arrays passed in or fresh ones; float32 if
        rewards and values are, else float64.

    Raises:
        ShapeError: an array has another shape, an output another dtype or layout, or memory is
            shared between an output and another argument.
        ConfigError: gamma or lam out of range, or contradicting arguments.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float64], values: ArrayLike, next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.float64] | None=None, returns: NDArray[np.float64] | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_time_major(rewards: ArrayLike, values: ArrayLike, next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.floating[Any]] | None=None, returns: NDArray[np.floating[Any]] | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

@overload
def compute_group_advantages(rewards: NDArray[_Float], *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[_Float]:
    """Advantages of one group of completions: each reward relative to the group's.

    (r - mean) / (std + eps), as in GRPO (Shao et al. 2024). A group whose population standard
    deviation is not above 4 units of rounding of its first reward has no spread; its advantages are
    exactly 0, as are those divided by a standard deviation of at most `ddof` rewards. TRL 1.16 takes
    `ddof=1, eps=1e-4`, and divides the rounding error of a group without spread by 1e-4.

    Args:
        rewards: one per completion, `[G]`, finite.
        scale: "group" divides by the standard deviation; "none" does not (Dr. GRPO, Liu et al.
            2025); "batch" is "group", since one group is the batch.
        ddof: the standard deviation divides by G - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        `[G]`: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards is not `[G]` or not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: ddof or eps is out of range.
        UnknownNameError: no such scale.
    """

@overload
def compute_group_advantages(rewards: ArrayLike, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_batch_group_advantages(rewards: NDArray[_Float], group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[_Float]:
    """Advantages of several groups of the same number of completions.

    As `compute_group_advantages`, group by group. `scale="batch"` centres by group and divides by the
    standard deviation of all rewards of the batch, groups not told apart, as TRL does with
    `scale_rewards="batch"`; TRL's numbers take `ddof=1, eps=1e-4`.

    Args:
        rewards: group after group, `[n_groups * group_size]` or `[n_groups, group_size]`, finite.
        group_size: completions per group; may be left out if rewards is `[n_groups, group_size]`.
        scale: "group", "batch" or "none".
        ddof: a standard deviation over n rewards divides by n - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        of the shape of rewards: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards has another shape or is not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: group_size, ddof or eps is out of range.
        UnknownNameError: no such scale.
    """

@overload
def compute_batch_group_advantages(rewards: ArrayLike, group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

def compute_token_kl(log_p: ArrayLike, log_q: ArrayLike, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """KL(p || q) of one sequence from per-token log-probabilities.

    With d = log q - log p, each token contributes by `estimator`:

    - "exact": p (log p - log q); the sum is KL(p || q) itself where the arrays list a whole
      distribution. 0 where log p < -708 (float32: -87), -inf included, whatever log q is.
    - "k1": -d, for tokens sampled from p; unbiased, of either sign.
    - "k2": d^2 / 2, for tokens sampled from p; biased, never negative.
    - "k3": e^d - d - 1, for tokens sampled from p; unbiased, never negative (Schulman 2020).
      Within 16 units of rounding for d as rounded, near 0 too; inf for d > 709 (float32: 88) and -inf.

    NaN gives NaN; so does, unless "exact", log p = log q = -inf. Terms are computed in float32 if
    both arrays are float32 and always added in float64, in an order that depends on T only.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, `[T]`, bool or 0 and 1; what is elsewhere, NaN included, never
            matters. None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 if none does.

    Returns:
        a float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask holds another number than 0 and 1.
        UnknownNameError: no such estimator or reduction.
    """

def compute_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """The k3 estimate of KL(p || q) of one sequence: `compute_token_kl` with `estimator="k3"`.

    The sum of e^d - d - 1 with d = log q - log p, p the policy and q the reference, for tokens
    sampled from p (Schulman 2020, "Approximating KL divergence"; the sign of TRL). Never negative.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        mask: which tokens count, `[T]`, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 if none does.

    Returns:
        a float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask holds another number than 0 and 1.
        UnknownNameError: no such reduction.
    """

@overload
def compute_batch_token_kl(log_p: NDArray[_Float], log_q: NDArray[_Float], seq_len: int | None=None, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[_Float]:
    """KL(p || q) of each of B sequences of the same number of tokens.

    As `compute_token_kl`, one value per sequence.

    Args:
        log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
        log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
        seq_len: T; may be left out if log_p is `[B, T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence of which none does.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask holds another number than 0 and 1.
        UnknownNameError: no such estimator or reduction.
    """

@overload
def compute_batch_token_kl(log_p: ArrayLike, log_q: ArrayLike, seq_len: int | None=None, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_batch_token_kl_schulman(log_p: NDArray[_Float], log_q: NDArray[_Float], seq_len: int | None=None, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[_Float]:
    """The k3 estimate of KL(p || q) of each of B sequences: `compute_batch_token_kl` with
    `estimator="k3"`.

    Args:
        log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
        log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
        seq_len: T; may be left out if log_p is `[B, T]`.
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence of which none does.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask holds another number than 0 and 1.
        UnknownNameError: no such reduction.
    """

@overload
def compute_batch_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, seq_len: int | None=None, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[np.floating[Any]]:
    ...

def pack_sequences(lengths: ArrayLike, max_len: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Assigns sequences to rows of `max_len` tokens, first-fit-decreasing (Johnson 1974).

    Longest first, sequences of one length in their given order, each into the first row that has
    room: at most 11/9 of the fewest rows possible, plus one. O(n log n) for n sequences.

    Args:
        lengths: tokens of each sequence, integers in 1..=max_len, `[n]`.
        max_len: tokens of a row, at least 1.

    Returns:
        (packed, masks, positions), each `[n_bins, max_len]`: packed int64 is the index into lengths
        of the sequence that a token belongs to, or -1 for padding; masks bool is True where there is
        a token; positions int64 counts from 0 within each sequence, and is 0 for padding.

    Raises:
        ShapeError: lengths is not `[n]` or not of integers.
        ConfigError: a length, named by its index, or max_len is out of range, or the rows would have
            2**31 tokens or more.
    """

@type_check_only
class _PackedTokens(TypedDict):
    tokens: NDArray[np.int64]
    packed: NDArray[np.int64]
    masks: NDArray[np.bool_]
    positions: NDArray[np.int64]
    cu_seqlens: NDArray[np.int32]
    order: NDArray[np.int64]

def pack_tokens(sequences: Iterable[ArrayLike], max_len: int, *, pad_token_id: int=0) -> _PackedTokens:
    """Lays sequences of tokens side by side in rows of `max_len`, as `pack_sequences` assigns them.

    Args:
        sequences: token ids of each sequence, 1 to max_len integers.
        max_len: tokens of a row, at least 1.
        pad_token_id: the token where a row has no more sequences.

    Returns:
        dict with `packed`, `masks`, `positions` of `pack_sequences`, and
        tokens: int64 `[n_bins, max_len]`;
        cu_seqlens: int32 `[n + 1]`, where each sequence begins in `tokens[masks]`, the rows without
        padding, and at last the number of tokens, as variable-length attention kernels take it;
        order: int64 `[n]`, the index of the sequence between cu_seqlens[i] and cu_seqlens[i + 1].

    Raises:
        ShapeError: a sequence is not one-dimensional or not of integers.
        ConfigError: a sequence, named by its index, is empty or too long, a token or max_len is out
            of range, or the rows would have 2**31 tokens or more.
    """

def unpack_sequences(values: Any, packed: ArrayLike) -> list[Any]:
    """The values of each sequence, cut out of rows: undoes `pack_tokens` and anything computed on it.

    Args:
        values: tokens, or what was computed for each of them: an array or a tensor
            `[n_bins, max_len, ...]` of any dtype.
        packed: which sequence each token belongs to, as `pack_sequences` returns it, int64
            `[n_bins, max_len]`.

    Returns:
        list of `[length, ...]` in the order in which the sequences were packed: views of values, so
        gradients flow through them.

    Raises:
        ShapeError: values does not begin with the shape of packed, or has no shape.
        ConfigError: packed has a sequence in two pieces, or leaves one out.
    """

@final
class DPOPair:
    """A prompt with a preferred and a dispreferred completion, for DPO (Rafailov et al. 2023).

    Immutable; pairs with the same tokens are equal.

    Args:
        prompt_tokens: token ids in 0..2**32, `[P]`; may be empty.
        chosen_tokens: the preferred completion's, `[C]`, at least one.
        rejected_tokens: the dispreferred completion's, `[R]`, at least one.

    Raises:
        ShapeError: tokens are not one-dimensional or not integers, or a completion is empty.
        ConfigError: a token id is out of range.
    """

    def __new__(cls, prompt_tokens: ArrayLike, chosen_tokens: ArrayLike, rejected_tokens: ArrayLike) -> DPOPair:
        ...

    def prompt_len(self) -> int:
        """Number of tokens of the prompt."""

    def chosen_len(self) -> int:
        """Number of tokens of the preferred completion."""

    def rejected_len(self) -> int:
        """Number of tokens of the dispreferred completion."""

    @property
    def prompt_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the prompt, a new uint32 `[P]`."""

    @property
    def chosen_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the preferred completion, a new uint32 `[C]`."""

    @property
    def rejected_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the dispreferred completion, a new uint32 `[R]`."""

    def chosen_ids(self) -> NDArray[np.uint32]:
        """Prompt and preferred completion, a new uint32 `[P + C]`."""

    def rejected_ids(self) -> NDArray[np.uint32]:
        """Prompt and dispreferred completion, a new uint32 `[P + R]`."""

    def chosen_mask(self) -> NDArray[np.bool_]:
        """Which of `chosen_ids()` are the completion's and enter a loss, bool `[P + C]`."""

    def rejected_mask(self) -> NDArray[np.bool_]:
        """Which of `rejected_ids()` are the completion's and enter a loss, bool `[P + R]`."""

    def __eq__(self, other: object, /) -> bool:
        ...

    def __ne__(self, other: object, /) -> bool:
        ...

    def __hash__(self) -> int:
        ...

@overload
def compute_lambda_returns(rewards: NDArray[np.float32], next_values: NDArray[np.float32], gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float32]:
    """lambda-returns G_t = r_t + gamma ((1 - lam) V(s_{t+1}) + lam G_{t+1}).

    After termination both values are 0; after truncation and the last step G_{t+1} is V(s_{t+1}).
    Equal to GAE's advantages plus V(s_t) where V(s_{t+1}) is the next step's value. Sources: Sutton
    and Barto 2018, eq. 12.3; the recursion is eq. 6 of Hafner et al. 2020 (Dreamer). A NaN spoils
    its step and those before it in the same episode.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; ignored after
            termination.
        gamma: discount in [0, 1].
        lam: weight of longer returns in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_lambda_returns(rewards: NDArray[np.float64], next_values: ArrayLike, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float64]:
    ...

@overload
def compute_lambda_returns(rewards: ArrayLike, next_values: ArrayLike, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_n_step_returns(rewards: NDArray[np.float32], next_values: NDArray[np.float32], n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float32]:
    """n-step returns G_t = r_t + ... + gamma^(m-1) r_{t+m-1} + gamma^m V(s_{t+m}).

    m is n, or fewer where the episode or the array ends first: a window never crosses the end of an
    episode. V(s_{t+m}) is the value of the state the window's last step reached: 0 after
    termination, the final observation's after truncation. Source: Sutton and Barto 2018, eq. 7.1.
    Takes time proportional to T, whatever n is. A NaN spoils the windows that hold it.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; ignored after
            termination.
        n: rewards in a window, at least 1.
        gamma: discount in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: n or gamma out of range, or contradicting arguments.
    """

@overload
def compute_n_step_returns(rewards: NDArray[np.float64], next_values: ArrayLike, n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float64]:
    ...

@overload
def compute_n_step_returns(rewards: ArrayLike, next_values: ArrayLike, n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_vtrace(log_rhos: NDArray[np.float32], rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """V-trace targets and policy-gradient advantages of off-policy steps.

    With rho_t = min(rho_bar, exp(log_rho_t)) and c_t = lam min(c_bar, exp(log_rho_t)):
    delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t)), vs_t = V(s_t) + delta_t +
    gamma c_t (vs_{t+1} - V(s_{t+1})), pg_t = rho_t (r_t + gamma vs_{t+1} - V(s_t)).
    Nothing follows a termination; after a truncation and after the last step vs_{t+1} is
    V(s_{t+1}). Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2, lambda as in remark 2.

    Two forms, as in `compute_gae`: `dones` and `bootstrap_value`, or `terminated`, `truncated` and
    `next_values`. A NaN spoils its step and those before it in the same episode; nothing beyond an
    end is read. An infinite ratio that is not clipped gives infinities or NaN likewise.

    Args:
        log_rhos: log of target over behaviour probability of the actions, `[T]` or `[T, N]`.
        rewards: r_t, `[T]` or `[T, N]`.
        values: V(s_t), likewise.
        dones: episode ends after step t, likewise, bool or numbers.
        bootstrap_value: V of the state after the last step, a number for `[T]`, else `[N]`.
        gamma: discount in [0, 1].
        rho_bar: largest ratio in delta and pg, at least 0; may be infinite.
        c_bar: largest ratio in the trace, at least 0; may be infinite.
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards; needs `next_values`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; instead of
            `bootstrap_value`; ignored where terminated.

    Returns:
        (vs, pg_advantages), each of the shape of rewards: float32 if log_rhos, rewards and values
        are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: a setting out of range, or contradicting arguments.
    """

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def explained_variance(values: ArrayLike, returns: ArrayLike) -> float:
    """1 - Var(R - V) / Var(R) of values V and returns R: 1 where V says all of R, 0 where it says no more than
    their mean, and where R does not vary.

    Args:
        values: V, `[n]`.
        returns: R, `[n]`.

    Raises:
        ShapeError: they differ in length.
    """

def native_env_ids() -> list[str]:
    """Ids of the native environments, in alphabetical order; each equals Gymnasium's step by step."""

def prune_replay(path: str | PathLike[str], keep: list[str]) -> int:
    """Removes every save of the folder `path` but those named in `keep`, and the segments that none
    of these lists; returns how many segments went.

    The rows that an `MmapReplayBuffer` left in the folder stay, whatever `keep` names.

    Raises:
        StorageError: there is no such folder, the disk refuses, or another process is writing there.
        CheckpointError: a save that is to be kept is not there or cannot be read; nothing is removed
            then.
    """

def num_threads() -> int:
    """How many threads of this process share long work of rlox; see `set_num_threads`."""

def set_num_threads(n: int | None=None) -> None:
    """Sets how many threads of this process share long work of rlox: large batches of environments,
    large batches from buffers, long arrays. No result depends on it.

    Before the first call it is the environment variable `RLOX_THREADS` (or `RAYON_NUM_THREADS`) if that
    is a number from 1 to 1024, else the number of CPUs that the process may use. A forked child has the
    setting of its parent and threads of its own.

    Args:
        n: 1 to 1024; with 1 everything runs on the calling thread. None is the default again.

    Raises ConfigError for a number out of range.
    """

def stream_seed(seed: int, name: str, index: int=0) -> int:
    """A 63-bit integer for seeding a foreign generator, such as a `torch.Generator`, from the same
    scheme: the first draw of `Stream(seed, name, index)` without its lowest bit.

    Raises:
        ConfigError: seed or index is not an integer in 0..2**64.
    """
