"""Collects rollouts in a background thread, with weights from the user's training loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rlox._core import native_env_ids
from rlox.collectors.weights import ModuleWeights
from rlox.configs import EnvConfig, make, nearest, param
from rlox.devices import torch_threads
from rlox.envs.actions import ActionCodec
from rlox.envs.native import native_env_class
from rlox.errors import ConfigError, UnknownNameError
from rlox.native.collector import NativeCollector
from rlox.native.policy import NativePolicy
from rlox.networks import init_weights
from rlox.optim import FlatParameters
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.rng import Streams

__all__ = ["CandleCollector"]

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Settings:
    """Types and ranges of the arguments."""

    env_id: str = param(doc="a native environment", verbatim=True)
    n_envs: int = param(doc="parallel environments", within="[1, 16777216]")
    n_steps: int = param(doc="steps of each in a rollout", within="[1, inf)")
    hidden: int = param(doc="width of the hidden layers", within="[1, 65536]")
    seed: int = param(doc="of every random stream", within="[0, 9223372036854775807]")
    gamma: float = param(doc="discount factor", within="[0, 1]")
    gae_lambda: float = param(doc="trace decay", within="[0, 1]")


class CandleCollector:
    """Steps native environments with a policy that acts in Rust, in a background thread.

    The policy is a `rlox.policies.DiscretePolicy` or `ContinuousPolicy` (whose noise does not depend on the
    state). Actor and critic have two tanh layers each, of width `hidden`. The initial weights are those of
    `HybridPPO` with the same seed.

    `sync_weights` sets new weights and starts a rollout in the background; `recv` and `try_recv` start one if
    no rollout is running or finished. At most one rollout runs at a time. The caller's work between
    `sync_weights` and `recv` overlaps with collecting; the update, which comes before `sync_weights`, does
    not. A batch always comes from the latest weights at the time of `recv`. If `sync_weights` is called twice
    before a `recv`, the first rollout is discarded and the environments' state is restored. Batches depend
    only on the arguments and on the weights at each `recv`, not on threads or timing. Episodes continue
    across batches.

    One thread at a time may call the collector: others wait, except in `try_recv`, which returns None. In
    the child of a fork, a running rollout starts again. The interpreter exits only after a running rollout.

    Parameters
    ----------
    env_id : one of `rlox.native_env_ids()`, or `module:Id-v0` for a module that has native environments
    n_envs : number of parallel environments
    obs_dim, n_actions : expected sizes, which the environment must have. `n_actions` is the number of
        choices, or the length of Box actions. None: not checked
    n_steps : steps per environment in a rollout
    hidden : width of each hidden layer
    seed : seed of environments, exploration and initial weights
    gamma, gae_lambda : discount and trace decay of the advantages

    Raises ConfigError for an argument that is out of range or does not fit the environment, UnknownNameError
    for an environment that does not run in Rust.

    Attributes
    ----------
    backend : where the policy acts: always `cpu`
    parameter_shapes : shapes of the parameters by name, in the order of flat weights
    """

    backend: ClassVar[str] = "cpu"

    def __init__(
        self,
        env_id: str = "CartPole-v1",
        n_envs: int = 16,
        obs_dim: int | None = None,
        n_actions: int | None = None,
        n_steps: int = 128,
        hidden: int = 64,
        seed: int = 42,
        *,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
    ) -> None:
        arguments = {
            "env_id": env_id,
            "n_envs": n_envs,
            "n_steps": n_steps,
            "hidden": hidden,
            "seed": seed,
            "gamma": gamma,
            "gae_lambda": gae_lambda,
        }
        settings = make(_Settings, arguments, "CandleCollector")
        _require_native(settings.env_id)
        config = EnvConfig(id=settings.env_id, n_envs=settings.n_envs)
        self._collector = collector = NativeCollector(
            settings.env_id,
            settings.n_envs,
            settings.seed,
            "cpu",
            settings.gamma,
            settings.gae_lambda,
            config=config,
        )
        env_obs_dim, actions = collector.env.observations.dim, collector.env.actions
        _require_dims(settings.env_id, obs_dim, n_actions, env_obs_dim, actions)
        policy_class = DiscretePolicy if actions.is_discrete else ContinuousPolicy
        with Streams(settings.seed).seeded_generators("init"), torch_threads(1):
            policy = init_weights(
                policy_class(env_obs_dim, actions.size, settings.hidden), settings.seed, orthogonal=True
            )
        self._policy = NativePolicy(policy, FlatParameters(policy))
        self._weights = ModuleWeights(policy)
        self.parameter_shapes: Mapping[str, tuple[int, ...]] = MappingProxyType(self._weights.shapes)
        self.n_steps = settings.n_steps
        self._lock = threading.Lock()
        self._rollout: _RolloutThread | None = None
        self._stopped = False

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the parameters in the order of flat weights, which is the order of `state_dict()`."""
        return tuple(self.parameter_shapes)

    def recv(self) -> Batch:
        """Return the next rollout; block until it is finished.

        The arrays are copies, time-major: row t * n_envs + i is step t of environment i.
        `observations` float32 `[rows, obs_dim]`; `actions` int64 `[rows]`, or for Box float32
        `[rows, n_actions]` before clipping by the environment; `rewards`, `log_probs`, `values`,
        `advantages` and `returns` float32 `[rows]`; `dones` bool `[rows]`, true where an episode ended.
        Advantages are generalised estimates (Schulman et al. 2016), without bootstrap after a termination
        and with the value of the final observation after a truncation; returns are advantages + values.

        Raises ConfigError after `stop()`, and errors of the background thread. After such an error the
        environments are in the state from before the failed rollout.
        """
        with self._locked():
            self._running_rollout().wait()
            return self._finish_rollout()

    def try_recv(self) -> Batch | None:
        """Return the next rollout if it is finished; None while it runs or another thread waits for it.

        Raises the same errors as `recv`.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._require_open()
            return self._finish_rollout() if self._running_rollout().finished_event.is_set() else None
        finally:
            self._lock.release()

    def sync_weights(
        self,
        weights: ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor],
        order: Sequence[str] | None = None,
    ) -> None:
        """Copy `weights` into the policy, and start the next rollout with them.

        `weights` are flat numbers in the order of `parameter_names`, as returned by
        `torch.nn.utils.parameters_to_vector(policy.parameters())`, or a mapping from names to arrays, like
        `policy.state_dict()`. They are converted to float32. `order` gives the parameter names in the
        order of flat weights; it must equal `parameter_names`.

        Raises ShapeError for another size, shape or order, UnknownNameError for missing or unknown names,
        NonFiniteError for NaN and infinity, ConfigError after `stop()`. After an error the weights are
        unchanged.
        """
        flat = self._weights.require_weights(weights, order)
        with self._locked():
            self._discard_rollout()
            self._weights.write(flat)
            self._running_rollout()

    def get_weights(self) -> NDArray[np.float32]:
        """Return a flat copy of the weights, in the order of `parameter_names`."""
        with self._lock:
            return self._weights.flat()

    def stop(self) -> None:
        """Stop collecting after the running rollout; the weights can still be read."""
        with self._lock:
            self._stopped = True
            if self._rollout is not None:
                self._rollout.wait()
            self._rollout = None
            self._collector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            self._require_open()
            yield

    def _require_open(self) -> None:
        if self._stopped:
            raise ConfigError("CandleCollector is stopped, expected a running one; make another to go on")

    def _running_rollout(self) -> _RolloutThread:
        """Return the running rollout, or start one."""
        if self._rollout is not None and self._rollout.is_orphaned():
            self._discard_rollout()
        if self._rollout is None:
            self._rollout = _RolloutThread(self._collector, self._policy, self.n_steps)
            self._rollout.start()
        return self._rollout

    def _finish_rollout(self) -> Batch:
        """Return the batch of the finished rollout, or raise its error."""
        rollout = self._rollout
        assert rollout is not None
        if rollout.error is not None:
            self._discard_rollout()
            raise rollout.error
        self._rollout = None
        return rollout.batch

    def _discard_rollout(self) -> None:
        """Discard the rollout and restore the environments' state from before it."""
        if self._rollout is not None:
            self._rollout.wait()
            self._collector.restore(self._rollout.start_state)
            self._rollout = None


