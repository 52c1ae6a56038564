"""Tests the buffer on disk against the one in memory: equality, saves, closing."""

from __future__ import annotations

import shutil
import threading
import time

import numpy as np
import pytest
from helpers.waiting import PATIENCE, until

import rlox
from rlox.errors import CheckpointError, ConfigError, StaleIndexError, StorageError

SHAPE = {"obs_dim": 3, "act_dim": 1}


def push(buffer, steps, n_envs=1):
    """Pushes a row of each environment for each step; episodes end every ten steps."""
    for t in steps:
        obs = (t + np.arange(3 * n_envs, dtype=np.float32)).reshape(n_envs, 3)
        ends = np.full(n_envs, t % 10 == 9)
        parts = (obs, np.full(n_envs, t), np.full(n_envs, float(t)), ends, np.zeros(n_envs, bool))
        buffer.push(*(parts if n_envs > 1 else (part[0] for part in parts)))


def flushed(tmp_path, total=500):
    """Returns a buffer of 100 rows that are all on disk, and its folder."""
    buffer = rlox.MmapReplayBuffer(10, total, cold_path=tmp_path / "cold", **SHAPE)
    push(buffer, range(100))
    buffer.flush()
    return buffer, tmp_path / "cold"


def equal(left, right):
    """Returns whether two batches are equal."""
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


@pytest.mark.parametrize("n_envs", [1, 7])
def test_a_memory_mapped_buffer_samples_the_rows_of_a_buffer_in_memory(tmp_path, n_envs):
    all_rows = rlox.MmapReplayBuffer(30, 700, cold_path=tmp_path / "cold", n_envs=n_envs, **SHAPE)
    expected = rlox.ReplayBuffer(700, n_envs=n_envs, **SHAPE)
    for steps in (range(5), range(5, 90), range(90, 800)):
        push(all_rows, steps, n_envs)
        push(expected, steps, n_envs)
        assert len(all_rows) == len(expected)
        assert equal(all_rows.sample(300, seed=1), expected.sample(300, seed=1))
        assert equal(all_rows.sample(20, n_batches=3), expected.sample(20, n_batches=3))
    assert all_rows.n_hot < len(all_rows) and all_rows.disk_bytes > 0
    all_rows.verify()


@pytest.mark.parametrize("n_envs", [1, 3])
def test_n_step_windows_and_rows_by_index_are_those_of_a_buffer_in_memory(tmp_path, n_envs):
    settings = {"n_envs": n_envs, "seed": 5, **SHAPE}
    all_rows = rlox.MmapReplayBuffer(30, 600, cold_path=tmp_path / "cold", **settings)
    expected = rlox.ReplayBuffer(600, **settings)
    for steps in (range(5), range(5, 333), range(333, 700)):
        for buffer in (all_rows, expected):
            push(buffer, steps, n_envs)
            buffer.cut_episode(n_envs - 1)
        for n_step in (1, 3, 25):
            ask = {"n_step": n_step, "gamma": 0.97}
            left, right = all_rows.sample(300, **ask), expected.sample(300, **ask)
            assert equal(left, right) and left["discounts"].dtype == np.float32
            assert equal(all_rows.sample(300, out=left, **ask), expected.sample(300, **ask))
        indices = expected.sample(200)["indices"]
        all_rows.sample(200)
        assert equal(all_rows.gather(indices), expected.gather(indices))
    gone = 700 * n_envs - 600 - 1
    with pytest.raises(StaleIndexError, match=f"{gone} "):
        all_rows.gather([gone])
    with pytest.raises(ConfigError, match="gamma"):
        all_rows.sample(1, n_step=3)


