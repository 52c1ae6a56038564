"""Environments: which one, how many, by which engine, with which normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlox.configs.code import Code, code
from rlox.configs.params import param

WRAPPERS = (
    "flatten_observation",
    "hide_velocities",
    "rescale_action",
    "time_aware_observation",
)


@dataclass(frozen=True)
class EnvConfig:
    """One vectorised environment; any Gymnasium id works, native ids run in Rust."""

    id: str = param(
        "CartPole-v1", "Gymnasium id, or module:Id-v0 to import a module first", code="id"
    )
    n_envs: int = param(8, "parallel copies", within="[1, 1048576]", source="SB3 zoo, CartPole-v1")
    backend: str = param(
        "auto",
        "native: Rust; gymnasium: any registered id; auto: native where it exists",
        choices=("auto", "native", "gymnasium"),
    )
    precision: str = param(
        "f64",
        "native only: f64 steps as Gymnasium does, f32 is faster with a stated deviation per step",
        choices=("f64", "f32"),
    )
    workers: str = param(
        "sync",
        "gymnasium only: step in this process or in supervised subprocesses",
        choices=("sync", "subprocess"),
    )
    step_timeout: float = param(
        60.0,
        "seconds a subprocess may take for a step or a reset before it is killed and replaced",
        within="(0, inf)",
    )
    max_restarts: int = param(
        5,
        "how often in a row an environment in a subprocess may fail, without finishing an episode in "
        "between, before the run stops",
        within="[0, inf)",
    )
    worker_envs: int | None = param(
        None,
        "environments a subprocess; null: as many subprocesses as CPUs. One that dies or hangs takes all "
        "its episodes with it",
        within="[1, 1048576]",
    )
    kwargs: dict[str, Any] = param(
        doc="keyword arguments for gymnasium.make (the gymnasium backend is used)",
        default_factory=dict,
    )
    wrappers: tuple[Code, ...] = code(
        "wrappers, innermost first: by name, or your own as module:Name",
        names=WRAPPERS,
        many=True,
        plugin="wrapper",
    )
    reward_wrappers: tuple[Code, ...] = code(
        "the same for training only: returns are told and evaluations made without them",
        many=True,
        plugin="wrapper",
    )
    action_mask: str = param(
        "none",
        "where the mask of the allowed actions is, [n] of 0 and 1 (of each choice). info: in the info of "
        "reset and steps; method: what action_masks() gives; observation: a part of a Dict, not seen",
        choices=("none", "info", "method", "observation"),
        source="Huang and Ontanon 2020",
    )
    action_mask_key: str = param(
        "action_mask", "the name of the mask in the info, or of that part of the observation"
    )
    normalize_obs: bool = param(
        False, "standardise observations by running moments, clipped to +-10"
    )
    normalize_reward: bool = param(
        False, "divide rewards by the running std of the discounted return, clipped to +-10"
    )
