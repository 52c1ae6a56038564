"""Programs of calls for the buffers other than `ReplayBuffer`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables import constructors
from helpers.callables.buffers import COMMON, FACTS, IN_MEMORY, LEAST_BYTES, Program, segments
from helpers.callables.calls import LARGEST, count_of, named_save, save_name, stacked
from helpers.callables.engine import (
    Arguments,
    Draw,
    IntegerRange,
    any_numeric,
    as_array,
    as_integer,
    require,
    within,
)
from helpers.callables.ring_kinds import Priorities, Sequences, Tiers
from helpers.callables.rings import indices_of, outputs
from helpers.callables.schemas import FLAT, Schema, map_columns
from rlox import _core


class SequenceProgram(Program):
    """A program for `SequenceReplayBuffer`."""

    kind = _core.SequenceReplayBuffer
    steps = IN_MEMORY
    more = (1,)

    def settings(self) -> Arguments:
        return super().settings() | {"cross_episodes": self.capacity % 2 == 0}

    def make_model(self) -> Any:
        model = Sequences(self.capacity, self.n_envs, self.seed, self.schema)
        model.cross = self.capacity % 2 == 0
        return model

    def draw_sample(self) -> Arguments:
        arguments = self.draw_request() | {"seq_len": self.draw.integer(1, 4)}
        if self.draw.boolean():
            arguments["out"] = self.buffer.sample(**{"seed": 0, **arguments})
        return arguments

    def model_sample(
        self, batch_size: Any = None, seq_len: Any = None, seed: Any = None, n_batches: Any = None,
        out: Any = None,
    ) -> Any:  # fmt: skip
        length = as_integer(seq_len, 1, 2**16)
        size, count, lead = count_of(batch_size, n_batches, length)
        seed = None if seed is None else as_integer(seed, 0, LARGEST)
        template = self.model.batch([])
        shapes = map_columns(lambda a: np.zeros((*lead, length, *a.shape[1:]), a.dtype), template)
        shapes |= {k: np.zeros((*lead, length), bool) for k in ("is_first", "mask")}
        outputs(out, shapes)
        require(self.model.held_indices())
        batches = self.model.batches(seed, count)
        return stacked([self.model.windows(*key, size, length) for key in batches], lead)


class PrioritizedProgram(Program):
    """A program for `PrioritizedReplayBuffer`."""

    kind = _core.PrioritizedReplayBuffer
    steps = (*IN_MEMORY, "update_priorities", "set_beta")
    facts_read = (*FACTS, "alpha", "beta", "max_priority")

    def settings(self) -> Arguments:
        stratified = self.capacity % 2 == 0
        return super().settings() | {"alpha": 0.7, "stratified": stratified}

    def make_model(self) -> Any:
        model = Priorities(self.capacity, self.n_envs, self.seed, self.schema)
        model.alpha, model.stratified = 0.7, self.capacity % 2 == 0
        return model

    def draw_push(self) -> Arguments:
        priority = self.draw.rng.uniform(0.1, 3, self.n_envs)
        priorities = {"priority": self.draw.layout(priority, keep_dtype=True)}
        return super().draw_push() | (priorities if self.draw.boolean() else {})

    def draw_push_batch(self) -> Arguments:
        arguments = super().draw_push_batch()
        if self.draw.boolean():
            arguments["priorities"] = self.draw.rng.uniform(0.1, 3, len(arguments["rewards"]))
        return arguments

    def model_push(self, priority: Any = None, **arguments: Any) -> None:  # type: ignore[override]
        self._priorities = self.priorities(priority, self.n_envs)
        super().model_push(**arguments)

    def model_push_batch(self, priorities: Any = None, **arguments: Any) -> None:  # type: ignore[override]
        ends = as_array(arguments.get("terminated"))
        require(ends.ndim >= 1)
        self._priorities = self.priorities(priorities, len(ends))
        super().model_push_batch(**arguments)

    def priorities(self, value: Any, n: int) -> Any:
        if value is None:
            return [None] * n
        array = any_numeric(value)
        require(array.size == n)
        array = array.astype(np.float64).ravel()
        require(((array >= 0) & (array <= 1e100)).all())
        return array.tolist()

    def store(self, envs: list[int], rows: list[Any], batch: int | None) -> None:
        for env, row, priorities in zip(envs, rows, self._priorities, strict=True):
            self.model.store(env, row | {"priority": priorities})

    def sample_rows(self, seed: int | None, count: int, size: int, horizon: Any, her: Any) -> Any:
        require((self.model.leaves() > 0).any())
        batches = []
        for key, number in self.model.batches(seed, count):
            rows, weights = self.model.weighted(key, number, size)
            batches.append(self.model.batch(rows, horizon) | {"weights": weights})
        return batches

    def template(self, lead: tuple[int, ...], windows: bool) -> dict[str, Any]:
        return super().template(lead, windows) | {"weights": np.zeros(lead, np.float32)}

    def draw_sample(self) -> Arguments:
        if not (self.model.leaves() > 0).any():
            self.push_one()
        return super().draw_sample()

    def draw_update_priorities(self) -> Arguments:
        indices = self.draw_any_indices()
        priorities = self.draw.rng.uniform(0.1, 5, len(indices))
        return {"indices": indices, "priorities": self.draw.layout(priorities, keep_dtype=True)}

    def model_update_priorities(self, indices: Any = None, priorities: Any = None) -> int:
        numbers = indices_of(indices)
        require(as_array(priorities).shape == (len(numbers),))
        values = self.priorities(priorities, len(numbers))
        model, held_indices, stale = self.model, set(self.model.held_indices()), 0
        model.check_written(numbers)
        for index, value in zip(numbers, values, strict=True):
            if index in held_indices:
                env, t = model.find(index)
                model.rows[env][t]["priority"] = value
                model.max_priority = max(model.max_priority, value)
            else:
                stale += 1
        return stale

    def draw_set_beta(self) -> Arguments:
        return {"beta": self.draw.unit()}

    def draw_construct(self) -> Arguments:
        priorities = {"alpha": self.draw.unit(), "beta": self.draw.unit()}
        return super().draw_construct() | priorities | {"stratified": self.draw.boolean()}

    def model_construct(
        self, alpha: Any = 0.6, beta: Any = 0.4, stratified: Any = True, **arguments: Any
    ) -> Any:
        require(isinstance(stratified, (bool, np.bool_)))
        return *super().model_construct(**arguments), within(alpha, 0, 1), within(beta, 0, 1)

    def call_construct(self, **arguments: Any) -> Any:
        buffer = self.kind(**arguments)
        return buffer.capacity, buffer.n_envs, len(buffer), buffer.alpha, buffer.beta

    def model_set_beta(self, beta: Any = None) -> None:
        self.model.beta = within(beta, 0, 1)

    def model_facts(self) -> Any:
        return super().model_facts() | {"max_priority": self.model.max_priority}


class TieredProgram(Program):
    """A program for `MmapReplayBuffer`."""

    kind = _core.MmapReplayBuffer
    steps = (*COMMON, "flush", "verify", "close", "construct")
    call_save = None  # returns nothing
    facts_read = ("capacity", "n_envs", "n_hot", "n_unsealed", "nbytes", "disk_bytes")

    def __init__(self, draw: Draw, folder: Path, schema: Schema = FLAT) -> None:
        self.hot = draw.integer(3, 6)
        self.path = folder / "cold"
        super().__init__(draw, folder, schema)

    def make_model(self) -> Any:
        self.capacity = self.capacity + 3 * self.hot
        return Tiers(self.hot, self.capacity, self.n_envs, self.seed, self.schema)

    def make(self, seed: int) -> Any:
        sizes = (self.hot, self.capacity)
        return self.kind(*sizes, cold_path=self.path, seed=seed, **self.settings())

    def close(self) -> None:
        self.buffer.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def store(self, envs: list[int], rows: list[Any], batch: int | None) -> None:
        block = self.model.chunk if batch is not None else max(len(rows), 1)
        for start in range(0, len(rows), block):
            self.model.make_room()
            super().store(envs[start : start + block], rows[start : start + block], batch)

    def draw_save(self) -> Arguments:
        return {"name": self.draw.one_of("last", "step-1")}

    def model_save(self, name: Any = "last") -> None:  # type: ignore[override]
        require(save_name(name) != "newest")
        self.model.seal()
        self.saved["", str(name)] = self.model.copy()

    def model_load(self, name: Any = "last") -> None:  # type: ignore[override]
        require(isinstance(name, str) and ("", name) in self.saved)
        self.model = self.saved["", name].copy()
        self.model.begin = [self.model.start(env) for env in range(self.n_envs)]
        self.model.resume()

    def draw_update(self) -> Arguments:
        arguments = super().draw_update()
        if not self.unsealed():
            self.push_one()
        newest = np.array([env + self.n_envs * t for env, t in self.unsealed()], np.uint64)
        arguments["indices"] = self.draw.rng.choice(newest, len(arguments["indices"]))
        return arguments

    def unsealed(self) -> list[tuple[int, int]]:
        rows = enumerate(zip(self.model.rows, self.model.sealed, strict=True))
        return [(env, t) for env, (rows, sealed) in rows for t in range(sealed, len(rows))]

    def update_of(self, name: Any, indices: Any, values: Any) -> tuple[list[int], np.ndarray]:
        numbers, values = super().update_of(name, indices, values)
        held_indices, open_rows = set(self.model.held_indices()), set(self.unsealed())
        rows = [self.model.find(index) for index in numbers if index in held_indices]
        require(all(row in open_rows for row in rows))
        return numbers, values

    def draw_flush(self) -> Arguments:
        return {}

    draw_verify = draw_flush

    def model_flush(self) -> None:
        self.model.flush()

    def model_verify(self) -> None:
        """Expect no damage."""

    def draw_close(self) -> Arguments:
        return {"keep": self.draw.boolean()}

    def model_close(self, keep: Any = False) -> None:
        require(isinstance(keep, (bool, np.bool_)))
        if keep:
            self.model.flush()
            self.model.reopen()
        else:
            self.model = Tiers(self.hot, self.capacity, self.n_envs, self.seed, self.schema)

    def call_close(self, **arguments: Any) -> None:
        self.buffer.close(**arguments)
        self.buffer = self.make(self.seed)

    def draw_construct(self) -> Arguments:
        hot = self.draw.integer(1, 10)
        sizes = {"hot_capacity": hot, "total_capacity": self.draw.integer(hot + 3, 50)}
        path = {"cold_path": self.folder / "made", "reopen": self.draw.boolean()}
        return constructors.draw_settings(self.draw) | sizes | path

    def model_construct(  # type: ignore[override]
        self, hot_capacity: Any = None, total_capacity: Any = None, cold_path: Any = None,
        reopen: Any = True, **arguments: Any,
    ) -> Any:  # fmt: skip
        require(isinstance(reopen, (bool, np.bool_)))
        n_envs = constructors.check_settings(**arguments)
        total = as_integer(total_capacity, n_envs, 2**30 - 1)
        as_integer(hot_capacity, 1, total)
        named_save(cold_path, "any")
        return total // n_envs * n_envs, n_envs, 0

    def call_construct(self, **arguments: Any) -> Any:
        buffer = self.kind(**arguments)
        sizes = buffer.capacity, buffer.n_envs, len(buffer)
        buffer.close()
        return sizes

    def model_facts(self) -> Any:
        facts = super().model_facts()
        on_disk = sum(segments(self.path).values())
        # A save keeps segments of rows that the buffer itself has dropped.
        ours = IntegerRange(0, on_disk) if self.saved else on_disk
        in_memory = IntegerRange(LEAST_BYTES * self.model.hot())
        facts |= {"n_hot": self.model.hot(), "n_unsealed": self.model.unsealed()}
        return facts | {"disk_bytes": ours, "nbytes": in_memory}
