"""Tests of properties of single sinks: the columns of csv, the files and times of TensorBoard."""

from __future__ import annotations

import csv
import errno
from pathlib import Path
from typing import Any

import pytest
from faults.disk import FaultyDisk

from rlox.configs import make_run
from rlox.loggers import Row, hyperparameters
from rlox.loggers.csv import CsvSink
from rlox.loggers.tensorboard import TensorboardSink


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, strict=True))


def test_a_late_column_is_added_to_the_csv_and_empty_in_earlier_rows(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "m.csv")
    sink.open(0)
    written: list[Row] = [{"a": 1}, {"a": 2, "b": 3}, {"b": 4}, {"c": None}]
    for row in written:
        sink.write([row])
    whole = [["a", "b", "c"], ["1", "", ""], ["2", "3", ""], ["", "4", ""], ["", "", ""]]
    assert table(tmp_path / "m.csv") == whole
    again = CsvSink(tmp_path / "m.csv")
    assert again.open(2) == 2
    again.write(written[2:])
    assert table(tmp_path / "m.csv") == whole


def test_lines_of_the_csv_are_whole_or_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(b"a,b\r\n1,2\r\n3,4\r\n5\r\n7,8\r\n")
    assert CsvSink(path).open(9) == 2
    assert path.read_bytes() == b"a,b\r\n1,2\r\n3,4\r\n"
    path.write_bytes(b"a,b\r\n1,2\r\n3,4")
    assert CsvSink(path).open(9) == 1
    assert path.read_bytes() == b"a,b\r\n1,2\r\n"


@pytest.mark.parametrize("rows", [[{}, {}], [{"a": None}, {}], [{}, {"a": 1}]])
def test_csv_sink_counts_empty_rows(rows: list[Row], tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "m.csv")
    assert sink.open(0) == 0
    sink.write(rows[:1])
    sink.write(rows[1:])
    assert CsvSink(tmp_path / "m.csv").open(9) == 2


@pytest.fixture
def events() -> Any:
    return pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def steps(reader: Any, name: str = "a") -> list[tuple[int, float]]:
    reader.Reload()
    return [(e.step, e.value) for e in reader.Scalars(name)]


def test_a_tensorboard_that_is_running_sees_rows_taken_back(tmp_path: Path, events: Any) -> None:
    sink = TensorboardSink(tmp_path, "env_steps")
    sink.open(0)
    sink.write([{"env_steps": i, "a": float(i)} for i in range(4)])
    reader = events.EventAccumulator(str(tmp_path), {"scalars": 0})
    assert steps(reader) == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]
    again = TensorboardSink(tmp_path, "env_steps")
    assert again.open(2) == 2
    again.write([{"env_steps": 2, "a": 20.0}])
    assert steps(reader) == [(0, 0.0), (1, 1.0), (2, 20.0)]
    assert [p.stat().st_size > 0 for p in sorted(tmp_path.iterdir())] == [False, True]
    assert steps(events.EventAccumulator(str(tmp_path))) == [(0, 0.0), (1, 1.0), (2, 20.0)]


def test_files_that_another_writer_left_in_the_folder_are_hidden_and_kept(
    tmp_path: Path, events: Any
) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("a", 9.0, 7)
    (theirs,) = tmp_path.iterdir()
    sink = TensorboardSink(tmp_path, "env_steps")
    assert sink.open(0) == 0
    sink.write([{"env_steps": 1, "a": 1.0}])
    assert steps(events.EventAccumulator(str(tmp_path))) == [(1, 1.0)]
    assert theirs.exists()


def test_tensorboard_events_keep_the_time_distance_of_their_rows(tmp_path: Path, events: Any) -> None:
    for last in (1, 2):
        sink = TensorboardSink(tmp_path, "updates")
        sink.open(last - 1)
        sink.write([{"env_steps": 5, "updates": last, "seconds": 100.0 * last}])
    reader = events.EventAccumulator(str(tmp_path))
    assert steps(reader, "env_steps") == [(1, 5.0), (2, 5.0)]
    first, second = reader.Scalars("seconds")
    assert second.wall_time - first.wall_time == pytest.approx(100.0, abs=1e-3)


