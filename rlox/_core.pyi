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
__all__ = ['Acrobot', 'CartPole', 'DPOPair', 'Explorer', 'HindsightConfig', 'Iteration', 'MmapReplayBuffer', 'MountainCar', 'MountainCarContinuous', 'NativeEnv', 'OffPolicyEngine', 'OfflineDatasetBuffer', 'OnPolicyEngine', 'Pendulum', 'PrioritizedReplayBuffer', 'ReplayBuffer', 'ReplayIteration', 'RolloutPolicy', 'RunningStats', 'RunningStatsVec', 'SequenceReplayBuffer', 'SingleEnv', 'Stream', 'VecEnv', 'compute_batch_group_advantages', 'compute_batch_token_kl', 'compute_batch_token_kl_schulman', 'compute_gae', 'compute_gae_batched', 'compute_gae_batched_f32', 'compute_gae_time_major', 'compute_group_advantages', 'compute_lambda_returns', 'compute_n_step_returns', 'compute_token_kl', 'compute_token_kl_schulman', 'compute_vtrace', 'explained_variance', 'native_env_ids', 'num_threads', 'pack_sequences', 'pack_tokens', 'prune_replay', 'set_num_threads', 'stream_seed', 'unpack_sequences']
_Float = TypeVar('_Float', np.float32, np.float64)

@final
class RunningStats:
    """Running count, mean and variance of numbers, in float64.

    Batches and other statistics are merged as in Chan, Golub and LeVeque 1983, so the result equals
    that of all numbers together up to rounding, and does not depend on threads. NaN and infinity
    are errors that leave the object unchanged.
    """

    def __new__(cls) -> RunningStats:
        ...

    def update(self, x: float) -> None:
        """Adds one number. Raises ShapeError for anything else, NonFiniteError for NaN and infinity."""

    def batch_update(self, xs: ArrayLike) -> None:
        """Adds numbers `[n]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStats) -> None:
        """Adds everything that was added to `other`. Raises ConfigError if the count would exceed 2**53."""

    def normalize(self, x: float, clip: float | None=None, eps: float=1e-08) -> float:
        """(x - mean) / sqrt(var + eps) of one number, clipped to [-clip, clip] if `clip` is not None.
        Raises ConfigError unless eps is positive and clip at least 0.
        """

    @overload
    def normalize_batch(self, xs: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """`normalize` of numbers `[n]`: float32 if `xs` is float32, else float64."""

    @overload
    def normalize_batch(self, xs: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    def reset(self) -> None:
        """Removes all numbers."""

    def state(self) -> dict[str, int | float]:
        """Format, count, mean and sum of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | float]) -> None:
        """Continues from the result of `state()`. Raises CheckpointError for anything else."""

    @property
    def count(self) -> int:
        """Number of numbers added."""

    @property
    def mean(self) -> float:
        """Mean of the numbers; 0 before the first."""

    @property
    def var(self) -> float:
        """Population variance of the numbers (divisor count); 1 before the first."""

    @property
    def std(self) -> float:
        """Square root of `var`."""

@final
class OnPolicyEngine:
    """Updates an actor and a critic without torch. Gradients, clipping and optimizer steps work on one
    vector of parameters, which belongs to the caller.

    Networks are multilayer perceptrons with the names and shapes of torch's modules
    (`actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ..., `critic. ...`, `log_std`).
    Each parameter begins at a multiple of 16 numbers of the vector, in the layout of
    `rlox.optim.FlatParameters`.

    Args:
        parameters: names and shapes in the order of the vector.
        kind: `choices` (a softmax), `numbers` (normal, `log_std` `[size]`) or `sde` (gSDE,
            `log_std` `[features, size]`).
        size: number of choices, or of numbers per action.
        obs_dim: numbers per observation.
        actor: widths of the actor's hidden layers.
        critic: widths of the critic's hidden layers.
        activation: `tanh`, `relu`, `elu` or `silu`.
        precision: `f32`, or `f64` for comparisons.

    Raises:
        UnknownNameError: a parameter or activation does not exist.
        ShapeError: a parameter has another shape.
        ConfigError: a kind or precision does not exist, or the parameters have more layers than the
            widths say.
    """

    def __new__(cls, parameters: Sequence[tuple[str, Sequence[int]]], *, kind: str, size: int, obs_dim: int, actor: Sequence[int], critic: Sequence[int], activation: str='tanh', precision: str='f32') -> OnPolicyEngine:
        ...

    def ppo(self, parameters: NDArray[np.floating[Any]], exp_avg: NDArray[np.floating[Any]], exp_avg_sq: NDArray[np.floating[Any]], steps: NDArray[np.int64], obs: ArrayLike, actions: ArrayLike, log_probs: ArrayLike, values: ArrayLike, advantages: ArrayLike, returns: ArrayLike, order: ArrayLike, *, batch_size: int, learning_rate: float, clip_eps: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, clip_vloss: bool=False, normalize_advantages: bool=True, target_kl: float | None=None, adam_eps: float=1e-05, mask: ArrayLike | None=None) -> dict[str, float]:
        """Learns from the rows of a rollout in minibatches, with one pass for each row of `order`.

        With the ratio r of new to old probabilities and the entropy H, it takes one step of Adam for
        each minibatch, along the gradient of E[-min(r A, clip(r, 1 - e, 1 + e) A)] + vf_coef
        E[(V - R)^2] - ent_coef E[H] (Schulman et al. 2017, eq. 9), clipped to `max_grad_norm`.

        Args:
            parameters: the parameter vector, changed in place, like the next two.
            exp_avg: Adam's first moments.
            exp_avg_sq: Adam's second moments.
            steps: number of Adam's steps so far, int64 `[1]`, updated in place, also if the call
                fails.
            obs: `[rows, obs_dim]`.
            actions: choices `[rows]`, or `[rows, size]`.
            log_probs: log probabilities under the policy that acted, `[rows]`.
            values: V(o) at the time of the action, `[rows]`.
            advantages: `[rows]`.
            returns: targets of V, `[rows]`.
            order: indices of rows, `[passes, n]`.
            batch_size: rows of a minibatch; the last of a pass may have fewer.
            learning_rate: Adam's step size; its betas are 0.9 and 0.999.
            clip_eps: e.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: largest norm of the gradient; None: no clipping.
            clip_vloss: clip the change of values to [-e, e].
            normalize_advantages: normalize the advantages of each minibatch.
            target_kl: the passes end at a minibatch whose KL estimate exceeds 1.5 times this value.
            adam_eps: Adam's epsilon.
            mask: which choices were allowed, `[rows, size]`.

        Returns:
            Means over the minibatches: `policy`, `value`, `entropy`, `total`, `approx_kl`,
            `clip_fraction`, `grad_norm` (before clipping); and counts: `epochs` (whole passes),
            `steps`, `samples`.

        Raises:
            ShapeError: an array has another shape, or an output has another precision than the
                engine.
            ConfigError: an action or a row does not exist, or the batch size is out of range.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    def a2c(self, parameters: NDArray[np.floating[Any]], first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]] | None, steps: NDArray[np.int64], obs: ArrayLike, actions: ArrayLike, advantages: ArrayLike, returns: ArrayLike, *, learning_rate: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, normalize_advantages: bool=False, alpha: float=0.99, eps: float=1e-05, tf_like: bool=False, mask: ArrayLike | None=None) -> dict[str, float]:
        """Takes one step along the gradient of -E[log pi(a | o) A] + vf_coef E[(V - R)^2] - ent_coef
        E[H] (Mnih et al. 2016, sec. 4) over all rows, clipped to `max_grad_norm`.

        Args:
            parameters: the parameter vector, changed in place, like the moments.
            first: RMSprop's running means of squared gradients (in TensorFlow's form they begin at
                1), or Adam's first moments.
            second: Adam's second moments; without them the optimizer is RMSprop.
            steps: number of steps so far, int64 `[1]`, updated in place, also if the call fails.
            obs: `[rows, obs_dim]`.
            actions: choices `[rows]`, or `[rows, size]`.
            advantages: `[rows]`.
            returns: targets of V, `[rows]`.
            learning_rate: the step size.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: largest norm of the gradient; None: no clipping.
            normalize_advantages: normalize the advantages over all rows.
            alpha: decay of RMSprop's running means.
            eps: epsilon of RMSprop or Adam; Adam's betas are 0.9 and 0.999.
            tf_like: put epsilon inside RMSprop's square root.
            mask: which choices were allowed, `[rows, size]`.

        Returns:
            `policy`, `value`, `entropy`, `total`, `grad_norm` (before clipping).

        Raises:
            ShapeError: an array has another shape, or an output has another precision than the
                engine.
            ConfigError: an action does not exist.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

    @property
    def gradient(self) -> NDArray[np.floating[Any]]:
        """A copy of the clipped gradient of the last minibatch's loss; zeros before the first
        minibatch.
        """

    def __len__(self) -> int:
        ...

