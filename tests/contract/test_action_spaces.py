"""Tests each algorithm with each action space: it trains, evaluates and resumes, or refuses the space."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.factored_actions import CONTEXTS, SPACES, env_id, require_form
from helpers.selection import each_value_once

from rlox.algorithms import (
    A2C,
    ALGORITHMS,
    BC,
    CQL,
    DDPG,
    DQN,
    IQL,
    PPO,
    PQN,
    SAC,
    TD3,
    TD3BC,
    TQC,
    DecisionTransformer,
    Rainbow,
    RecurrentPPO,
)
from rlox.configs import ALGO_CONFIGS
from rlox.errors import UnsupportedSpaceError
from rlox.runs.record import record
from rlox.sources.store import InMemoryStore

ROLLOUT: Mapping[str, Any] = {"n_envs": 2, "n_steps": 16, "net_arch": (8,)}
REPLAY: Mapping[str, Any] = {
    "learning_starts": 16, "batch_size": 8, "buffer_size": 256, "net_arch": (8,),
}  # fmt: skip
SETTINGS: dict[Any, Mapping[str, Any]] = {
    PPO: {**ROLLOUT, "n_epochs": 2, "batch_size": 16},
    A2C: {**ROLLOUT, "n_steps": 8},
    RecurrentPPO: {**ROLLOUT, "n_epochs": 2, "batch_size": 16, "lstm_hidden_size": 8},
    PQN: {**ROLLOUT, "n_epochs": 2, "batch_size": 16},
    DQN: REPLAY,
    Rainbow: REPLAY,
    SAC: REPLAY,
    TQC: {**REPLAY, "n_quantiles": 5},
    TD3: REPLAY,
    DDPG: REPLAY,
    BC: {"batch_size": 8, "net_arch": (8,)},
    TD3BC: {"batch_size": 8, "net_arch": (8,)},
    IQL: {"batch_size": 8, "net_arch": (8,)},
    CQL: {"batch_size": 8, "net_arch": (8,)},
    DecisionTransformer: {"batch_size": 8, "hidden": 8, "n_layers": 1, "context_length": 3},
}
OFFLINE = (BC, TD3BC, IQL, CQL, DecisionTransformer)
TOTAL = 64
NOWHERE = {
    "Text": r"has action space Text\(.* expected Discrete, MultiDiscrete, .*; wrap it with ",
    "DictWithSequence": r", part path, has action space Sequence\(.*; wrap it with gymnasium",
}
CHOICE = ("Discrete", "DiscreteFromFive")
BOUNDED = ("Box", "BoxGrid", "BoxWhole", "BoxSingle", "DictOfBoxes")
KINDS: dict[Any, str] = {
    **dict.fromkeys((PQN, DQN, Rainbow), "Discrete"),
    **dict.fromkeys((SAC, CQL, DecisionTransformer), "Discrete or Box"),
    **dict.fromkeys((TQC, TD3, DDPG, TD3BC, IQL), "Box"),
}


def refusal(facade: Any, space: str) -> str | None:
    """Return the pattern of the message with which the algorithm refuses the space, or None."""
    if space in NOWHERE:
        return NOWHERE[space]
    kinds = KINDS.get(facade)
    if kinds is None or ("Discrete" in kinds and space in CHOICE):
        return None
    if "Box" in kinds and (space in BOUNDED or space == "BoxOneSided"):
        unbounded = f"{facade.name} needs Box actions with finite bounds, .*; wrap it with gymnasium"
        return None if space in BOUNDED else unbounded
    others = "bc" if facade in OFFLINE else "ppo, "
    return f"^{facade.name} needs {kinds} actions, {env_id(space)} has .*; use algo={others}"


def played(space: str) -> Any:
    """Record a dataset of a few episodes in the environment with that action space."""
    return record(PPO(env_id(space), **SETTINGS[PPO]), 4, deterministic=False).buffer()


def made(facade: Any, space: str, data: Any) -> Any:
    given = {"dataset": data, "env_id": env_id(space)} if facade in OFFLINE else {"env_id": env_id(space)}
    return facade(**given, seed=3, **SETTINGS[facade])


def learned(algorithm: Any) -> list[bytes]:
    """Return the bytes of the parameters, the environments and the clock."""
    state = algorithm.source.save(InMemoryStore())
    numbers = [p.detach().numpy().tobytes() for p in algorithm.policy.parameters()]
    return [*numbers, repr(state.get("env")).encode(), repr(algorithm.clock).encode()]


def test_the_matrix_has_every_algorithm_and_eleven_spaces_at_least() -> None:
    kinds = {name: ALGO_CONFIGS[name] for name in ALGORITHMS}
    anywhere = {n for n, kind in kinds.items() if kind.action_kinds and not kind.is_native_only}
    assert {facade.name for facade in SETTINGS} == anywhere
    assert len(SPACES) >= 11
    assert {type(space).__name__ for space in SPACES.values()} == {
        "Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple", "Text",
    }  # fmt: skip


PAIRS = list(product(SETTINGS, SPACES))
TAKEN = [pair for pair in PAIRS if refusal(*pair) is None]
REFUSED = [pair for pair in PAIRS if refusal(*pair) is not None]


@pytest.mark.parametrize(("facade", "space"), each_value_once(REFUSED))
def test_an_algorithm_says_why_it_does_not_take_a_space(facade: Any, space: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match=refusal(facade, space)) as refused:
        made(facade, space, None)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("facade", "space"), each_value_once(TAKEN))
def test_an_algorithm_learns_plays_and_goes_on_in_a_space(facade: Any, space: str, tmp_path: Path) -> None:
    data = played(space) if facade in OFFLINE else None
    whole, part = made(facade, space, data), made(facade, space, data)
    before = learned(whole)
    whole.train(TOTAL)
    assert learned(whole) != before
    part.fit(TOTAL, hooks=(lambda clock, *_: stop_halfway(part, clock),))
    assert TOTAL // 2 <= part.clock.now < TOTAL
    part.save(tmp_path / "part")
    given = {"dataset": data} if facade in OFFLINE else {}
    again = facade.from_checkpoint(tmp_path / "part", **given)
    again.train(TOTAL)
    assert learned(again) == learned(whole)
    assert again.evaluate(3).returns == whole.evaluate(3).returns
    _predicts(whole, space)


def stop_halfway(algorithm: Any, clock: Any) -> None:
    """Stop a run halfway; it keeps the schedules of the whole run."""
    if clock.now >= TOTAL // 2:
        algorithm.stop("interrupted")


def _predicts(algorithm: Any, space: str) -> None:
    """Check that actions belong to the space, and that a batch gives the actions of single observations."""
    seen = np.eye(CONTEXTS, dtype=np.float32)

    def predicted(obs: Any) -> Any:
        action = algorithm.predict(obs)
        return action[0] if isinstance(algorithm, RecurrentPPO) else action

    single = predicted(seen[0])
    if space in CHOICE:
        assert type(single) is int
        assert SPACES[space].contains(single)
    else:
        require_form(SPACES[space], single)
    batch = algorithm.components.actor.actions.unbatch(predicted(seen))
    assert len(batch) == CONTEXTS
    spread = [_numbers(action) for action in (single, batch[0])]
    torch.testing.assert_close(*spread, rtol=0.0, atol=1e-5)


def _numbers(action: Any) -> list[float]:
    """Return all numbers of an action, part by part."""
    if isinstance(action, dict):
        return [number for key in sorted(action) for number in _numbers(action[key])]
    if isinstance(action, tuple):
        return [number for part in action for number in _numbers(part)]
    return [float(number) for number in np.ravel(action)]
