"""Tests that a replay buffer stores Discrete observations as integers and learns as from one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import TAXI_ID
from helpers.lost_steps import lose_steps
from helpers.observation_spaces import SPACES as SEEN
from helpers.observation_spaces import Samples

from rlox.algorithms import DQN
from rlox.build import build, resume
from rlox.configs import make_run
from rlox.envs.actions import ActionCodec
from rlox.envs.mask_forms import MaskForm
from rlox.envs.masks import MaskedSpace
from rlox.envs.parts_codec import codec_of
from rlox.offline.replay_columns import read_replay_columns
from rlox.runs import preflight
from rlox.runs.session import Session
from rlox.sources.replay_sampler import OneHotPacking

MASKED_SPACE = MaskedSpace(SEEN["a Dict"], MaskForm(ActionCodec.of(spaces.Discrete(3))), None)
SPACES = {**SEEN, "a Dict with a mask": MASKED_SPACE}
SMALL: dict[str, Any] = {
    "learning_starts": 60, "train_freq": 4, "batch_size": 8, "net_arch": [8], "seed": 1
}  # fmt: skip


@contextmanager
def one_hot() -> Iterator[None]:
    """Makes buffers keep one-hot rows within the block, as earlier versions did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OneHotPacking, "of", lambda codec: None)
        yield


# Lost are the first step, the last one of a chunk with its neighbours, a whole chunk, a middle step, the last
# step. Chunks of one environment end with its steps 64, 68, ...; those of two have two steps from 33 on.
LOST_STEPS = (1, 63, 64, 65, 81, 82, 83, 84, 90, 200)


def train_taxi(steps: int = 200, lost_steps: tuple[int, ...] = (), **kwargs: Any) -> DQN:
    """Trains on Taxi, whose observations are `Discrete(500)`."""
    size = {} if "memory" in kwargs else {"buffer_size": 300}
    algorithm = DQN(TAXI_ID, **SMALL, **size, **kwargs)
    with lose_steps(lost_steps):
        algorithm.train(steps)
    return algorithm


def require_same(first: Any, second: Any) -> None:
    for first_parameter, second_parameter in zip(
        first.policy.parameters(), second.policy.parameters(), strict=True
    ):
        assert torch.equal(first_parameter, second_parameter)


@pytest.mark.parametrize("name", SPACES)
def test_rows_that_were_packed_are_the_same_bytes_when_unpacked(name: str) -> None:
    space = SPACES[name]
    space.seed(1)
    codec = codec_of(space)
    rows = codec.rows(3, 4)
    for row in rows.reshape(12, -1):
        codec.encode_into(space.sample(), row)
    packing = OneHotPacking.of(codec)
    has_integers = any(word in str(space) for word in ("Discrete(", "MultiDiscrete("))
    assert (packing is not None) == has_integers
    if packing is not None:
        packed, again = packing.pack(rows), codec.rows(3, 4)
        again[:] = 7
        packing.unpack(packed, again)
        assert packed.shape == (3, 4, packing.dim) and packing.dim < codec.dim
        assert again.tobytes() == rows.tobytes()


@pytest.mark.parametrize("name", SPACES)
def test_packing_of_empty_rows_gives_empty_rows(name: str) -> None:
    codec = codec_of(SPACES[name])
    packing = OneHotPacking.of(codec)
    for shape in [(0,), (3, 0)]:
        if packing is not None:
            packed = packing.pack(codec.rows(*shape))
            assert (packed.shape, packed.dtype) == ((*shape, packing.dim), codec.dtype)
            packing.unpack(packed, codec.rows(*shape))


def test_a_packed_row_has_its_integer_after_the_other_numbers() -> None:
    space = spaces.Dict({"at": spaces.Discrete(500, start=-3), "speed": spaces.Box(-1, 1, (2,))})
    codec = codec_of(space)
    row = codec.encode_one({"at": 414, "speed": np.array([0.5, -0.25], np.float32)})
    packing = OneHotPacking.of(codec)
    assert packing is not None
    assert packing.pack(row).tolist() == [[0.5, -0.25, 417.0]]


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize(
    "more",
    [
        {}, {"prioritized": True}, {"n_step": 3}, {"n_envs": 2}, {"lost_steps": LOST_STEPS},
        {"lost_steps": LOST_STEPS, "n_step": 3, "n_envs": 2},
    ],
    ids=str,
)  # fmt: skip
def test_integers_learn_as_one_hot_rows_do_in_a_tenth_of_the_memory(
    backend: str, more: dict[str, Any]
) -> None:
    packed = train_taxi(backend=backend, **more)
    with one_hot():
        plain = train_taxi(backend=backend, **more)
    require_same(packed, plain)
    seen, known = packed.source.last_batch(), plain.source.last_batch()
    assert {k: v.tobytes() for k, v in seen.items()} == {k: v.tobytes() for k, v in known.items()}
    mine, theirs = packed.source.replay_sampler, plain.source.replay_sampler
    assert mine.full_bytes < 0.1 * theirs.full_bytes
    assert mine.buffer.nbytes <= 1.05 * mine.full_bytes