def test_tensorboard_sink_removes_an_incomplete_event(tmp_path: Path, events: Any) -> None:
    sink = TensorboardSink(tmp_path, "env_steps")
    sink.open(0)
    (path,) = tmp_path.iterdir()
    head = path.stat().st_size
    assert sink.open(0) == 0 and path.stat().st_size == head
    sink.write([{"env_steps": 1, "a": 1.0}, {"env_steps": 2, "a": 2.0}])
    whole = path.read_bytes()
    for cut in range(head, len(whole)):
        path.write_bytes(whole[:cut])
        held = TensorboardSink(tmp_path, "env_steps").open(2)
        assert path.stat().st_size <= cut
        assert held == (0 if cut < (head + len(whole)) // 2 else 1)
    path.write_bytes(whole[: head + 3] + bytes(len(whole) - head - 3))
    assert TensorboardSink(tmp_path, "env_steps").open(2) == 0


def test_attempts_to_begin_a_file_leave_one_file(tmp_path: Path, events: Any) -> None:
    sink = TensorboardSink(tmp_path, "env_steps")
    for error in (errno.ENOSPC, errno.EIO):
        with FaultyDisk(1, until=9, error=error, torn=30, only="write"), pytest.raises(OSError):
            sink.open(0)
    assert sink.open(0) == 0
    sink.write([{"env_steps": 1, "a": 1.0}])
    assert len(list(tmp_path.iterdir())) == 1
    assert steps(events.EventAccumulator(str(tmp_path))) == [(1, 1.0)]


def hyperparameters_in(folder: Path) -> dict[str, Any]:
    """Return the hyperparameters that TensorBoard's own reader finds."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")
    plugin = pytest.importorskip("tensorboard.plugins.hparams.metadata")
    events = reading.EventMultiplexer().AddRunsFromDirectory(str(folder))
    events.Reload()
    (content,) = events.PluginRunToTagToContent(plugin.PLUGIN_NAME).values()
    told = plugin.parse_session_start_info_plugin_data(content[plugin.SESSION_START_INFO_TAG])
    return {k: getattr(v, v.WhichOneof("kind")) for k, v in told.hparams.items()}


def test_tensorboard_has_the_hyperparameters_of_the_run(tmp_path: Path, events: Any) -> None:
    config = make_run({"algo": {"name": "ppo", "learning_rate": "lin_1e-3"}, "seed": 3})
    given = hyperparameters(config)
    for kept in (0, 2, 1):  # a new file, a continued one, one that is cut back
        sink = TensorboardSink(tmp_path / "tb", "env_steps", given)
        assert sink.open(kept) == kept
        sink.write([{"env_steps": 1, "a": 1.0}, {"env_steps": 2, "a": 2.0}])
        found = hyperparameters_in(tmp_path)
        assert found.keys() == given.keys()
        assert (found["algo.learning_rate"], found["seed"]) == ("lin_1e-3", 3.0)
        assert (found["algo.normalize_advantages"], found["algo.target_kl"]) == (True, "null")
        assert "run_root" not in found
    assert [step for step, _ in steps(events.EventAccumulator(str(tmp_path / "tb")))] == [1, 1, 2]


def test_tensorboard_sink_continues_a_file_without_hyperparameters(tmp_path: Path, events: Any) -> None:
    sink = TensorboardSink(tmp_path, "env_steps")
    sink.open(0)
    sink.write([{"env_steps": 1, "a": 1.0}, {"env_steps": 2, "a": 2.0}])
    (path,) = tmp_path.iterdir()
    ends, data = sink._record_ends(path), path.read_bytes()
    path.write_bytes(data[: ends[1]] + data[ends[2] :])
    again = TensorboardSink(tmp_path, "env_steps")
    assert again.open(9) == 2
    again.write([{"env_steps": 3, "a": 3.0}])
    assert steps(events.EventAccumulator(str(tmp_path))) == [(1, 1.0), (2, 2.0), (3, 3.0)]
