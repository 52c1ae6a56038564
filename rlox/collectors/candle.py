"""Rollouts in the background, of weights that a loop of one's own hands over."""

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
from rlox.collectors.native import NativeCollector
from rlox.collectors.weights import ModuleWeights
from rlox.configs import EnvConfig, make, nearest, param
from rlox.devices import torch_threads
from rlox.envs.actions import ActionCodec
from rlox.envs.native import native_env_class
from rlox.errors import ConfigError, UnknownNameError
from rlox.networks import init_weights
from rlox.optim import FlatParameters
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.policies.native import NativePolicy
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
    """Steps native environments with a policy that acts in Rust, in a thread of its own.

    The policy has two tanh layers of `hidden` for the actor and two for the critic: the modules
    `rlox.policies.DiscretePolicy` and `ContinuousPolicy` (whose noise does not depend on the state),
    with the initial weights that `HybridPPO` has with the same seed.

    A rollout begins when `sync_weights` hands over weights, in the background, and otherwise when
    `recv` or `try_recv` asks for it; there is at most one. So what the caller does after `sync_weights`
    overlaps with collecting, and what it does before it, learning, does not: a batch is always of the
    weights that were there last when it was received. Where `sync_weights` comes twice before a `recv`,
    the rollout of the weights in between is taken back, environments and all. Batches are a function of
    the arguments and of the weights at each `recv`, whatever the threads and the timing; episodes go on
    from one to the next.

    One thread at a time: another one waits, but for `try_recv`, which says None. In the child of a fork
    a rollout under way is begun again. The interpreter ends once the rollout under way has.

    Parameters
    ----------
    env_id : one of `rlox.native_env_ids()`, or `module:Id-v0` of a module that offers native ones
    n_envs : parallel environments
    obs_dim, n_actions : what the environment has; others are an error. `n_actions` is the number of choices,
        of Box actions their length. None: not checked
    n_steps : steps of each environment in a rollout
    hidden : width of each hidden layer
    seed : keys environments, exploration and initial weights
    gamma, gae_lambda : discount and trace decay of the advantages

    Raises ConfigError for an argument out of range or not of the environment, UnknownNameError for an
    environment that does not run in Rust.

    Attributes
    ----------
    backend : the engine that acts: `cpu`, which is compiled in
    parameter_shapes : the shape of each parameter by its name, in the order of flat weights
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
        kind = DiscretePolicy if actions.is_discrete else ContinuousPolicy
        with Streams(settings.seed).seeded_generators("init"), torch_threads(1):
            policy = init_weights(
                kind(env_obs_dim, actions.size, settings.hidden), settings.seed, orthogonal=True
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
        """The names of the parameters in the order of flat weights, that of `state_dict()`."""
        return tuple(self.parameter_shapes)

    def recv(self) -> Batch:
        """The next rollout; blocks until it is there.

        Arrays of their own, time-major: row t * n_envs + i is step t of environment i.
        `observations` float32 `[rows, obs_dim]`; `actions` int64 `[rows]`, of Boxes float32 `[rows,
        n_actions]` before the environment clips them; `rewards`, `log_probs`, `values`, `advantages` and
        `returns` float32 `[rows]`; `dones` bool `[rows]`, where an episode ended. Advantages are
        generalised estimates (Schulman et al. 2016) without bootstrap after a termination, and with
        the value of the final observation after a truncation; returns are advantages + values.

        Raises ConfigError after `stop()`, and what went wrong in the thread, after which the
        environments are where they were before that rollout.
        """
        with self._locked():
            self._running_rollout().wait()
            return self._finish_rollout()

    def try_recv(self) -> Batch | None:
        """The next rollout if it is there, else None: it is being collected, or another thread waits for it.

        Raises what `recv` does.
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
        """Take over the policy's weights, and begin the next rollout with them.

        `weights` are flat float32 numbers in the order of `parameter_names`, as
        `torch.nn.utils.parameters_to_vector(policy.parameters())` gives them, or a mapping from names to
        arrays, as `policy.state_dict()` is. `order`, the names of the parameters in the order in which
        the flat ones stand, is compared with `parameter_names`.

        Raises ShapeError for another size, shape or order, UnknownNameError for names that are missing or
        not known, NonFiniteError for NaN and infinity, ConfigError after `stop()`; the weights then stay.
        """
        flat = self._weights.require_weights(weights, order)
        with self._locked():
            self._discard_rollout()
            self._weights.write(flat)
            self._running_rollout()

    def get_weights(self) -> NDArray[np.float32]:
        """A copy of the weights, flat, in the order of `parameter_names`."""
        with self._lock:
            return self._weights.flat()

    def stop(self) -> None:
        """End collecting, once the rollout under way is over; the weights can still be read."""
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
        """The rollout under way, or a new one."""
        if self._rollout is not None and self._rollout.is_orphaned():
            self._discard_rollout()
        if self._rollout is None:
            self._rollout = _RolloutThread(self._collector, self._policy, self.n_steps)
            self._rollout.start()
        return self._rollout

    def _finish_rollout(self) -> Batch:
        """What became of the rollout that is over."""
        rollout = self._rollout
        assert rollout is not None
        if rollout.error is not None:
            self._discard_rollout()
            raise rollout.error
        self._rollout = None
        return rollout.batch

    def _discard_rollout(self) -> None:
        """As if the rollout had never begun."""
        if self._rollout is not None:
            self._rollout.wait()
            self._collector.restore(self._rollout.start_state)
            self._rollout = None


class _RolloutThread(threading.Thread):
    """One rollout in a thread, which knows nothing of who asked for it.

    So that a collector that is dropped, or stopped, leaves no thread behind for longer than a rollout.

    Attributes
    ----------
    finished_event : set when it has a batch or an error. `Thread.join` cannot say it: where Ctrl-C ends that,
        Python 3.11 takes a thread that runs for one that has ended.
    """

    def __init__(self, collector: NativeCollector, policy: NativePolicy, n_steps: int) -> None:
        super().__init__(name="rlox-candle-collector")
        self.start_state = collector.state()
        self.batch: Batch = {}
        self.error: BaseException | None = None
        self.finished_event = threading.Event()
        self._arguments = collector, policy, n_steps

    def run(self) -> None:
        """Collect, and copy what the next rollout is written over."""
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
        """Return once it is over, or at once where a fork left its thread behind."""
        if not self.is_orphaned():
            self.finished_event.wait()
            self.join()

    def is_orphaned(self) -> bool:
        """Whether a fork left the thread behind in the parent before it was done."""
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
    """`ConfigError` for sizes that are not the environment's."""
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