@final
@final
@final
@final
@final
@final
class OffPolicyEngine:
    """Learns from batches of transitions without torch. Gradients, clipping and optimizer steps work on
    one vector of parameters for each network, which belongs to the caller.

    Parameters have the names and shapes of torch's modules. Each begins at a multiple of 16 numbers of
    its vector, in the layout of `rlox.optim.FlatParameters`.

    | algorithm | networks (parameters) | architecture |
    |---|---|---|
    | `dqn` (Mnih et al. 2015) | `q` (`q.0.weight` `[out, in]`, `q.0.bias`, `q.2.weight`, ...; dueling: `q.shared. ...`, `q.value. ...`, `q.advantage. ...`) | `hidden`, `dueling` |
    | `sac` (Haarnoja et al. 2018) | `actor` (`actor.0.weight`, ..., gives means and log standard deviations), `critic` (stacked: `weights.0` `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`, ...) | `members`, `actor`, `critic` |
    | `td3` (Fujimoto et al. 2018; also DDPG and TD3+BC) | `actor` (a tanh follows its output), `critic` | as `sac` |
    | `iql` (Kostrikov et al. 2022) | `actor` (gives means before a tanh; with `log_std` `[size]`), `critic`, `value` (`value.0.weight`, ...) | as `sac` |
    | `bc` (Pomerleau 1991) | `policy` (`net.0.weight`, ..., gives logits, or means with `log_std` `[size]`) | `hidden`, `gaussian` |

    Args:
        algorithm: its name in the table.
        parameters: names and shapes of each network's parameters, in the order of its vector.
        precision: `f32`, or `f64` for comparisons.
        architecture: `obs_dim`, numbers per observation; `size`, numbers per action or number of choices;
            `activation`, `tanh`, `relu`, `elu` or `silu`; and those of the table: `members`, number of
            critics; `hidden`, `actor`, `critic`, widths of hidden layers; `dueling`, compute value and
            advantage in separate streams (Wang et al. 2016); `gaussian`, outputs are means.

    Raises:
        UnknownNameError: an algorithm, activation, parameter or setting does not exist.
        ShapeError: a parameter has another shape.
        ConfigError: a precision does not exist, a setting or network is missing or of another type, or
            the parameters have more layers than the widths say.
    """

    def __new__(cls, algorithm: str, parameters: Mapping[str, Sequence[tuple[str, Sequence[int]]]], *, precision: str='f32', **architecture: int | bool | str | Sequence[int]) -> OffPolicyEngine:
        ...

    @property
    def vector_lengths(self) -> dict[str, int]:
        """Lengths of the vectors of the networks that learn, by name."""

    def learn(self, learned: Mapping[str, tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]]], targets: Mapping[str, NDArray[np.floating[Any]]], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], noise: ArrayLike | None=None, weights: ArrayLike | None=None, *, first: int=0, adam_eps: float=1e-08, **settings: float | bool | str | None) -> dict[str, float]:
        """Takes a step for each of k batches.

        | algorithm | loss, with y = R + gamma^m V'(s') and Q' of the target networks | settings |
        |---|---|---|
        | `dqn` | E[w loss(Q(s, a) - y)], V' = Q'(s', argmax Q'(s', .)) | `double`: the argmax is that of Q (van Hasselt et al. 2016); `loss`: `huber` (quadratic up to 1) or `mse` |
        | `sac` | sum_i E[w (Q_i(s, a) - y)^2] / 2, V' = min_i Q'_i(s', a') - alpha log pi(a' \\| s'); E[alpha log pi - min_i Q_i] of the actor; -log alpha E[log pi + H] of the temperature | `tau`, `target_update_interval`: batches per step of the targets; `alpha`, or `target_entropy` H if `temperature` is among the networks that learn |
        | `td3` | sum_i E[w (Q_i(s, a) - y)^2], V' = min_i Q'_i(s', clip(mu'(s') + clip(noise))); -E[Q_1(s, mu(s))] of the actor, every `policy_delay` batches, before the targets move; with `alpha` E[(mu(s) - a)^2] - alpha / E\\|Q_1\\| E[Q_1] (TD3+BC, Fujimoto & Gu 2021) | `tau`, `policy_delay`, `target_noise`: standard deviation, `noise_clip`, `alpha` (None) |
        | `iql` | u = min_i Q'_i(s, a) - V(s): E[\\|expectile - 1(u < 0)\\| u^2] of V; -E[min(e^(temperature u), max_weight) log pi(a \\| s)] of the actor; sum_i E[(Q_i(s, a) - y)^2], V' = V after its step | `actor_learning_rate`, `tau`, `expectile`, `temperature`, `max_weight` |
        | `bc` | -E[log pi(a \\| s)] | `squared`: E[(mean - a)^2] in its place |

        Every algorithm has the settings `learning_rate`, Adam's step size, and `max_grad_norm`, the largest
        norm of a network's gradient (None: no clipping). Adam's betas are 0.9 and 0.999. `tau` is the step
        size of the targets towards the networks.

        Args:
            learned: for each network that learns four arrays, changed in place: its vector, Adam's first
                and second moments, and the number of steps, int64 `[1]`, which also counts the steps of a
                call that fails. `temperature` of `sac` has a vector of 16 numbers, of which the first is
                log alpha.
            targets: the vector of the target network of `q`; of `critic`; or of `actor` and `critic`
                (`td3`); changed in place, but for that of `q`.
            obs: `[k, rows, obs_dim]`.
            actions: choices `[k, rows]`, or vectors `[k, rows, size]`, in [-1, 1] but for `bc`.
            rewards: R, `[k, rows]`.
            next_obs: `[k, rows, obs_dim]`.
            discounts: gamma^m, 0 after a termination, `[k, rows]`.
            errors: output, Q(s, a) - y, or the mean over the critics of |Q_i(s, a) - y|, `[k, rows]`; `bc`
                leaves it unchanged.
            noise: standard normal, `[k, 2, rows, size]` of `sac`, for the actions in s and in s';
                `[k, rows, size]` of `td3`, None where `target_noise` is 0.
            weights: w, `[k, rows]`; None: 1.
            first: number of the first batch in the run.
            adam_eps: Adam's epsilon.
            settings: see the table.

        Returns:
            Means over the batches, losses by the name of the network: `loss`, `q_mean`, `grad_norm` before
            clipping (`dqn`); `critic`, `actor`, `temperature`, `q_mean`, `entropy`, `alpha`, `grad_norm` of
            the critics (`sac`); `critic`, `q_mean`, `grad_norm`, and `actor` if the actor learned (`td3`);
            `critic`, `value`, `actor`, `q_mean`, `v_mean`, `weight`, `grad_norm` (`iql`); `loss`, `fit` (of
            choices the share that are the policy's likeliest; of vectors E|mean - a|), `grad_norm` (`bc`).

        Raises:
            ShapeError: an array has another shape, or an output has another precision than the engine.
            ConfigError: a setting is missing, of another type or out of range, an action does not exist,
                or a network is missing.
            UnknownNameError: the algorithm has no such network or setting.
            NonFiniteError: a loss, gradient or parameter is NaN or infinite.
        """

@final
class Explorer:
    """Chooses exploring actions without torch, with the network of an `OffPolicyEngine` that acts.

    Args:
        engine: the engine with the networks, of precision `f32`.
        deviation: standard deviation of the noise on the actions of the algorithm `td3`; 0 for
            other algorithms.

    Raises:
        ConfigError: the engine is of another kind or precision, or the deviation is out of range.
    """

    def __new__(cls, engine: OffPolicyEngine, deviation: float=0.0) -> Explorer:
        ...

    def act(self, parameters: ArrayLike, obs: ArrayLike, actions: NDArray[Any], noise: ArrayLike | None=None) -> None:
        """Chooses actions.

        Args:
            parameters: the parameter vector of the network.
            obs: `[n, obs_dim]`.
            actions: output: float32 `[n, size]`, or int64 `[n]`. An int64 entry of at least 0 is
                already chosen and stays.
            noise: standard normal, `[n, size]`; None for choices.

        Raises:
            ShapeError: an array has another shape or dtype, or an output shares memory with another
                argument.
        """

    def collect(self, parameters: ArrayLike, envs: VecEnv, obs: NDArray[np.float32], next_obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], totals: NDArray[np.float64], lengths: NDArray[np.int64], noise: ArrayLike | None=None, bounds: tuple[ArrayLike, ArrayLike] | None=None, *, given: int=0) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """Steps every environment T times: acts, steps, and writes the columns for a replay buffer.

        The columns `[T, n, ...]` are outputs. The entries of each step are those that `act` and
        `VecEnv.step_into` write. Row 0 of `obs` has the current observations of the environments.

        Args:
            parameters: the parameter vector of the network.
            envs: a `VecEnv` with the spaces of the network.
            obs: o_t, float32 `[T + 1, n, obs_dim]`.
            next_obs: the observation that step t reached, float32 `[T, n, obs_dim]`: the last one
                of the episode where step t ended it.
            actions: int64 `[T, n]`, or float32 `[T, n, size]`, as `act` writes them.
            rewards: float64 `[T, n]`.
            terminated: bool `[T, n]`.
            truncated: bool `[T, n]`.
            totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in
                place.
            lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
            noise: standard normal, `[T - given, n, size]`; None for choices.
            bounds: two arrays `[size]`, the environments' actions to which -1 and 1 are scaled;
                None: no scaling.
            given: number of steps, from the first on, whose actions are already in `actions`.

        Returns:
            None if no episode ended, else five arrays with a row for each of the k ended episodes, in
            the order of steps, then of environments: step, environment, last observation
            `[k, obs_dim]`, sum of rewards, length.

        Raises:
            ShapeError: an array is not C-contiguous, writeable and of that dtype and shape, or
                shares memory with another argument.
            ConfigError: the environments have another kind of actions, or bounds are not finite or
                not in order.
            NonFiniteError: an action is NaN or infinite.
        """

@final
class ReplayIteration:
    """Collects steps, stores them and learns from batches of the buffer, for one training or several, in
    one call. The results equal those of `Explorer.collect`, `push_batch`, `sample` and the engine's
    `learn` in sequence for each training, bit for bit.

    Args:
        explorer: the explorer that acts; its engine learns.
        envs: a `VecEnv` with the spaces of the network.
        buffer: a `ReplayBuffer` or `PrioritizedReplayBuffer` of float32 observations and rewards.
        batch: the dict of an earlier `sample` with `n_batches`; its arrays are outputs.
        parameters: this and the next ten arguments are those of `Explorer.collect`.
        obs: float32 `[T + 1, n, obs_dim]`.
        next_obs: float32 `[T, n, obs_dim]`.
        actions: int64 `[T, n]`, or float32 `[T, n, size]`.
        rewards: float64 `[T, n]`.
        terminated: bool `[T, n]`.
        truncated: bool `[T, n]`.
        totals: float64 `[n]`.
        lengths: int64 `[n]`.
        noise: `[T - given, n, size]`; None for choices.
        bounds: two arrays `[size]`; None: actions are not scaled.
        given: number of steps, from the first on, whose actions are already in `actions`.
        n_step: number of steps of the returns in the batches.
        gamma: discount, in [0, 1].
        trainings: number of trainings; each one makes T / trainings steps first.

    Raises:
        ConfigError: `n_step`, `gamma` or `trainings` is out of range.
    """

    def __new__(cls, explorer: Explorer, envs: VecEnv, buffer: ReplayBuffer | PrioritizedReplayBuffer, batch: dict[str, Any], parameters: ArrayLike, obs: NDArray[np.float32], next_obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], totals: NDArray[np.float64], lengths: NDArray[np.int64], noise: ArrayLike | None=None, bounds: tuple[ArrayLike, ArrayLike] | None=None, *, given: int, n_step: int, gamma: float, trainings: int=1) -> ReplayIteration:
        ...

    def learn(self, learned: Mapping[str, tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]], NDArray[np.int64]]], targets: Mapping[str, NDArray[np.floating[Any]]], obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_obs: ArrayLike, discounts: ArrayLike, errors: NDArray[np.floating[Any]], noise: ArrayLike | None=None, weights: ArrayLike | None=None, *, first: int=0, adam_eps: float=1e-08, **settings: float | bool | str | None) -> list[dict[str, float]]:
        """For each training collects its steps, stores them and draws batches, then learns as
        `OffPolicyEngine.learn` does with these arguments. With several trainings `noise` has a leading axis
        `[trainings]`, and `first` is the number of the first batch of the first training.

        If the steps of a training fail after complete ones, the call ends without an exception: `error`
        has it.

        Returns:
            The result of `learn` for each complete training.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: the buffer has another type, the environments have another kind of actions, or
                the steps do not divide among the trainings.
            NonFiniteError: a collected column, a loss, gradient or parameter is NaN or infinite.
        """

    @property
    def trainings(self) -> int:
        """Number of trainings of a call."""

    @property
    def stored(self) -> int:
        """Number of trainings of the last call whose steps are stored."""

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the last call after complete trainings, or None."""

    @property
    def learned(self) -> int:
        """Number of complete trainings of the last call. If it is smaller than `stored`, an error of that
        call came from sampling or learning.
        """

    @property
    def seconds(self) -> float:
        """Duration of learning in the last call, in seconds."""

    def episodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """The ended episodes of the last call's steps, in the form that `Explorer.collect` returns."""