def test_integers_beside_images_and_normalised_numbers_learn_as_one_hot_rows_do() -> None:
    for name in ("pictures deep inside", "a Dict"):
        space = SEEN[name]

        def trained(seen: Any = space, normal: bool = name == "a Dict") -> DQN:
            algorithm = DQN(
                lambda: Samples(seen, spaces.Discrete(2)), encoder="mlp", normalize_obs=normal, **SMALL
            )  # fmt: skip
            algorithm.train(120)
            return algorithm

        mine = trained()
        with one_hot():
            plain = trained()
        require_same(mine, plain)
        assert mine.source.replay_sampler.packing is not None


def test_twenty_thousand_states_fit_into_a_buffer_of_a_million(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda root: 4 << 30)
    made = DQN(
        lambda: Samples(spaces.Discrete(20_000), spaces.Discrete(4)), buffer_size=1_000_000, net_arch=[8]
    )  # fmt: skip
    assert made.source.replay_sampler.full_bytes < 200 * 1_000_000


def test_the_preflight_check_counts_packed_rows() -> None:
    from rlox.sources.replay_sampler import sampled_bytes

    made = train_taxi(80)
    memory = made.source.replay_sampler
    (drawn, rows, _) = memory._outputs[1]
    arrays = {id(column): column for column in (*drawn.values(), *rows.values())}
    size = sum(np.asarray(column).nbytes for column in arrays.values()) / 8
    assert size <= sampled_bytes(made.source.env) <= 1.1 * size


def save_and_load(algorithm: DQN, folder: Path) -> DQN:
    algorithm.save(folder)
    return DQN.from_checkpoint(folder)


@pytest.mark.parametrize("more", [{}, {"prioritized": True, "beta": 1.0}], ids=str)
def test_a_saved_run_goes_on_as_if_never_stopped(more: dict[str, Any], tmp_path: Path) -> None:
    again = save_and_load(train_taxi(120, **more), tmp_path / "half")
    again.train(240)
    require_same(again, train_taxi(240, **more))
    assert again.source.replay_sampler.packing is not None


def test_a_checkpoint_with_one_hot_rows_goes_on_with_them(tmp_path: Path) -> None:
    with one_hot():
        early = train_taxi(120, memory="64kB")
        early.save(tmp_path / "old")
        whole = train_taxi(240, memory="64kB")
    again = DQN.from_checkpoint(tmp_path / "old")
    again.train(180)
    again = save_and_load(again, tmp_path / "newer")
    again.train(240)
    require_same(again, whole)
    assert again.source.replay_sampler.buffer.capacity == whole.source.replay_sampler.buffer.capacity
    assert again.source.replay_sampler.full_bytes == whole.source.replay_sampler.full_bytes


def config(total: int) -> Any:
    return make_run(
        {
            "algo": {
                "name": "dqn", "learning_starts": 50, "train_freq": 8, "batch_size": 8, "net_arch": [8],
                "exploration_fraction": 1e-6,
            },
            "buffer": {"name": "uniform", "capacity": 256},
            "env": {"id": TAXI_ID},
            "eval": {"episodes": 1, "max_steps": 20},
            "checkpoint": {"every": 100, "keep": 2},
            "total_steps": total,
        }
    )  # fmt: skip


@pytest.mark.parametrize("before", [one_hot, None], ids=["one-hot", "packed"])
def test_a_run_folder_of_either_kind_resumes_to_the_same_weights(
    before: Callable[[], Any] | None, tmp_path: Path
) -> None:
    def run(total: int, folder: Path) -> Any:
        folder.mkdir()
        algorithm = build(config(total))
        Session(algorithm, folder).run()
        return algorithm

    if before is None:
        run(200, tmp_path / "part")
    else:
        with before():
            run(200, tmp_path / "part")
    algorithm, saved_state = resume(tmp_path / "part", config(400))
    Session(algorithm, tmp_path / "part", resume_checkpoint=saved_state).run()
    require_same(algorithm, run(400, tmp_path / "whole"))
    assert (algorithm.source.replay_sampler.packing is None) == (before is not None)


def test_a_dataset_of_a_replay_has_one_hot_observations() -> None:
    packed = read_replay_columns(train_taxi(300))
    with one_hot():
        plain = read_replay_columns(train_taxi(300))
    assert packed["obs"].shape[1] == 500
    for name in plain:
        assert np.array_equal(packed[name], plain[name]), name