def test_update_writes_only_to_unsealed_rows(tmp_path):
    settings = {"extra_columns": {"latent": ("float32", (2,))}, **SHAPE}
    buffer = rlox.MmapReplayBuffer(30, 100, cold_path=tmp_path / "cold", **settings)
    flags = np.zeros(25, bool)
    for _ in range(3):
        buffer.push_batch(
            np.zeros((25, 3)), flags, flags, flags, flags, np.ones((25, 3)),
            extra={"latent": np.zeros((25, 2))},
        )  # fmt: skip
    sealed = 75 - buffer.n_unsealed
    assert 0 < sealed < 75
    assert buffer.update("latent", [74, -1], [[1.0, 2.0], [3.0, 4.0]]) == 1
    with pytest.raises(StaleIndexError, match=r"row 75 is not .* rows 0 to 74"):
        buffer.update("latent", [74, 75], np.ones((2, 2)))
    with pytest.raises(ConfigError, match="segments never change"):
        buffer.update("latent", [74, sealed - 1], np.ones((2, 2)))
    buffer.flush()
    np.testing.assert_array_equal(buffer.gather([74, 73])["latent"], [[1, 2], [0, 0]])


def test_byte_images_in_stacks_take_a_frame_each_on_disk(tmp_path):
    settings = {"obs_shape": (4, 21, 21), "obs_dtype": "uint8", "act_dim": 1}
    settings["frame_stack"] = (4, "first")
    buffer = rlox.MmapReplayBuffer(100, 2_000, cold_path=tmp_path / "cold", **settings)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (2_004, 21, 21), np.uint8)
    for t in range(2_000):
        buffer.push(frames[t : t + 4], 0, 0.0, False, False, frames[t + 1 : t + 5])
    batch = buffer.sample(300, seed=0)
    for obs, next_obs, index in zip(*(batch[k] for k in ("obs", "next_obs", "indices")), strict=True):
        np.testing.assert_array_equal(obs, frames[int(index) : int(index) + 4])
        np.testing.assert_array_equal(next_obs, frames[int(index) + 1 : int(index) + 5])
    assert buffer.disk_bytes < 2_000 * 21 * 21 * 1.2


def test_dict_observations_and_extra_columns_come_back_from_disk(tmp_path):
    buffer = rlox.MmapReplayBuffer(
        2, 100, act_dim=1, cold_path=tmp_path / "cold",
        obs_spaces={"image": ("uint8", (2, 2)), "speed": ("float64", (1,))},
        extra_columns={"log_prob": ("float32", ())},
    )  # fmt: skip
    for t in range(60):
        obs = {"image": np.full((2, 2), t, np.uint8), "speed": [t / 3]}
        buffer.push(obs, 0, 0.0, False, False, obs, extra={"log_prob": -t})
    batch = buffer.sample(200, seed=0)
    t = batch["indices"].astype(int)
    np.testing.assert_array_equal(batch["obs"]["image"][:, 0, 0], t)
    np.testing.assert_array_equal(batch["obs"]["speed"][:, 0], t / 3)
    np.testing.assert_array_equal(batch["log_prob"], -t)


@pytest.mark.parametrize("new_rows", [0, 5])
@pytest.mark.parametrize("lost", ["*.seg", "lock", "*"])
def test_a_buffer_on_disk_detects_removed_files(tmp_path, lost, new_rows):
    buffer, path = flushed(tmp_path)
    for file in path.glob(lost):
        file.unlink()
    push(buffer, range(100, 100 + new_rows))
    error, match = StorageError, "lock file was removed or replaced"
    if lost == "*.seg":
        error, match = CheckpointError, "removed or cut short while a buffer used it"
    if lost == "lock":
        (path / "lock").touch()
    for call in (buffer.flush, lambda: buffer.save("mine"), lambda: buffer.close(keep=True)):
        with pytest.raises(error, match=match):
            call()
    assert buffer.gather([50])["rewards"] == 50.0


@pytest.mark.parametrize("lost", ["*.seg", "lock"])
def test_a_buffer_without_its_files_refuses_rows_when_memory_is_full(tmp_path, lost):
    buffer, path = flushed(tmp_path, 5_000)
    for file in path.glob(lost):
        file.unlink()
    with pytest.raises((CheckpointError, StorageError), match="cold"):
        push(buffer, range(100, 5_000))
    assert buffer.n_unsealed <= 50
    newest = len(buffer) - 1
    assert buffer.gather([newest - 1])["rewards"] == newest - 1