@final
class RolloutPolicy:
    """The policy of an `OnPolicyEngine`, which acts without torch. An environment's action depends
    only on its observation, the parameters and the stream ("action", `rollout`) of the run.

    Args:
        engine: the engine with the networks, of precision `f32`.
        noise_kept: number of steps for which gSDE reuses the same noise; None: the whole rollout.

    Raises:
        ConfigError: `noise_kept` is 0.
    """

    def __new__(cls, engine: OnPolicyEngine, noise_kept: int | None=...) -> RolloutPolicy:
        ...

    def act(self, parameters: ArrayLike, obs: ArrayLike, actions: NDArray[Any], log_probs: NDArray[np.float32], values: NDArray[np.float32], *, seed: int, rollout: int, step: int, mask: ArrayLike | None=None) -> None:
        """Samples actions for step `step` of a rollout.

        Args:
            parameters: the parameter vector of the engine.
            obs: `[n, obs_dim]`.
            actions: output, int64 `[n]`, or float32 `[n, size]`.
            log_probs: output, log pi(a | o), float32 `[n]`.
            values: output, V(o), float32 `[n]`.
            seed: seed of the run.
            rollout: number of the rollout in the run.
            step: number of the step in the rollout.
            mask: which choices are allowed, `[n, size]`.

        Raises:
            ShapeError: an array has another shape or dtype, or an output shares memory with another
                argument.
            ConfigError: a mask allows no choice, or is passed for actions that are numbers.
        """

    def values(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]:
        """V(o) of observations, float32 `[n]`.

        Args:
            parameters: the parameter vector of the engine.
            obs: `[n, obs_dim]`.

        Raises:
            ShapeError: an array has another shape.
        """

    def outputs(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]:
        """The outputs of the actor's network, float32 `[n, size]`: logits of choices, or means.

        Args:
            parameters: the parameter vector of the engine.
            obs: `[n, obs_dim]`.

        Raises:
            ShapeError: an array has another shape.
        """

    def collect(self, parameters: ArrayLike, envs: VecEnv, obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], log_probs: NDArray[np.float32], values: NDArray[np.float32], next_values: NDArray[np.float32], totals: NDArray[np.float64], lengths: NDArray[np.int64], *, seed: int, rollout: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """Steps every environment T times: acts, steps, writes the columns, and computes the values.

        The columns `[T, n, ...]` are outputs. The entries of each step are those that `act` and
        `VecEnv.step_into` write. Row 0 of `obs` has the current observations of the environments.
        After an interrupted call, row T has the observations at the interrupt, and `totals` and
        `lengths` have their values at the interrupt.

        Args:
            parameters: the parameter vector of the engine.
            envs: a `VecEnv` with the spaces of the engine.
            obs: o_t, float32 `[T + 1, n, obs_dim]`.
            actions: int64 `[T, n]`, or float32 `[T, n, size]`.
            rewards: float32 `[T, n]`.
            terminated: bool `[T, n]`.
            truncated: bool `[T, n]`.
            log_probs: log pi(a_t | o_t), float32 `[T, n]`.
            values: V(o_t), float32 `[T + 1, n]`.
            next_values: V of the state that step t reached, float32 `[T, n]`: 0 where the episode
                was terminated, the value of the final observation where it was truncated.
            totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in
                place.
            lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
            seed: seed of the run.
            rollout: number of the rollout in the run.

        Returns:
            None if no episode ended, else five arrays with a row for each of the k ended episodes, in
            the order of steps, then of environments: step, environment, last observation
            `[k, obs_dim]`, sum of rewards, length.

        Raises:
            ShapeError: an array is not C-contiguous, writeable and of that dtype and shape, or
                shares memory with another argument.
            NonFiniteError: an action is NaN or infinite.
        """

@final
class Iteration:
    """Collects a rollout and learns from it in one call. The results equal those of
    `RolloutPolicy.collect`, `compute_gae_time_major` and `OnPolicyEngine.ppo` or `.a2c` in
    sequence, bit for bit.

    Args:
        policy: the policy that acts; its engine, of precision `f32`, learns.
        envs: a `VecEnv` with the spaces of the engine.
        obs: this and the next seven arrays are outputs, as for `RolloutPolicy.collect`.
        actions: int64 `[T, n]`, or float32 `[T, n, size]`.
        rewards: float32 `[T, n]`.
        terminated: bool `[T, n]`.
        truncated: bool `[T, n]`.
        log_probs: float32 `[T, n]`.
        values: float32 `[T + 1, n]`.
        next_values: float32 `[T, n]`.
        advantages: output, generalised advantage estimates, float32 `[T, n]`.
        returns: output, advantages + values, float32 `[T, n]`.
        totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in place.
        lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
        seed: seed of the run.
        rollout: number of the rollout in the run.
        gamma: discount, in [0, 1].
        lam: lambda of generalised advantage estimation, in [0, 1].

    Raises:
        ConfigError: `gamma` or `lam` is out of range.
    """

    def __new__(cls, policy: RolloutPolicy, envs: VecEnv, obs: NDArray[np.float32], actions: NDArray[Any], rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], log_probs: NDArray[np.float32], values: NDArray[np.float32], next_values: NDArray[np.float32], advantages: NDArray[np.float32], returns: NDArray[np.float32], totals: NDArray[np.float64], lengths: NDArray[np.int64], *, seed: int, rollout: int, gamma: float, lam: float) -> Iteration:
        ...

    def ppo(self, parameters: NDArray[np.float32], exp_avg: NDArray[np.float32], exp_avg_sq: NDArray[np.float32], steps: NDArray[np.int64], order: ArrayLike, *, batch_size: int, learning_rate: float, clip_eps: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, clip_vloss: bool=False, normalize_advantages: bool=True, target_kl: float | None=None, adam_eps: float=1e-05) -> dict[str, float]:
        """Collects a rollout and learns from it with PPO, with one pass for each row of `order`.

        Args:
            parameters: the parameter vector, changed in place, like the next two.
            exp_avg: Adam's first moments.
            exp_avg_sq: Adam's second moments.
            steps: number of Adam's steps so far, int64 `[1]`, updated in place, also if the call
                fails.
            order: indices of rows, `[passes, rows]`; row t * n + i is step t of environment i.
            batch_size: rows of a minibatch; the last of a pass may have fewer.
            learning_rate: Adam's step size; its betas are 0.9 and 0.999.
            clip_eps: limit on how far the ratio of new to old probabilities may move from 1.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: largest norm of the gradient; None: no clipping.
            clip_vloss: clip the change of values to [-clip_eps, clip_eps].
            normalize_advantages: normalize the advantages of each minibatch.
            target_kl: the passes end at a minibatch whose KL estimate exceeds 1.5 times this value.
            adam_eps: Adam's epsilon.

        Returns:
            The dict of `OnPolicyEngine.ppo`, with `explained_variance` of the returns by the
            values, and `seconds`, the time that the advantages and learning took.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: a row does not exist, the batch size is out of range, or the engine has
                another precision.
            NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
        """

    def a2c(self, parameters: NDArray[np.float32], first: NDArray[np.float32], second: NDArray[np.float32] | None, steps: NDArray[np.int64], *, learning_rate: float, vf_coef: float, ent_coef: float, max_grad_norm: float | None=None, normalize_advantages: bool=False, alpha: float=0.99, eps: float=1e-05, tf_like: bool=False) -> dict[str, float]:
        """Collects a rollout and learns from it with A2C: one step along the gradient of all rows.

        Args:
            parameters: the parameter vector, changed in place, like the moments.
            first: RMSprop's running means of squared gradients (in TensorFlow's form they begin at
                1), or Adam's first moments.
            second: Adam's second moments; without them the optimizer is RMSprop.
            steps: number of steps so far, int64 `[1]`, updated in place, also if the call fails.
            learning_rate: the step size.
            vf_coef: weight of the value loss.
            ent_coef: weight of the entropy.
            max_grad_norm: largest norm of the gradient; None: no clipping.
            normalize_advantages: normalize the advantages over all rows.
            alpha: decay of RMSprop's running means.
            eps: epsilon of RMSprop or Adam; Adam's betas are 0.9 and 0.999.
            tf_like: put epsilon inside RMSprop's square root.

        Returns:
            The dict of `OnPolicyEngine.a2c`, with `explained_variance` of the returns by the
            values, and `seconds`, the time that the advantages and learning took.

        Raises:
            ShapeError: an array has another shape or dtype, or shares memory with another argument.
            ConfigError: the engine has another precision.
            NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
        """

    @property
    def collected(self) -> bool:
        """Whether the last call completed its rollout. If it did, an error of that call came from
        learning.
        """

    def episodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]] | None:
        """The ended episodes of the last call's rollout, in the form that `RolloutPolicy.collect`
        returns.
        """

