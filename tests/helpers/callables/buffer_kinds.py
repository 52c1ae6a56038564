"""Programs of calls on the other buffers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables import making
from helpers.callables.buffers import COMMON, FACTS, IN_MEMORY, LEAST_BYTES, Program, segments
from helpers.callables.calls import LARGEST, count_of, named_save, save_name, stacked
from helpers.callables.engine import (
    Arguments,
    Between,
    Draw,
    any_numeric,
    as_array,
    require,
    whole,
    within,
)
from helpers.callables.rings import indices_of, outputs
from helpers.callables.rings_kinds import Priorities, Sequences, Tiers
from helpers.callables.schemas import FLAT, Schema, each
from rlox import _core


class SequenceProgram(Program):
    """`SequenceReplayBuffer`."""

    kind = _core.SequenceReplayBuffer
    steps = IN_MEMORY
    more = (1,)

    def settings(self) -> Arguments:
        return super().settings() | {"cross_episodes": self.capacity % 2 == 0}

    def made(self) -> Any:
        model = Sequences(self.capacity, self.n_envs, self.seed, self.schema)
        model.cross = self.capacity % 2 == 0
        return model

    def draw_sample(self) -> Arguments:
        given = self.draw_request() | {"seq_len": self.draw.integer(1, 4)}
        if self.draw.boolean():
            given["out"] = self.buffer.sample(**{"seed": 0, **given})
        return given

    def model_sample(
        self, batch_size: Any = None, seq_len: Any = None, seed: Any = None, n_batches: Any = None,
        out: Any = None,
    ) -> Any:  # fmt: skip
        length = whole(seq_len, 1, 2**16)
        size, count, lead = count_of(batch_size, n_batches, length)
        seed = None if seed is None else whole(seed, 0, LARGEST)
        like = self.model.batch([])
        shapes = each(lambda a: np.zeros((*lead, length, *a.shape[1:]), a.dtype), like)
        shapes |= {k: np.zeros((*lead, length), bool) for k in ("is_first", "mask")}
        outputs(out, shapes)
        require(self.model.held())
        batches = self.model.batches(seed, count)
        return stacked([self.model.windows(*key, size, length) for key in batches], lead)


class PrioritizedProgram(Program):
    """`PrioritizedReplayBuffer`."""

    kind = _core.PrioritizedReplayBuffer
    steps = (*IN_MEMORY, "update_priorities", "set_beta")
    facts_read = (*FACTS, "alpha", "beta", "max_priority")

    def settings(self) -> Arguments:
        stratified = self.capacity % 2 == 0
        return super().settings() | {"alpha": 0.7, "stratified": stratified}

    def made(self) -> Any:
        model = Priorities(self.capacity, self.n_envs, self.seed, self.schema)
        model.alpha, model.stratified = 0.7, self.capacity % 2 == 0
        return model

    def draw_push(self) -> Arguments:
        priority = self.draw.rng.uniform(0.1, 3, self.n_envs)
        own = {"priority": self.draw.layout(priority, keep_dtype=True)}
        return super().draw_push() | (own if self.draw.boolean() else {})

    def draw_push_batch(self) -> Arguments:
        given = super().draw_push_batch()
        if self.draw.boolean():
            given["priorities"] = self.draw.rng.uniform(0.1, 3, len(given["rewards"]))
        return given

    def model_push(self, priority: Any = None, **given: Any) -> None:  # type: ignore[override]
        self.own = self.priorities(priority, self.n_envs)
        super().model_push(**given)

    def model_push_batch(self, priorities: Any = None, **given: Any) -> None:  # type: ignore[override]
        ends = as_array(given.get("terminated"))
        require(ends.ndim >= 1)
        self.own = self.priorities(priorities, len(ends))
        super().model_push_batch(**given)

    def priorities(self, value: Any, n: int) -> Any:
        if value is None:
            return [None] * n
        array = any_numeric(value)
        require(array.size == n)
        array = array.astype(np.float64).ravel()
        require(((array >= 0) & (array <= 1e100)).all())
        return array.tolist()

    def store(self, envs: list[int], rows: list[Any], batch: int | None) -> None:
        for env, row, own in zip(envs, rows, self.own, strict=True):
            self.model.store(env, row | {"priority": own})

    def drawn(self, seed: int | None, count: int, size: int, horizon: Any, her: Any) -> Any:
        require((self.model.leaves() > 0).any())
        batches = []
        for key, number in self.model.batches(seed, count):
            rows, weights = self.model.weighted(key, number, size)
            batches.append(self.model.batch(rows, horizon) | {"weights": weights})
        return batches

    def like(self, lead: tuple[int, ...], windows: bool) -> dict[str, Any]:
        return super().like(lead, windows) | {"weights": np.zeros(lead, np.float32)}

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
        model, held, stale = self.model, set(self.model.held()), 0
        model.written(numbers)
        for index, value in zip(numbers, values, strict=True):
            if index in held:
                env, t = model.find(index)
                model.rows[env][t]["priority"] = value
                model.most = max(model.most, value)
            else:
                stale += 1
        return stale

    def draw_set_beta(self) -> Arguments:
        return {"beta": self.draw.unit()}

    def draw_construct(self) -> Arguments:
        own = {"alpha": self.draw.unit(), "beta": self.draw.unit()}
        return super().draw_construct() | own | {"stratified": self.draw.boolean()}

    def model_construct(
        self, alpha: Any = 0.6, beta: Any = 0.4, stratified: Any = True, **given: Any
    ) -> Any:
        require(isinstance(stratified, (bool, np.bool_)))
        return *super().model_construct(**given), within(alpha, 0, 1), within(beta, 0, 1)

    def call_construct(self, **given: Any) -> Any:
        made = self.kind(**given)
        return made.capacity, made.n_envs, len(made), made.alpha, made.beta

    def model_set_beta(self, beta: Any = None) -> None:
        self.model.beta = within(beta, 0, 1)

    def model_facts(self) -> Any:
        return super().model_facts() | {"max_priority": self.model.most}


class TieredProgram(Program):
    """`MmapReplayBuffer`."""

    kind = _core.MmapReplayBuffer
    steps = (*COMMON, "flush", "verify", "close", "construct")
    call_save = None  # returns nothing
    facts_read = ("capacity", "n_envs", "n_hot", "n_unsealed", "nbytes", "disk_bytes")

    def __init__(self, draw: Draw, folder: Path, schema: Schema = FLAT) -> None:
        self.hot = draw.integer(3, 6)
        self.path = folder / "cold"
        super().__init__(draw, folder, schema)

    def made(self) -> Any:
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
        self.model.resumed()

    def draw_update(self) -> Arguments:
        given = super().draw_update()
        if not self.unsealed():
            self.push_one()
        newest = np.array([env + self.n_envs * t for env, t in self.unsealed()], np.uint64)
        given["indices"] = self.draw.rng.choice(newest, len(given["indices"]))
        return given

    def unsealed(self) -> list[tuple[int, int]]:
        rows = enumerate(zip(self.model.rows, self.model.sealed, strict=True))
        return [(env, t) for env, (rows, sealed) in rows for t in range(sealed, len(rows))]

    def update_of(self, name: Any, indices: Any, values: Any) -> tuple[list[int], np.ndarray]:
        numbers, values = super().update_of(name, indices, values)
        held, open_rows = set(self.model.held()), set(self.unsealed())
        found = [self.model.find(index) for index in numbers if index in held]
        require(all(row in open_rows for row in found))
        return numbers, values

    def draw_flush(self) -> Arguments:
        return {}

    draw_verify = draw_flush

    def model_flush(self) -> None:
        self.model.flush()

    def model_verify(self) -> None:
        """Nothing is damaged."""

    def draw_close(self) -> Arguments:
        return {"keep": self.draw.boolean()}

    def model_close(self, keep: Any = False) -> None:
        require(isinstance(keep, (bool, np.bool_)))
        if keep:
            self.model.flush()
            self.model.reopened()
        else:
            self.model = Tiers(self.hot, self.capacity, self.n_envs, self.seed, self.schema)

    def call_close(self, **given: Any) -> None:
        self.buffer.close(**given)
        self.buffer = self.make(self.seed)

    def draw_construct(self) -> Arguments:
        hot = self.draw.integer(1, 10)
        sizes = {"hot_capacity": hot, "total_capacity": self.draw.integer(hot + 3, 50)}
        path = {"cold_path": self.folder / "made", "reopen": self.draw.boolean()}
        return making.draw_settings(self.draw) | sizes | path

    def model_construct(  # type: ignore[override]
        self, hot_capacity: Any = None, total_capacity: Any = None, cold_path: Any = None,
        reopen: Any = True, **given: Any,
    ) -> Any:  # fmt: skip
        require(isinstance(reopen, (bool, np.bool_)))
        n_envs = making.check_settings(**given)
        total = whole(total_capacity, n_envs, 2**30 - 1)
        whole(hot_capacity, 1, total)
        named_save(cold_path, "any")
        return total // n_envs * n_envs, n_envs, 0

    def call_construct(self, **given: Any) -> Any:
        made = self.kind(**given)
        found = made.capacity, made.n_envs, len(made)
        made.close()
        return found

    def model_facts(self) -> Any:
        facts = super().model_facts()
        on_disk = sum(segments(self.path).values())
        # a save keeps segments of rows that the buffer itself has forgotten
        ours = Between(0, on_disk) if self.saved else on_disk
        in_memory = Between(LEAST_BYTES * self.model.hot())
        facts |= {"n_hot": self.model.hot(), "n_unsealed": self.model.unsealed()}
        return facts | {"disk_bytes": ours, "nbytes": in_memory}