@pytest.mark.parametrize("how", ["removed", "cut short"])
@pytest.mark.parametrize("new_rows", [0, 10])
def test_closing_rewrites_a_lost_manifest(tmp_path, how, new_rows):
    buffer, path = flushed(tmp_path)
    (path / "newest.manifest").unlink()
    if how == "cut short":
        (path / "newest.manifest").touch()
    push(buffer, range(100, 100 + new_rows))
    buffer.close(keep=True)
    assert len(rlox.MmapReplayBuffer(10, 500, cold_path=path, **SHAPE)) == 100 + new_rows


def test_a_buffer_on_disk_detects_a_truncated_segment(tmp_path):
    buffer, path = flushed(tmp_path)
    segment = min(path.glob("*.seg"))
    segment.write_bytes(segment.read_bytes()[:50])
    for call in (buffer.flush, buffer.verify, lambda: buffer.close(keep=True)):
        with pytest.raises(CheckpointError, match=rf"{segment.name} is damaged at byte 50"):
            call()


def test_a_relative_folder_stays_where_it_was_when_the_process_goes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = rlox.MmapReplayBuffer(10, 500, cold_path="cold", **SHAPE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    push(buffer, range(100))
    buffer.close(keep=True)
    assert len(rlox.MmapReplayBuffer(10, 500, cold_path=tmp_path / "cold", **SHAPE)) == 100
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_buffer_whose_folder_is_gone_can_be_closed(tmp_path):
    buffer = rlox.MmapReplayBuffer(10, 500, cold_path=tmp_path / "cold", **SHAPE)
    push(buffer, range(100))
    shutil.rmtree(tmp_path / "cold")
    with pytest.raises(StorageError, match="lock file was removed"):
        buffer.close(keep=True)
    buffer.close()
    assert len(buffer) == buffer.n_unsealed == 0


def test_a_buffer_takes_over_kept_rows_unless_reopen_is_false(tmp_path):
    path = tmp_path / "cold"
    first = rlox.MmapReplayBuffer(10, 500, cold_path=path, **SHAPE)
    push(first, range(100))
    with pytest.raises(StorageError, match="another buffer or process"):
        rlox.MmapReplayBuffer(10, 500, cold_path=path, **SHAPE)
    before = first.sample(200, seed=0)
    first.close(keep=True)
    first.close()
    closed = (lambda: first.sample(1), lambda: push(first, [0]), lambda: first.gather([0]))
    for call in (*closed, first.flush):
        with pytest.raises(ConfigError, match="closed"):
            call()
    with pytest.raises(StorageError, match="reopen=True"):
        rlox.MmapReplayBuffer(10, 500, cold_path=path, reopen=False, **SHAPE)
    with pytest.raises(CheckpointError, match=r'no save "last" in .*cold; there is newest'):
        rlox.MmapReplayBuffer(10, 500, cold_path=path, **SHAPE).load()
    with pytest.raises(CheckpointError, match="layout"):
        rlox.MmapReplayBuffer(10, 500, 4, 1, cold_path=path)
    again = rlox.MmapReplayBuffer(10, 500, cold_path=path, **SHAPE)
    assert equal(again.sample(200, seed=0), before) and len(again) == 100
    again.close()
    assert not path.exists()


def test_a_loaded_memory_mapped_buffer_samples_exactly_as_before(tmp_path):
    buffer = rlox.MmapReplayBuffer(20, 300, cold_path=tmp_path / "cold", n_envs=2, **SHAPE)
    push(buffer, range(115), 2)
    buffer.sample(5)
    buffer.save("step-115")
    push(buffer, range(115, 400), 2)
    expected = buffer.sample(100), buffer.sample(100, seed=9)
    buffer.load("step-115")
    push(buffer, range(115, 400), 2)
    assert equal(buffer.sample(100), expected[0]) and equal(buffer.sample(100, seed=9), expected[1])


def test_replay_buffers_save_what_is_new_and_share_a_folder(tmp_path):
    buffer = rlox.ReplayBuffer(1_000, **SHAPE)
    push(buffer, range(900))
    whole = buffer.save(tmp_path, "step-900")
    push(buffer, range(900, 910))
    assert 0 < buffer.save(tmp_path, "step-910") * 10 < whole
    other = rlox.ReplayBuffer(1_000, **SHAPE)
    other.load(tmp_path, "step-910")
    assert equal(other.sample(100), buffer.sample(100))
    with pytest.raises(CheckpointError, match="step-901"):
        rlox.prune_replay(tmp_path, ["step-910", "step-901"])
    assert rlox.prune_replay(tmp_path, ["step-910"]) == 0
    with pytest.raises(CheckpointError, match="no save"):
        other.load(tmp_path, "step-900")
    assert rlox.prune_replay(tmp_path, []) == 2


def test_pruning_leaves_the_rows_of_a_buffer_on_disk(tmp_path):
    cold = tmp_path / "cold"
    buffer = rlox.MmapReplayBuffer(20, 300, cold_path=cold, **SHAPE)
    push(buffer, range(115))
    buffer.save("step-115")
    push(buffer, range(115, 250))
    expected = buffer.sample(100, seed=9)
    buffer.close(keep=True)
    rlox.prune_replay(cold, [])
    again = rlox.MmapReplayBuffer(20, 300, cold_path=cold, **SHAPE)
    assert len(again) == 250 and equal(again.sample(100, seed=9), expected)
    with pytest.raises(CheckpointError, match="no save"):
        again.load("step-115")
    again.close()
    with pytest.raises(ConfigError, match="newest"):
        rlox.ReplayBuffer(10, **SHAPE).save(tmp_path, "newest")
    with pytest.raises(StorageError, match="no such folder"):
        rlox.prune_replay(tmp_path / "none", [])
    assert not (tmp_path / "none").exists()


def test_a_save_ends_beside_a_busy_collector_and_closing_loses_no_row(tmp_path):
    cold = tmp_path / "cold"
    buffer = rlox.MmapReplayBuffer(3_000, 200_000, 64, 1, cold)
    obs, flags = np.ones((32, 64), np.float32), np.zeros(32, bool)
    stored: list[int] = []
    refused: list[str] = []

    def collect():
        try:
            while True:
                buffer.push_batch(obs, obs[:, :1], obs[:, 0], flags, flags, obs)
                stored.append(32)
                time.sleep(0.0005)
        except ConfigError as error:
            refused.append(str(error))

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    until(lambda: stored, "row from the collector")
    for _ in range(3):
        before = sum(stored)
        buffer.save("one")  # returns although rows keep coming
    buffer.close(keep=True)
    thread.join(PATIENCE)
    assert refused == ["buffer is closed, expected an open one; make another to go on"]
    again = rlox.MmapReplayBuffer(3_000, 200_000, 64, 1, cold)
    assert len(again) == sum(stored)
    again.load("one")
    assert before <= len(again) <= sum(stored)


def test_a_memory_mapped_buffer_refuses_invalid_sizes_and_cold_paths(tmp_path):
    for hot, total, settings in [
        (0, 10, SHAPE), (11, 10, SHAPE), (1, 2**40, SHAPE), (1, 10, {**SHAPE, "n_envs": 0}),
        (1, 10, {**SHAPE, "obs_dtyp": "uint8"}), (1, 10, {"obs_dim": 3}),
    ]:  # fmt: skip
        with pytest.raises(ConfigError):
            rlox.MmapReplayBuffer(hot, total, cold_path=tmp_path / "cold", **settings)
    with pytest.raises(ConfigError, match="cold_path"):
        rlox.MmapReplayBuffer(1, 10, **SHAPE)
    (tmp_path / "file").write_text("somebody's")
    with pytest.raises(StorageError, match="file"):
        rlox.MmapReplayBuffer(1, 10, cold_path=tmp_path / "file", **SHAPE)