@final
class RunningStatsVec:
    """Running count, mean and variance of vectors, per dimension, in float64.

    The rules are those of `RunningStats`.

    Args:
        dim: numbers in a vector, at least 1.

    Raises:
        ConfigError: dim is not an integer in 1..2**28.
    """

    def __new__(cls, dim: int) -> RunningStatsVec:
        ...

    def update(self, x: ArrayLike) -> None:
        """Adds one vector `[dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def batch_update(self, xs: ArrayLike) -> None:
        """Adds vectors `[n, dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStatsVec) -> None:
        """Adds everything that was added to `other`. Raises ShapeError for another dimension, and
        ConfigError if the count would exceed 2**53.
        """

    @overload
    def normalize(self, x: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """(x - mean) / sqrt(var + eps) of one vector `[dim]`, clipped to [-clip, clip] if `clip` is
        not None: float32 if `x` is float32, else float64. Raises ConfigError unless eps is positive
        and clip at least 0.
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
        """Removes all vectors."""

    def state(self) -> dict[str, int | NDArray[np.float64]]:
        """Format, count, means and sums of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | NDArray[np.float64]]) -> None:
        """Continues from the result of `state()`. Raises CheckpointError for anything else."""

    @property
    def dim(self) -> int:
        """Numbers in a vector."""

    @property
    def count(self) -> int:
        """Number of vectors added."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the vectors, `[dim]`; 0 before the first."""

    @property
    def var(self) -> NDArray[np.float64]:
        """Population variance of the vectors (divisor count), `[dim]`; 1 before the first."""

    @property
    def std(self) -> NDArray[np.float64]:
        """Square root of `var`, `[dim]`."""

@final
class HindsightConfig:
    """How `ReplayBuffer.sample(her=...)` replaces goals (Andrychowicz et al. 2017, section 4.5).

    The buffer needs dict observations with `achieved_goal` and `desired_goal`. A sampled transition
    is relabelled with probability `ratio`: `desired_goal` of both its observations becomes the
    `achieved_goal` of `next_obs` in a transition of the same episode, and its reward is computed
    anew. `terminated` and `truncated` stay. A running episode counts up to its newest transition,
    and a partly overwritten one from its oldest.

    Args:
        compute_reward: a function `compute_reward(achieved_goal, desired_goal, info)` of the m
            relabelled transitions. It gets the `achieved_goal` of `next_obs` and the new goals,
            `[m, ...]`, and an empty dict, and returns finite rewards, `[m]`. The `compute_reward` of
            a Gymnasium-Robotics environment has this form.
        strategy: the transition that the goal is from: "future" (any from the relabelled one on),
            "final" (the episode's last) or "episode" (any).
        k: number of relabelled transitions per transition that is not relabelled: `ratio` is k / (k
            + 1).
        ratio: the probability itself, in [0, 1], instead of `k`.

    Raises:
        UnknownNameError: the strategy does not exist.
        ConfigError: `ratio` is out of range, or `compute_reward` cannot be called.
    """

    def __new__(cls, compute_reward: Callable[..., ArrayLike], strategy: str='future', k: int=4, *, ratio: float | None=None) -> HindsightConfig:
        ...

    @property
    def strategy(self) -> str:
        """Name of the strategy."""

    @property
    def ratio(self) -> float:
        """Probability that a sampled transition is relabelled."""

@final
class ReplayBuffer:
    """A ring of transitions, sampled uniformly with replacement.

    The oldest transition is overwritten first, in a ring of `capacity // n_envs` rows for each
    environment. An observation that is the `next_obs` of one row and the `obs` of the next is
    stored once; where the bytes differ (at a reset) both are stored. Numbers are stored unchanged,
    NaN and infinity included.

    Any number of threads may call any methods at once: a call sees whole rows only, calls of
    `sample` do not wait for each other, and the GIL is released during long calls and while a call
    waits. Results never depend on the number of threads.

    Args:
        capacity: number of transitions over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
        n_envs: number of environments whose transitions are pushed together.
        seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
        sampler: the rule by which `sample` draws: "uniform" gives every transition the same
            probability, "episode_balanced" gives every episode the same probability, and every
            transition within an episode.
        obs_shape: shape of an observation.
        obs_dtype: uint8 to uint64, int8 to int64, float32, float64 or bool.
        obs_spaces: `{name: (dtype, shape)}` for observations that are dicts of arrays.
        action_shape: shape of an action.
        action_dtype: the same as for `obs_dtype`.
        reward_dtype: float32 or float64.
        frame_stack: `(k, "first")` or `(k, "last")` if an observation stacks k frames along its
            first or last axis, oldest first (for dict observations, a mapping from names to such
            pairs): each frame is stored once. Stacks are compared by bytes, so any reset convention
            is reproduced exactly; frames that a reset changes take extra memory.
        extra_columns: `{name: (dtype, shape)}` of further columns, pushed as `extra`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, sampler: Literal['uniform', 'episode_balanced']='uniform', obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, sampler: Literal['uniform', 'episode_balanced']='uniform', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        """Makes a buffer for the observations and actions of Gymnasium spaces. A discrete
        action has the shape `(1,)` and the space's dtype. The other keywords are those of
        the constructor that do not follow from the spaces.

        Raises UnsupportedSpaceError for spaces whose elements are not arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, and every argument
        has a leading axis `[n_envs]`.

        Args:
            obs: the observation before the action, in the declared shape (if that is flat,
                in any shape with the same number of elements), or a mapping for dict
                observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal, so that its value is 0.
            truncated: whether the episode was cut short, so that the state reached has a
                value.
            next_obs: the observation after the step; at the end of an episode its last
                observation. If it is omitted, it is the next `obs` pushed for the same
                environment (until then, and where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array has another shape, or the column cannot hold a number.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: a segment cannot be written, and memory has
                no room for its rows.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment (of several with `env_ids`), oldest
        first. Each array has a leading axis `[n]`; the rest is as in `push`.

        Args:
            env_ids: index of the environment of each row, `[n]`; the rows of an environment
                are in time order. Without it all rows are of environment 0.

        Raises:
            ShapeError, StorageError: as in `push`; rows before a segment that cannot be
                written are stored.
        """

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, her: HindsightConfig | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions by the buffer's rule, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: the same seed and contents give the same batch; without a seed the buffer
                continues its own draws, which `state` saves.
            n_batches: several batches in one call, equal to those of as many calls; every array
                then has a leading axis `[n_batches]`. With a seed, batch i draws from
                `Stream(seed, "replay", i)`.
            n_step: `rewards` become R = sum_{k<m} gamma^k r_{t+k}; `next_obs` and the flags become
                those of row t+m-1; `discounts` is added. m is n_step, or less where the episode
                ends or the newest row is reached (Sutton & Barto 2018, equation 7.1).
            gamma: discount per step, in [0, 1]; required with `n_step`.
            her: hindsight relabelling of dict observations; see `HindsightConfig`.
            out: a dict of arrays that an earlier call of the same sizes returned, or of CPU
                tensors; it is filled in place and returned.
        Returns:
            A dict: `obs` and `next_obs` `[B, ...]` (dicts for dict observations), `actions`
            `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, the extra
            columns, `indices` uint64 `[B]` for `gather` and `update`, and with `n_step`
            `discounts` float32 `[B]`, gamma^m (1 - terminated).

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype, or `compute_reward` of `her`
                does not return one number for each goal.
            NonFiniteError: `compute_reward` returns NaN or infinity.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the indices `indices`, uint64 `[n]`, in the form that `sample`
        returns.

        Raises:
            StaleIndexError: a row was overwritten or never written.
            CheckpointError: a row of a buffer on disk is damaged; the message has the file
                and the byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of
        the rows with the indices `indices`, `[n]`. If an index occurs twice, its last value
        stays.

        Returns:
            Number of skipped indices: their rows were overwritten in the meantime, or they
            mark padding (2**64 - 1, which is -1 as int64).

        Raises StaleIndexError if a row was never written, or was dropped by `load` or
        `restore`; nothing changes then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever
        its flags are: n-step windows and hindsight goals do not reach beyond it. Call this
        when an environment has crashed and was replaced.
        """

    def clear(self) -> None:
        """Removes every transition; indices continue to count up."""

    def state(self) -> dict[str, Any]:
        """The complete state of the buffer, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from the result of `state`, with the same rows, indices, draws and
        priorities. The buffer must have the same columns, capacity and number of
        environments (a prioritized buffer also the same alpha).

        Raises CheckpointError or ShapeError for a state that does not fit; nothing changes
        then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may
        share.

        Rows that a segment of the folder already contains are only listed. So a save writes
        only the rows since the last one (after an `update`, the records of all rows, without
        observations). Segments that no save lists are removed. After the call the save
        survives a power failure; if the process is killed before its end, the earlier save
        of that name stays.

        Returns:
            Number of bytes written for rows.

        Raises:
            StorageError: the files cannot be written, or another process is writing there.
            ConfigError: `name` has characters other than letters, digits, `_` and `-`, or
                is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from a save, with the same rows, indices, draws and priorities. The saved
        buffer must have the same columns and size (a prioritized buffer also the same alpha). In
        the folder of a `MmapReplayBuffer` the name `newest` stands for the state that a reopened
        buffer starts from.

        Raises:
            CheckpointError: a file is damaged (the message has the file and the byte) or
                missing, or is from a buffer of another layout. Nothing changes then.
        """

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Largest number of transitions, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Number of transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use. All records and whole blocks of observations count, though
        the system provides memory only at the first write.
        """

@final
class SequenceReplayBuffer:
    """A ring of transitions, sampled as windows of consecutive transitions.

    Storage, `push`, `push_batch`, `gather`, `update` and thread safety are those of
    `ReplayBuffer`; only `sample` differs.

    Args:
        capacity: number of transitions over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
        n_envs: number of environments whose transitions are pushed together.
        seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
        cross_episodes: windows may continue into the next episode of the same environment, where
            `is_first` is set; by default they do not.
        obs_shape: this and the other keywords are as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        """Makes a buffer for the observations and actions of Gymnasium spaces. A discrete
        action has the shape `(1,)` and the space's dtype. The other keywords are those of
        the constructor that do not follow from the spaces.

        Raises UnsupportedSpaceError for spaces whose elements are not arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, and every argument
        has a leading axis `[n_envs]`.

        Args:
            obs: the observation before the action, in the declared shape (if that is flat,
                in any shape with the same number of elements), or a mapping for dict
                observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal, so that its value is 0.
            truncated: whether the episode was cut short, so that the state reached has a
                value.
            next_obs: the observation after the step; at the end of an episode its last
                observation. If it is omitted, it is the next `obs` pushed for the same
                environment (until then, and where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array has another shape, or the column cannot hold a number.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: a segment cannot be written, and memory has
                no room for its rows.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment (of several with `env_ids`), oldest
        first. Each array has a leading axis `[n]`; the rest is as in `push`.

        Args:
            env_ids: index of the environment of each row, `[n]`; the rows of an environment
                are in time order. Without it all rows are of environment 0.

        Raises:
            ShapeError, StorageError: as in `push`; rows before a segment that cannot be
                written are stored.
        """

    def sample(self, batch_size: int, seq_len: int, seed: int | None=None, *, n_batches: int | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws windows of `seq_len` consecutive transitions of one environment, with replacement.

        Draws are uniform over all positions where a whole window fits into its episode. A running
        episode ends at its newest transition, and a partly overwritten one begins at its oldest. An
        episode shorter than `seq_len` has one position, its first transition, and its window is
        padded with zeros.

        Args:
            batch_size: windows per batch, B.
            seq_len: transitions per window, L.
            seed: the same as for `ReplayBuffer.sample`.
            n_batches: the same as for `ReplayBuffer.sample`.
            out: the same as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with leading axes `[B, L]`, and bool `[B, L]`
            `is_first`, where an episode begins (not merely a window), and `mask`, False at padding,
            whose `indices` are 2**64 - 1.

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the indices `indices`, uint64 `[n]`, in the form that `sample`
        returns.

        Raises:
            StaleIndexError: a row was overwritten or never written.
            CheckpointError: a row of a buffer on disk is damaged; the message has the file
                and the byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of
        the rows with the indices `indices`, `[n]`. If an index occurs twice, its last value
        stays.

        Returns:
            Number of skipped indices: their rows were overwritten in the meantime, or they
            mark padding (2**64 - 1, which is -1 as int64).

        Raises StaleIndexError if a row was never written, or was dropped by `load` or
        `restore`; nothing changes then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever
        its flags are: n-step windows and hindsight goals do not reach beyond it. Call this
        when an environment has crashed and was replaced.
        """

    def clear(self) -> None:
        """Removes every transition; indices continue to count up."""

    def state(self) -> dict[str, Any]:
        """The complete state of the buffer, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from the result of `state`, with the same rows, indices, draws and
        priorities. The buffer must have the same columns, capacity and number of
        environments (a prioritized buffer also the same alpha).

        Raises CheckpointError or ShapeError for a state that does not fit; nothing changes
        then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may
        share.

        Rows that a segment of the folder already contains are only listed. So a save writes
        only the rows since the last one (after an `update`, the records of all rows, without
        observations). Segments that no save lists are removed. After the call the save
        survives a power failure; if the process is killed before its end, the earlier save
        of that name stays.

        Returns:
            Number of bytes written for rows.

        Raises:
            StorageError: the files cannot be written, or another process is writing there.
            ConfigError: `name` has characters other than letters, digits, `_` and `-`, or
                is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from a save, with the same rows, indices, draws and priorities. The saved
        buffer must have the same columns and size (a prioritized buffer also the same alpha). In
        the folder of a `MmapReplayBuffer` the name `newest` stands for the state that a reopened
        buffer starts from.

        Raises:
            CheckpointError: a file is damaged (the message has the file and the byte) or
                missing, or is from a buffer of another layout. Nothing changes then.
        """

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Largest number of transitions, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Number of transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use. All records and whole blocks of observations count, though
        the system provides memory only at the first write.
        """

@final
class MmapReplayBuffer:
    """A ring of transitions with its newer part in memory and its older part on disk.

    `cold_path` becomes a folder of immutable segments. Every row has a checksum and is read by
    position, not through a mapping: a file that is cut short is an error, never a signal. One
    process at a time may use the folder. The buffer takes over rows that an earlier buffer of the
    same columns and `n_envs` sealed there, also if its process was killed; with `reopen=False` such
    rows are an error.

    Rows are sealed in segments of 1/256 of `total_capacity`. If that is less than 1 MiB, a segment
    has 1 MiB, but at most a third of `hot_capacity`. If the process dies, the `n_unsealed` newest
    rows are lost; `flush` seals them. An observation is stored once, uint8 stays uint8 and frames of
    stacks are shared, as in `ReplayBuffer`. With the same pushes and seed this buffer and a
    `ReplayBuffer` sample the same rows.

    Args:
        hot_capacity: smallest number of transitions in memory (2/256 of `total_capacity` if that is
            more).
        total_capacity: number of transitions in all, fewer than 2**30.
        obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
        cold_path: the folder.
        n_envs: number of environments whose transitions are pushed together.
        seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
        reopen: take over rows that are in the folder.
        obs_shape: this and the other keywords are as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        StorageError: the files cannot be read or written, another buffer uses the folder, or the
            folder has rows and `reopen` is False.
        CheckpointError: the files are damaged (the file and byte are named) or have other columns.
    """

    def __new__(cls, hot_capacity: int, total_capacity: int, obs_dim: int | None=None, act_dim: int | None=None, cold_path: str | PathLike[str] | None=None, *, n_envs: int=1, seed: int=0, reopen: bool=True, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> MmapReplayBuffer:
        ...

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, and every argument
        has a leading axis `[n_envs]`.

        Args:
            obs: the observation before the action, in the declared shape (if that is flat,
                in any shape with the same number of elements), or a mapping for dict
                observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal, so that its value is 0.
            truncated: whether the episode was cut short, so that the state reached has a
                value.
            next_obs: the observation after the step; at the end of an episode its last
                observation. If it is omitted, it is the next `obs` pushed for the same
                environment (until then, and where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array has another shape, or the column cannot hold a number.
            NonFiniteError: a flag is NaN.
            StorageError: of a buffer on disk: a segment cannot be written, and memory has
                no room for its rows.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment (of several with `env_ids`), oldest
        first. Each array has a leading axis `[n]`; the rest is as in `push`.

        Args:
            env_ids: index of the environment of each row, `[n]`; the rows of an environment
                are in time order. Without it all rows are of environment 0.

        Raises:
            ShapeError, StorageError: as in `push`; rows before a segment that cannot be
                written are stored.
        """

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement, from memory and disk; the same as
        `ReplayBuffer.sample` without `her`. An n-step window does not continue across a reopening.

        Raises:
            ConfigError: the buffer is empty or closed, or a setting is out of range.
            CheckpointError: a row on disk is damaged; the message has the file and the byte.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the indices `indices`, uint64 `[n]`, in the form that `sample`
        returns.

        Raises:
            StaleIndexError: a row was overwritten or never written.
            CheckpointError: a row of a buffer on disk is damaged; the message has the file
                and the byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column of rows that are not yet sealed on disk.
        `indices` are their indices, `[n]`; the rest is as in `ReplayBuffer.update`.

        Segments never change: a new value of a sealed row would be lost when the row leaves memory,
        so that is an error. Only rows pushed since the last segment was sealed can be updated. The
        newest row of an environment may be sealed although `n_unsealed` still counts it.

        Returns:
            Number of skipped indices: their rows left the ring in the meantime, or they mark padding.

        Raises ConfigError if a row is sealed, StaleIndexError if a row was never written; nothing
        is written then.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever
        its flags are: n-step windows and hindsight goals do not reach beyond it. Call this
        when an environment has crashed and was replaced.
        """

    def flush(self) -> None:
        """Seals the rows that are only in memory, so that they survive the process. The newest row of
        an environment counts as unsealed until its next observation is known.
        """

    def close(self, keep: bool=False) -> None:
        """Closes the buffer and removes its files except those that saves need. With `keep` every row
        is sealed and the files stay for a later buffer. Closing twice is allowed.

        A buffer that is dropped without `close` leaves its sealed rows.
        """

    def save(self, name: str='last') -> None:
        """Saves the exact state, running episodes and draws included, as `name` next to the rows. It
        seals the rows and keeps them as long as the save exists.
        """

    def load(self, name: str='last') -> None:
        """Continues from the state saved as `name`; rows pushed since are dropped.

        Raises CheckpointError for files that are damaged or missing; nothing changes then.
        """

    def verify(self) -> None:
        """Reads and checks every sealed row; raises CheckpointError at the first damaged one."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Largest number of transitions, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_hot(self) -> int:
        """Number of transitions in memory."""

    @property
    def n_unsealed(self) -> int:
        """Number of newest transitions that would be lost if the process died now."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory used for transitions."""

    @property
    def disk_bytes(self) -> int:
        """Bytes of the segments on disk."""

@final
class OfflineDatasetBuffer:
    """A dataset of transitions for offline learning, built once and then read-only.

    Rows are in time order, episode after episode; `terminated` or `truncated` ends an episode. Rows
    after the last end form one more, incomplete, episode, which is sampled and counted like the
    others. A `next_obs` that equals the next row's `obs` is stored once.

    Args:
        obs: `[n, ...]`, or flat, `[n * obs_dim]`, of any dtype that a column can have; float16
            becomes float32, uint32 and uint64 become int64.
        next_obs: the same as `obs`; at the end of an episode its last observation.
        actions: `[n, ...]`, `[n]` or flat, `[n * act_dim]`.
        rewards: `[n]`; its length is the number of rows.
        terminated: `[n]`, whether the state reached is terminal.
        truncated: `[n]`, whether the episode was cut short.
        normalize: standardise float observations by the dataset's mean and population standard
            deviation of each element (elements with a deviation below 1e-6 are only centred);
            `stats` returns both, `normalize` and `denormalize` convert other observations.
        seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.

    Raises:
        ShapeError: the arrays do not fit together.
        NonFiniteError: observations, actions, rewards or flags contain NaN or infinity, or
            observations exceed about 1e150.
        ConfigError: there are no rows.
    """

    def __new__(cls, obs: ArrayLike, next_obs: ArrayLike, actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, normalize: bool=False, *, seed: int=0) -> OfflineDatasetBuffer:
        ...

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: the same seed gives the same batch; without one the dataset continues its own
                draws.
            n_batches: several batches in one call; every array then has a leading axis.
            out: a dict that an earlier call of the same sizes returned; its arrays are filled in
                place.

        Returns:
            A dict: `obs` and `next_obs` `[B, ...]` (normalised if the dataset is), `actions`
            `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, `indices`
            uint64 `[B]`, the rows of the dataset.

        Raises:
            ConfigError: a setting is out of range.
        """

    def sample_trajectories(self, batch_size: int, seq_len: int, seed: int | None=None) -> dict[str, NDArray[Any]]:
        """Draws parts of episodes, on which a Decision Transformer trains (Chen et al. 2021).

        The first row of each part is uniform over the dataset. A part ends with its episode; its
        end is padded with zeros, where `mask` is False.

        Args:
            batch_size: number of parts, B.
            seq_len: rows of each part, padding included, L.
            seed: the same as for `sample`.

        Returns:
            A dict: `obs` `[B, L, ...]`, `actions` `[B, L, act_dim]`, `rewards` `[B, L]`,
            `returns_to_go` `[B, L]` (undiscounted sum of the rewards from that row to the end of
            its episode, summed in float64), `timesteps` int64 `[B, L]` (steps of the episode
            before that row), `mask` bool `[B, L]`.

        Raises:
            ConfigError: a setting is out of range.
        """

    def stats(self) -> dict[str, Any]:
        """Statistics of the dataset.

        Returns:
            A dict: `n_transitions`, `n_episodes` (an incomplete last one included),
            `n_complete_episodes`, `obs_dim` and `act_dim` (numbers per row), `mean_return`,
            `std_return` (population), `min_return`, `max_return` (undiscounted),
            `mean_episode_length`, and for float observations `obs_mean` and `obs_std` (population),
            float64 in the shape of an observation, of the `obs` that was passed.
        """

    def n_episodes(self) -> int:
        """Number of episodes, an incomplete last one included."""

    def normalize(self, obs: ArrayLike) -> NDArray[Any]:
        """(obs - mean) / std with the dataset's mean and std, for other observations, `[..., *obs]`:
        float32 if they are float32, else float64. Elements with a std below 1e-6 are only centred.

        Raises ConfigError for a dataset without float observations.
        """

    def denormalize(self, obs: ArrayLike) -> NDArray[Any]:
        """obs * std + mean with the dataset's mean and std, the inverse of `normalize`.

        Raises ConfigError for a dataset without float observations.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the dataset and its draws as `name` in the folder `path`, which other saves and
        buffers may share; the rest is as in `ReplayBuffer.save`. The first save into a folder
        writes the rows, later ones only list them.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from a save, with the same rows, moments and draws. The saved dataset must have the
        same columns, number of rows and `normalize`.

        Raises:
            CheckpointError: a file is damaged (the message has the file and the byte) or missing, or
                has another layout. Nothing changes then.
        """

    @property
    def normalized(self) -> bool:
        """Whether sampled observations are normalised."""

    def __len__(self) -> int:
        ...

@final
class PrioritizedReplayBuffer:
    """A ring of transitions, sampled with probability proportional to priority^alpha.

    Of N rows, row i is drawn with P(i) = p_i / sum of p, p_i = priority^alpha (0^0 = 1). Its weight
    is (N P(i))^-beta divided by the largest weight of any row in the buffer (Schaul et al. 2016,
    equation 1 and section 3.4). A batch is stratified: one draw in each of B equal parts of the sum
    (appendix B.2.1). Storage, columns and thread safety are those of `ReplayBuffer`.

    Args:
        capacity: number of transitions over all environments, fewer than 2**30.
        obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
        alpha: priority exponent in [0, 1]: 0 is uniform, 1 fully prioritized.
        beta: exponent of the importance weights in [0, 1].
        n_envs: number of environments whose transitions are pushed together.
        seed: the same as for `ReplayBuffer`.
        stratified: False draws independently instead.
        obs_shape: this and the other keywords are as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, alpha: float=0.6, beta: float=0.4, *, n_envs: int=1, seed: int=0, stratified: bool=True, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, alpha: float=0.6, beta: float=0.4, n_envs: int=1, seed: int=0, stratified: bool=True, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        """Makes a buffer for the observations and actions of Gymnasium spaces. A discrete
        action has the shape `(1,)` and the space's dtype. The other keywords are those of
        the constructor that do not follow from the spaces.

        Raises UnsupportedSpaceError for spaces whose elements are not arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priority: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """The same as `ReplayBuffer.push`, with a priority in [0, 1e100]. Without one the row gets the
        largest priority so far, at first 1. With `n_envs > 1` priorities are `[n_envs]`.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priorities: ArrayLike | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """The same as `ReplayBuffer.push_batch`, with priorities, `[n]`, as in `push`."""

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions with probability proportional to priority^alpha, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: this and the other arguments are as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with `weights`, float32 `[B]`, in [0, 1]: 0 only where
            the weight is too small for float32.

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the indices `indices`, uint64 `[n]`, in the form that `sample`
        returns.

        Raises:
            StaleIndexError: a row was overwritten or never written.
            CheckpointError: a row of a buffer on disk is damaged; the message has the file
                and the byte.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of
        the rows with the indices `indices`, `[n]`. If an index occurs twice, its last value
        stays.

        Returns:
            Number of skipped indices: their rows were overwritten in the meantime, or they
            mark padding (2**64 - 1, which is -1 as int64).

        Raises StaleIndexError if a row was never written, or was dropped by `load` or
        `restore`; nothing changes then.
        """

    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> int:
        """Sets the priorities, `[n]`, of the rows with the indices `indices`, `[n]`: usually absolute
        TD errors plus a small constant. If an index occurs twice, its last priority stays.

        Returns:
            Number of skipped indices: their rows were overwritten in the meantime, or they mark
            padding.

        Raises, with nothing changed:
            ConfigError: a priority is negative or above 1e100.
            NonFiniteError: a priority is NaN or infinite.
            StaleIndexError: a row was never written, or a `load` dropped it.
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
        """Ends the running episode of environment `env` after its newest transition, whatever
        its flags are: n-step windows and hindsight goals do not reach beyond it. Call this
        when an environment has crashed and was replaced.
        """

    def clear(self) -> None:
        """Removes every transition; indices continue to count up."""

    def state(self) -> dict[str, Any]:
        """The complete state of the buffer, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from the result of `state`, with the same rows, indices, draws and
        priorities. The buffer must have the same columns, capacity and number of
        environments (a prioritized buffer also the same alpha).

        Raises CheckpointError or ShapeError for a state that does not fit; nothing changes
        then.
        """

    def save(self, path: str | PathLike[str], name: str='last') -> int:
        """Saves the buffer as `name` in the folder `path`, which other saves and buffers may
        share.

        Rows that a segment of the folder already contains are only listed. So a save writes
        only the rows since the last one (after an `update`, the records of all rows, without
        observations). Segments that no save lists are removed. After the call the save
        survives a power failure; if the process is killed before its end, the earlier save
        of that name stays.

        Returns:
            Number of bytes written for rows.

        Raises:
            StorageError: the files cannot be written, or another process is writing there.
            ConfigError: `name` has characters other than letters, digits, `_` and `-`, or
                is `newest`.
        """

    def load(self, path: str | PathLike[str], name: str='last') -> None:
        """Continues from a save, with the same rows, indices, draws and priorities. The saved
        buffer must have the same columns and size (a prioritized buffer also the same alpha). In
        the folder of a `MmapReplayBuffer` the name `newest` stands for the state that a reopened
        buffer starts from.

        Raises:
            CheckpointError: a file is damaged (the message has the file and the byte) or
                missing, or is from a buffer of another layout. Nothing changes then.
        """

    @property
    def max_priority(self) -> float:
        """Priority of a row that is pushed without one: the largest so far, at first 1."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Largest number of transitions, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Number of transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use. All records and whole blocks of observations count, though
        the system provides memory only at the first write.
        """