class _RolloutThread(threading.Thread):
    """Collects one rollout in a thread.

    It has no reference to the `CandleCollector`. So after that is dropped or stopped, the thread runs for at
    most one rollout.

    Attributes
    ----------
    finished_event : set when there is a batch or an error. `Thread.join` is not reliable: if Ctrl-C
        interrupts it, Python 3.11 takes the running thread for an ended one.
    """

    def __init__(self, collector: NativeCollector, policy: NativePolicy, n_steps: int) -> None:
        super().__init__(name="rlox-candle-collector")
        self.start_state = collector.state()
        self.batch: Batch = {}
        self.error: BaseException | None = None
        self.finished_event = threading.Event()
        self._arguments = collector, policy, n_steps

    def run(self) -> None:
        """Collect, and copy the columns, since the next rollout overwrites them."""
        collector, policy, n_steps = self._arguments
        try:
            rollout = collector.collect(policy, n_steps)
            columns = {
                "observations": rollout.obs,
                "actions": rollout.actions,
                "rewards": rollout.rewards,
                "dones": rollout.terminated | rollout.truncated,
                "log_probs": rollout.log_probs,
                "values": rollout.values,
                "advantages": rollout.advantages,
                "returns": rollout.returns,
            }
            self.batch = {name: column.numpy().copy() for name, column in columns.items()}
        except BaseException as error:
            self.error = error
        finally:
            self.finished_event.set()

    def wait(self) -> None:
        """Wait until the thread has ended; return at once if it was lost in a fork."""
        if not self.is_orphaned():
            self.finished_event.wait()
            self.join()

    def is_orphaned(self) -> bool:
        """Return whether this is the child of a fork and the thread was still running in the parent."""
        return not (self.finished_event.is_set() or self.is_alive())


def _require_native(env_id: str) -> None:
    if native_env_class(env_id) is None:
        ids = native_env_ids()
        raise UnknownNameError(
            f"env_id={env_id!r}: CandleCollector steps native environments only, {', '.join(ids)}; "
            f"rlox.collectors.RolloutCollector steps any{nearest(env_id, ids)}"
        )


def _require_dims(
    env_id: str, obs_dim: int | None, n_actions: int | None, env_obs_dim: int, actions: ActionCodec
) -> None:
    """Raise `ConfigError` for sizes that differ from the environment's."""
    actions_text = f"{actions.size} choices" if actions.is_discrete else f"actions of length {actions.size}"
    dimensions = {
        "obs_dim": (obs_dim, env_obs_dim, f"observations of length {env_obs_dim}"),
        "n_actions": (n_actions, actions.size, actions_text),
    }
    for name, (value, expected, described) in dimensions.items():
        if value is not None and value != expected:
            raise ConfigError(
                f"{name}={value!r}: {env_id} has {described}; give {name}={expected} or leave it out"
            )