@final
class Stream:
    """A random stream keyed by (seed, name, index), with a position that can be saved.

    The draws depend on the key and the position only, so a new stream never changes the draws of another one.

    Args:
        seed: seed of the run, 0 to 2**64 - 1.
        name: the purpose of the stream, such as "env".
        index: tells streams of the same name apart, such as the index of an environment.

    Raises:
        ConfigError: seed or index is not an integer in range.
    """

    def __new__(cls, seed: int, name: str, index: int=0) -> Stream:
        ...

    def uniform(self, n: int) -> NDArray[np.float64]:
        """`n` uniform numbers in [0, 1) with 53 random bits each, float64 `[n]`.

        Each advances the position by 2. Raises ConfigError unless 0 <= n <= 2**28.
        """

    def normal(self, n: int) -> NDArray[np.float64]:
        """`n` standard normal numbers, float64 `[n]`, by the cosine branch of Box and Muller: sqrt(-2
        ln(1 - u)) cos(2 pi v), where u and v are the next two uniform numbers.

        Each advances the position by 4. Raises ConfigError unless 0 <= n <= 2**28.
        """

    def standard_normal(self, n: int) -> NDArray[np.float32]:
        """`n` standard normal numbers, float32 `[n]`, by a mapping four times as fast as `normal`'s.

        The mapping is Wichura's AS 241: of uniform numbers of 52 bits, in float64, then rounded. It
        gives the same numbers on every platform.

        Each advances the position by 2. Raises ConfigError unless 0 <= n <= 2**28.
        """

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniformly random permutation of 0, ..., n - 1 (Fisher and Yates), int64 `[n]`.

        Raises ConfigError unless 0 <= n <= 2**28.
        """

    def orthogonal(self, rows: int, columns: int) -> NDArray[np.float64]:
        """A random orthogonal matrix, float64 `[rows, columns]`.

        Its rows, or its columns if they are fewer, are orthogonal and have length 1. All such matrices
        are equally likely (Saxe et al. 2014). Gram and Schmidt's method computes the matrix from
        standard normal numbers in a fixed order, so it is the same on every platform.

        Each of the `rows * columns` numbers advances the position by 2. Raises ConfigError for more
        than 2**28 of them.
        """

    def next_u64(self) -> int:
        """The next 64 random bits as an integer; advances the position by 2."""

    @property
    def position(self) -> int:
        """Number of 32-bit words drawn so far; assign a saved value to continue from there."""

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
    """The fixed properties of a native environment; created as a `VecEnv` or a `SingleEnv`."""

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

    Its episodes are those of row 0 of `VecEnv(1, seed, env_id)`. After the end of an episode `step`
    is an error until `reset` is called.

    Args:
        env_id: one of `native_env_ids()`.
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.

    Raises:
        UnknownNameError: `env_id` is not native; the message has the nearest id.
        ConfigError: the seed is out of range.
    """

    def __new__(cls, env_id: str, seed: int=0) -> SingleEnv:
        ...

    def reset(self, seed: int | None=None) -> NDArray[np.float32]:
        """Starts an episode; returns its first observation, float32 `[obs_dim]`.

        Args:
            seed: start over as a new environment with this seed; None: draw the next episode start.

        Raises ConfigError for a seed out of range.
        """

    def step(self, action: ArrayLike) -> _SingleStep:
        """Advances the episode by one action.

        Args:
            action: an integer for Discrete; for Box a number, or numbers `[action_dim]`, which the
                environment clips to its bounds.

        Returns:
            A dict: `obs` float32 `[obs_dim]`, the observation that the step reached; `reward`
            float; `terminated` and `truncated` bool. If one of these is True, call `reset()` next.

        Raises:
            EnvError: no episode is running, or an action is out of range.
            ShapeError: an action has the wrong kind or size.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state, float64 `[state_dim]`; between episodes the start of the next one."""

    def set_state(self, state: ArrayLike, elapsed: int | None=None) -> None:
        """Replaces the state by finite numbers `[state_dim]` and, unless `elapsed` is None, the number
        of steps taken in the episode (below `max_episode_steps`). Starts an episode if none
        is running.

        Raises ShapeError, NonFiniteError or ConfigError for arguments that do not fit; nothing
        changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """The complete state: the dict of `VecEnv.snapshot()` for one environment, and `episode`,
        which is 0 before the first episode, 1 while one is running and 2 after its end.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, which may have had any seed.

        Raises:
            CheckpointError: a field is missing, or is of another environment or format.
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
    """`n` native environments that step as one batch, with time limits and SAME_STEP autoreset.

    An environment whose episode ends starts its next one within the same step. Results depend on
    the seeds and the actions only, not on threads or on the number of environments. Several threads
    may call one object: a call waits until the one before it has returned.

    Args:
        n: number of environments, 1 to 2**24.
        seed: environment i draws its episode starts from `Stream(seed, "env", i)`.
        env_id: one of `native_env_ids()`.
        seeds: explicit integers, `[n]`, instead of `seed`: environment i draws from
            `Stream(seeds[i], "env", 0)`, at any position in the batch.
        shard: number of environments that step together on one thread; never changes a result.
        parallel_from: smallest `n` for which threads share the environments; never changes a result.
        precision: "f64" steps as Gymnasium does; "f32" stores and steps the state in float32, 1.3
            to 2.5 times as fast at 2,048 environments. The deviation is stated and tested for each
            environment.

    Raises:
        UnknownNameError: `env_id` is not native; the message has the nearest id.
        ConfigError: `n`, a seed or `shard` is out of range, `seeds` is passed with a `seed` other
            than 0, or `env_id` has no kernel of that precision.
        ShapeError: the length of `seeds` is not `n`.
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
            actions: integers `[n]` for Discrete, numbers `[n, action_dim]` for Box (or `[n]` if
                action_dim is 1); the environment clips them to the bounds.

        Returns:
            A dict of new arrays: `obs` float32 `[n, obs_dim]`, the first observation of the next
            episode where one ended; `rewards` float64 `[n]`; `terminated` and `truncated` bool
            `[n]`; `final_obs` float32 `[n, obs_dim]`, the observation that each step reached: the
            last one of the episode where one ended, elsewhere `obs`; `final_mask` bool `[n]`, True
            where an episode ended.

        Raises:
            ShapeError: the number or dtype of actions is wrong.
            EnvError: an action is out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def step_into(self, actions: ArrayLike, obs: NDArray[np.float32], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Steps every environment once and writes the results into the caller's arrays.

        Args:
            actions: the same as for `step_all`; int64 or float32 C-contiguous arrays are not
                copied.
            obs: float32 `[n, obs_dim]`.
            rewards: float64 `[n]`.
            terminated: bool `[n]`.
            truncated: bool `[n]`.

        Returns:
            None if no episode ended, else `(indices, final_obs)`: the indices of the environments,
            int64 `[k]`, ascending, and the last observations of their ended episodes, float32
            `[k, obs_dim]`.

        Raises:
            ShapeError: an output is not C-contiguous, writeable and of that dtype and shape, or
                shares memory with another argument; or the number or dtype of actions is wrong.
            EnvError: an action is out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state of every environment, float64 `[n, state_dim]`."""

    def set_state(self, state: ArrayLike, elapsed: ArrayLike | None=None) -> None:
        """Replaces the state of every environment. It is rounded to float32 where the environment
        stores it in float32 (precision "f32", and MountainCarContinuous-v0 as in Gymnasium).
        Streams and step counts do not change.

        Args:
            state: finite numbers `[n, state_dim]`.
            elapsed: steps already taken in each running episode, integers `[n]`, each below
                `max_episode_steps`; None keeps the present counts.

        Raises:
            ShapeError, NonFiniteError, ConfigError: an argument does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """The complete state, as a dict of arrays, integers and strings: `format`, `env_id`,
        `precision`, `n_envs`, `state`, `elapsed`, and each stream's `seeds`, `indices` and
        `positions`.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, precision and size, which may have
        had any seed.

        Raises:
            CheckpointError: a field is missing, or is of another environment, precision, size or
                format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def precision(self) -> str:
        """Precision in which the environments step: "f64" or "f32"."""

@overload
def compute_gae(rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of one trajectory: advantages A_t and returns A_t + V(s_t), each `[T]`.

    A_t = delta_t + gamma lam (1 - end_t) A_{t+1},
    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).

    There are two forms. In the first, `dones` are episode ends without bootstrap and `last_value`
    is V of the state after the last step. In the second, `terminated`, `truncated` and
    `next_values` treat time limits exactly: `next_values` is V of the state that each step reached,
    after truncation that of the final observation.

    Args:
        rewards: r_t, `[T]`.
        values: V(s_t), `[T]`.
        dones: episode ends after step t, `[T]`, bool or numbers.
        last_value: V(s_T); must be 0 if `next_values` is passed.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[T]`.
        truncated: the episode was cut after step t, `[T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[T]`; ignored where terminated.

    Returns:
        (advantages, returns): float32 if rewards and values are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam is out of range, or arguments contradict each other.
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

    The same as `compute_gae`, with arrays `[N * T]`.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be omitted if `last_values` is passed.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each `[N * T]`: float32 if rewards and values are float32, else
        float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam is out of range, or arguments contradict each other.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae_batched(rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_batched(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def compute_gae_batched_f32(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Does the same as `compute_gae_batched`, but reads rewards and values as float32 in any case.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be omitted if `last_values` is passed.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each float32 `[N * T]`.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam is out of range, or arguments contradict each other.
        NonFiniteError: a flag is NaN.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float32], values: NDArray[np.float32], next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.float32] | None=None, returns: NDArray[np.float32] | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of a `[T, N]` rollout, vectorised over the N environments.

    There are two forms, as in `compute_gae`: `next_values` with `terminated` and `truncated` is
    exact at time limits; with `last_values` and `dones`, V(s_{t+1}) is the next row of `values`.
    float32 arrays are summed in float32. The error of such a sum grows with 1 / (1 - gamma lam) and
    is about 1e-6 of the largest value.

    Args:
        rewards: r_t, `[T, N]`.
        values: V(s_t), `[T, N]`.
        next_values: V(s_{t+1}) of the state that each step reached, `[T, N]`: after truncation that
            of the final observation; ignored after termination.
        terminated: s_{t+1} is terminal, `[T, N]`.
        truncated: the episode was cut after step t, `[T, N]`; needs `next_values`.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        dones: episode ends after step t, `[T, N]`, bool or numbers; instead of `terminated` and
            `truncated`.
        last_values: V of the state after the last step of each env, `[N]`; instead of
            `next_values`.
        advantages: output for A_t; C-contiguous, of the result's dtype and shape.
        returns: output for A_t + V(s_t), likewise.

    Returns:
        (advantages, returns), each `[T, N]`: the arrays that were passed, or new ones; float32 if
        rewards and values are float32, else float64.

    Raises:
        ShapeError: an array has another shape, an output has another dtype or layout, or an output
            shares memory with another argument.
        ConfigError: gamma or lam is out of range, or arguments contradict each other.
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
    """Advantages of one group of completions: each reward relative to the others of its group.

    (r - mean) / (std + eps), as in GRPO (Shao et al. 2024). A group whose population standard
    deviation is at most 4 units of rounding of its first reward has no spread; its advantages are
    exactly 0. Advantages are also 0 if the divisor is the standard deviation of at most `ddof`
    rewards. TRL 1.16 uses `ddof=1, eps=1e-4`, and divides the rounding error of a group without
    spread by 1e-4.

    Args:
        rewards: one per completion, `[G]`, finite.
        scale: "group" divides by the standard deviation; "none" does not (Dr. GRPO, Liu et al.
            2025); "batch" is "group", since one group is the batch.
        ddof: the divisor of the variance is G - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        `[G]`: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards is not `[G]` or not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: ddof or eps is out of range.
        UnknownNameError: the scale does not exist.
    """

@overload
def compute_group_advantages(rewards: ArrayLike, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_batch_group_advantages(rewards: NDArray[_Float], group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[_Float]:
    """Advantages of several groups of the same number of completions.

    The same as `compute_group_advantages`, group by group. `scale="batch"` centres by group and
    divides by the standard deviation of all rewards of the batch, as TRL does with
    `scale_rewards="batch"`; `ddof=1, eps=1e-4` gives TRL's numbers.

    Args:
        rewards: group after group, `[n_groups * group_size]` or `[n_groups, group_size]`, finite.
        group_size: completions per group; may be omitted if rewards is `[n_groups, group_size]`.
        scale: "group", "batch" or "none".
        ddof: the divisor of the variance of n rewards is n - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        The advantages, shape of rewards: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards has another shape or is not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: group_size, ddof or eps is out of range.
        UnknownNameError: the scale does not exist.
    """

@overload
def compute_batch_group_advantages(rewards: ArrayLike, group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

def compute_token_kl(log_p: ArrayLike, log_q: ArrayLike, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """KL(p || q) of one sequence from per-token log-probabilities.

    With d = log q - log p, the term of each token depends on `estimator`:

    - "exact": p (log p - log q); the sum is KL(p || q) itself if the arrays list a whole
      distribution. 0 where log p < -708 (float32: -87), -inf included, for every log q.
    - "k1": -d, for tokens sampled from p; unbiased, of either sign.
    - "k2": d^2 / 2, for tokens sampled from p; biased, never negative.
    - "k3": e^d - d - 1, for tokens sampled from p; unbiased, never negative (Schulman 2020). Given
      d as rounded, the error is at most 16 units of rounding, also near d = 0. inf for d > 709
      (float32: 88) and for d = -inf.

    NaN gives NaN; so does log p = log q = -inf, except with "exact". Terms are computed in float32
    if both arrays are float32, and always added in float64, in an order that depends on T only.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, `[T]`, bool or 0 and 1; the values of other tokens, NaN included,
            have no effect. None: all tokens count.
        reduction: "sum", or "mean" over the tokens that count; 0 if none counts.

    Returns:
        A float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask contains a number other than 0 and 1.
        UnknownNameError: the estimator or reduction does not exist.
    """

def compute_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """The k3 estimate of KL(p || q) of one sequence: `compute_token_kl` with `estimator="k3"`.

    The sum of e^d - d - 1 with d = log q - log p, p the policy and q the reference, for tokens
    sampled from p (Schulman 2020, "Approximating KL divergence"). d has the same sign as in TRL. The
    estimate is never negative.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        mask: which tokens count, `[T]`, bool or 0 and 1; None: all tokens count.
        reduction: "sum", or "mean" over the tokens that count; 0 if none counts.

    Returns:
        A float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask contains a number other than 0 and 1.
        UnknownNameError: the reduction does not exist.
    """

@overload
def compute_batch_token_kl(log_p: NDArray[_Float], log_q: NDArray[_Float], seq_len: int | None=None, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[_Float]:
    """KL(p || q) of each of B sequences of the same number of tokens.

    The same as `compute_token_kl`, with one value per sequence.

    Args:
        log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
        log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
        seq_len: T; may be omitted if log_p is `[B, T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all tokens count.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence in which none
            counts.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask contains a number other than 0 and 1.
        UnknownNameError: the estimator or reduction does not exist.
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
        seq_len: T; may be omitted if log_p is `[B, T]`.
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all tokens count.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence in which none
            counts.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask contains a number other than 0 and 1.
        UnknownNameError: the reduction does not exist.
    """

@overload
def compute_batch_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, seq_len: int | None=None, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[np.floating[Any]]:
    ...

def pack_sequences(lengths: ArrayLike, max_len: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Assigns sequences to rows of `max_len` tokens by first-fit decreasing (Johnson 1974).

    Takes the longest sequence first, and sequences of equal length in their original order. Each
    one goes into the first row that has room. This needs at most 11/9 of the fewest possible rows,
    plus one, and O(n log n) time for n sequences.

    Args:
        lengths: tokens of each sequence, integers in 1..=max_len, `[n]`.
        max_len: tokens of a row, at least 1.

    Returns:
        (packed, masks, positions), each `[n_bins, max_len]`: packed (int64) has the index in lengths
        of the token's sequence, or -1 for padding; masks (bool) is True where there is a token;
        positions (int64) counts from 0 within each sequence, and is 0 for padding.

    Raises:
        ShapeError: lengths is not `[n]` or not of integers.
        ConfigError: max_len or a length (named by its index) is out of range, or the rows would
            have 2**31 tokens or more.
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
    """Concatenates sequences of tokens in rows of `max_len`, with the assignment of `pack_sequences`.

    Args:
        sequences: token ids of each sequence, 1 to max_len integers.
        max_len: tokens of a row, at least 1.
        pad_token_id: the token that fills the rest of a row.

    Returns:
        A dict with `packed`, `masks`, `positions` of `pack_sequences`, and
        tokens: int64 `[n_bins, max_len]`;
        cu_seqlens: int32 `[n + 1]`, the positions at which the sequences begin in `tokens[masks]`
            (the rows without padding), and as last entry the number of tokens: the form that
            variable-length attention kernels take;
        order: int64 `[n]`, the index of the sequence between cu_seqlens[i] and cu_seqlens[i + 1].

    Raises:
        ShapeError: a sequence is not one-dimensional or not of integers.
        ConfigError: a sequence (named by its index) is empty or too long, a token or max_len is out
            of range, or the rows would have 2**31 tokens or more.
    """

def unpack_sequences(values: Any, packed: ArrayLike) -> list[Any]:
    """Cuts the values of each sequence out of rows: the inverse of `pack_tokens`.

    Args:
        values: tokens, or values that were computed per token: an array or a tensor
            `[n_bins, max_len, ...]` of any dtype.
        packed: the sequence of each token, as `pack_sequences` returns it, int64
            `[n_bins, max_len]`.

    Returns:
        A list of `[length, ...]` in the order in which the sequences were packed. They are views of
        values, so gradients flow through them.

    Raises:
        ShapeError: the shape of values does not begin with the shape of packed, or values has no
            shape.
        ConfigError: a sequence of packed is in two pieces, or one is missing.
    """

@final
class DPOPair:
    """A prompt with a preferred and a dispreferred completion, for DPO (Rafailov et al. 2023).

    Immutable; pairs with the same tokens are equal.

    Args:
        prompt_tokens: token ids in 0..2**32, `[P]`; may be empty.
        chosen_tokens: token ids of the preferred completion, `[C]`, at least one.
        rejected_tokens: token ids of the dispreferred completion, `[R]`, at least one.

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
        """Mask of `chosen_ids()`: True for the completion's tokens, which enter a loss, bool
        `[P + C]`.
        """

    def rejected_mask(self) -> NDArray[np.bool_]:
        """Mask of `rejected_ids()`: True for the completion's tokens, which enter a loss, bool
        `[P + R]`.
        """

    def __eq__(self, other: object, /) -> bool:
        ...

    def __ne__(self, other: object, /) -> bool:
        ...

    def __hash__(self) -> int:
        ...

@overload
def compute_lambda_returns(rewards: NDArray[np.float32], next_values: NDArray[np.float32], gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float32]:
    """lambda-returns G_t = r_t + gamma ((1 - lam) V(s_{t+1}) + lam G_{t+1}).

    After termination V(s_{t+1}) and G_{t+1} are 0. After truncation and after the last step G_{t+1} is
    V(s_{t+1}). The result equals GAE's advantages plus V(s_t) where V(s_{t+1}) is the next step's
    value. Sources: Sutton and Barto 2018, eq. 12.3; the recursion is eq. 6 of Hafner et al. 2020
    (Dreamer). A NaN makes the return of its step NaN, and the returns of earlier steps of the same
    episode.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; ignored after
            termination.
        gamma: discount in [0, 1].
        lam: weight of longer returns in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are float32, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam is out of range, or arguments contradict each other.
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

    m is n, or less where the episode or the array ends first: no window crosses the end of an
    episode. V(s_{t+m}) is the value of the state that the window's last step reached: 0 after
    termination, the value of the final observation after truncation. Source: Sutton and Barto 2018,
    eq. 7.1. The time is proportional to T and does not depend on n. A NaN makes every window that
    contains it NaN.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; ignored after
            termination.
        n: number of rewards in a window, at least 1.
        gamma: discount in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are float32, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: n or gamma is out of range, or arguments contradict each other.
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
    delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t)), vs_t = V(s_t) + delta_t + gamma c_t (vs_{t+1}
    - V(s_{t+1})), pg_t = rho_t (r_t + gamma vs_{t+1} - V(s_t)).
    Nothing follows a termination; after a truncation and after the last step vs_{t+1} is
    V(s_{t+1}). Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2, lambda as in remark 2.

    There are two forms, as in `compute_gae`: `dones` and `bootstrap_value`, or `terminated`,
    `truncated` and `next_values`. A NaN makes the results of its step NaN, and those of earlier
    steps of the same episode; nothing after an episode's end is read. An infinite ratio that is not
    clipped spreads infinities or NaN in the same way.

    Args:
        log_rhos: log of the ratio of target to behaviour probability of the actions, `[T]` or
            `[T, N]`.
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
        next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; instead of
            `bootstrap_value`; ignored where terminated.

    Returns:
        (vs, pg_advantages), each of the shape of rewards: float32 if log_rhos, rewards and values
        are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: a setting is out of range, or arguments contradict each other.
    """

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def explained_variance(values: ArrayLike, returns: ArrayLike) -> float:
    """1 - Var(R - V) / Var(R) of values V and returns R: 1 where V predicts R exactly, 0 where V
    predicts no better than the mean of R, and 0 where R does not vary.

    Args:
        values: V, `[n]`.
        returns: R, `[n]`.

    Raises:
        ShapeError: their lengths differ.
    """

def native_env_ids() -> list[str]:
    """Ids of the native environments, in alphabetical order.

    Each environment equals Gymnasium's environment of that id, step by step.
    """

def prune_replay(path: str | PathLike[str], keep: list[str]) -> int:
    """Removes every save of the folder `path` except those named in `keep`, and the segments that no
    kept save lists; returns the number of removed segments and unfinished files.

    The rows that a `MmapReplayBuffer` left in the folder stay, whatever `keep` names.

    Raises:
        StorageError: the folder does not exist, its files cannot be removed, or another process is
            writing there.
        CheckpointError: a save named in `keep` does not exist or cannot be read; nothing is removed
            then.
    """

def num_threads() -> int:
    """The number of threads of this process that share long work of rlox; see `set_num_threads`."""

def set_num_threads(n: int | None=None) -> None:
    """Sets how many threads of this process share long work of rlox: large batches of environments,
    large batches from buffers, long arrays. No result depends on this number.

    Before the first call the setting is the environment variable `RLOX_THREADS` (or
    `RAYON_NUM_THREADS`) if that is a number from 1 to 1024, else the number of CPUs that the
    process may use. A forked child has the setting of its parent and threads of its own.

    Args:
        n: 1 to 1024; with 1 everything runs on the calling thread. None restores the default.

    Raises ConfigError for a number out of range.
    """

def stream_seed(seed: int, name: str, index: int=0) -> int:
    """A 63-bit integer to seed another generator, such as a `torch.Generator`: the first `next_u64()`
    of `Stream(seed, name, index)` without its lowest bit.

    Raises:
        ConfigError: seed or index is not an integer in 0..2**64.
    """
