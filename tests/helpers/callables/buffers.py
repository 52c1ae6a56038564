"""Random programs of calls on a buffer and its model: half valid, half with one argument spoilt."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables import making
from helpers.callables.calls import LARGEST, count_of, named_save, stacked
from helpers.callables.engine import (
    SCALARS,
    Arguments,
    Between,
    Draw,
    as_array,
    require,
    spoilt,
    whole,
    within,
)
from helpers.callables.restoring import must_be_refused, restored
from helpers.callables.rings import COLUMNS, PADDING, Draws, Rings, flags, indices_of, outputs
from helpers.callables.schemas import FLAT, SCHEMAS, Schema, column, each
from rlox import _core

COMMON = (
    "push", "push_batch", "sample", "gather", "update", "cut_episode", "save", "load", "facts",
)  # fmt: skip
IN_MEMORY = (*COMMON, "clear", "restore", "prune", "construct", "from_spaces")
FACTS = ("capacity", "n_envs", "n_pushed", "nbytes")
ENDS = ("made", "refused", "stale")


LEAST_BYTES = 4 + 4 + 8 + 1  # of a row: action, reward, latent, flags


def segments(path: Any) -> dict[str, int]:
    """Sizes of the segments in a folder; none for what is no folder."""
    try:
        found = os.scandir(os.fsdecode(path))
    except (TypeError, ValueError, OSError):
        return {}
    return {file.name: file.stat().st_size for file in found if file.name.endswith(".seg")}


class Program:
    """A buffer, its model, and what was saved of it."""

    kind: Any = _core.ReplayBuffer
    steps: tuple[str, ...] = (*IN_MEMORY, "hindsight")
    facts_read: tuple[str, ...] = FACTS
    ends: tuple[str, ...] = ENDS
    """How calls come out."""

    schemas = tuple(SCHEMAS)
    """Names of the observations that it is run with."""

    def __init__(self, draw: Draw, folder: Path, schema: Schema = FLAT) -> None:
        self.draw, self.folder, self.schema, self.saved = draw, folder, schema, {}
        self.capacity, self.n_envs = draw.integer(3, 12), draw.integer(1, 3)
        self.seed = draw.integer(0, LARGEST)
        self.model = self.made()
        self.buffer = self.make(self.seed)

    saved: dict[tuple[str, str], Any]
    model: Any

    def settings(self) -> Arguments:
        own = {"act_dim": 1, "n_envs": self.n_envs, "extra_columns": {"latent": ("float32", (2,))}}
        return self.schema.settings() | own

    def made(self) -> Any:
        return Rings(self.capacity, self.n_envs, self.seed, self.schema)

    def make(self, seed: int) -> Any:
        return self.kind(self.capacity, seed=seed, **self.settings())

    def close(self) -> None:
        """Ends what the program leaves open."""

    # How valid arguments are drawn.

    def draw_rows(self, *lead: int) -> Arguments:
        given = {
            "obs": self.schema.draw(self.draw, *lead),
            "actions": self.draw.numbers(*lead, 1),
            "rewards": self.draw.numbers(*lead),
            "terminated": self.draw.flags(*lead),
            "truncated": self.draw.flags(*lead),
            "extra": {"latent": self.draw.numbers(*lead, 2)},
        }
        if self.draw.boolean():
            given["next_obs"] = self.schema.draw(self.draw, *lead)
        return given

    def draw_push(self) -> Arguments:
        given = self.draw_rows(*([self.n_envs] if self.n_envs > 1 else []))
        given["action"], given["reward"] = given.pop("actions"), given.pop("rewards")
        return given

    def draw_push_batch(self) -> Arguments:
        n = self.draw.integer(1, 6)
        given = self.draw_rows(n)
        if self.draw.boolean():
            given["env_ids"] = self.draw.rng.integers(0, self.n_envs, n)
        return given

    def draw_request(self) -> Arguments:
        given: Arguments = {"batch_size": self.draw.integer(1, 6)}
        if self.draw.boolean():
            given["seed"] = self.draw.integer(0, LARGEST)
        if self.draw.boolean():
            given["n_batches"] = self.draw.integer(1, 3)
        return given

    def push_one(self) -> None:
        given = self.draw_push()
        self.model_push(**given)
        self.buffer.push(**given)

    def draw_sample(self) -> Arguments:
        given = self.draw_request()
        how = self.draw.integer(0, 2)
        if how == 1 and self.goals:
            given["her"] = self.draw_goals()
        elif how:
            given |= {"n_step": self.draw.integer(1, 5), "gamma": self.draw.unit()}
        if self.draw.boolean():
            given["out"] = self.buffer.sample(**{"seed": 0, **given})
        return given

    @property
    def goals(self) -> bool:
        """Whether samples may be relabelled with other goals."""
        return self.kind is _core.ReplayBuffer and self.schema.goals

    def draw_goals(self) -> Any:
        strategy = self.draw.one_of("future", "final", "episode")
        return _core.HindsightConfig(making.goal_reward, strategy, ratio=self.draw.unit())

    def draw_indices(self) -> Any:
        held = self.model.held()
        return self.draw.rng.choice(np.array(held, np.uint64), self.draw.integer(1, 5))

    def draw_any_indices(self) -> Any:
        """Of rows that are held and that were, and of padding."""
        before = min(self.model.start(env) for env in range(self.n_envs)) * self.n_envs
        gone = np.array([*range(before), PADDING], np.uint64)
        unknown = self.draw.rng.choice(gone, self.draw.integer(0, 3))
        return self.draw.rng.permutation(np.concatenate([self.draw_indices(), unknown]))

    def with_one_ahead(self, indices: Any) -> Any:
        """The indices with one of a row that nobody has pushed yet."""
        env = self.draw.integer(0, self.n_envs - 1)
        ahead = len(self.model.rows[env]) + self.draw.integer(0, 1)
        changed = np.array(indices, np.uint64)
        changed[self.draw.integer(0, len(changed) - 1)] = env + self.n_envs * ahead
        return changed

    def draw_gather(self) -> Arguments:
        indices = self.draw_indices()
        out = self.draw.boolean()
        return {"indices": indices} | ({"out": self.buffer.gather(indices)} if out else {})

    def draw_update(self) -> Arguments:
        name, indices = self.draw.one_of(*COLUMNS), self.draw_any_indices()
        values = self.draw.numbers(len(indices), *COLUMNS[name])
        return {"column": name, "indices": indices, "values": values}

    def draw_cut_episode(self) -> Arguments:
        return {"env": self.draw.integer(0, self.n_envs - 1)}

    def draw_save(self) -> Arguments:
        path = self.draw.one_of(str, Path)(self.folder / self.draw.one_of("one", "two"))
        return {"path": path, "name": self.draw.one_of("last", "step-1")}

    def draw_load(self) -> Arguments:
        given = self.draw_save()
        self.buffer.save(**given)
        self.model_save(**given)
        return given

    def draw_restore(self) -> Arguments:
        self.good = self.buffer.state()
        return {"state": self.good}

    def draw_prune(self) -> Arguments:
        path = self.draw_load()["path"]
        there = [name for folder, name in self.saved if folder == os.fspath(path)]
        return {"path": path, "keep": there[self.draw.integer(0, len(there)) :]}

    def draw_clear(self) -> Arguments:
        return {}

    draw_facts = draw_clear

    # What a valid call does and returns.

    def draw_construct(self) -> Arguments:
        return making.draw_settings(self.draw) | {"capacity": self.draw.integer(3, 50)}

    def draw_from_spaces(self) -> Arguments:
        return making.spaces(self.draw)

    def draw_hindsight(self) -> Arguments:
        self.goal_seed = self.draw.integer(0, LARGEST)
        return making.draw_hindsight(self.draw)

    def rows_of(self, lead: tuple[int, ...], given: Arguments, extra: Any) -> list[Any]:
        require(isinstance(extra, dict) and extra.keys() == {"latent"})
        given["latent"] = extra["latent"]
        arrays = {name: column(given[name], lead, shape) for name, shape in COLUMNS.items()}
        arrays["obs"] = self.schema.read(given["obs"], lead)
        for name in ("terminated", "truncated"):
            arrays[name] = flags(given[name], lead)
        after = None
        if given["next_obs"] is not None:
            after = self.schema.read(given["next_obs"], lead)
        if not lead:
            return [arrays | {"next_obs": after}]
        arrays["next_obs"] = after

        def row(i: int) -> Any:
            at = lambda array: array[i]  # noqa: E731
            return {name: None if a is None else each(at, a) for name, a in arrays.items()}

        return [row(i) for i in range(lead[0])]

    def model_push(
        self, obs: Any = None, action: Any = None, reward: Any = None, terminated: Any = None,
        truncated: Any = None, next_obs: Any = None, extra: Any = None,
    ) -> None:  # fmt: skip
        given = {"obs": obs, "actions": action, "rewards": reward, "terminated": terminated}
        given |= {"truncated": truncated, "next_obs": next_obs}
        lead = (self.n_envs,) if self.n_envs > 1 else ()
        self.store(list(range(self.n_envs)), self.rows_of(lead, given, extra), None)

    def model_push_batch(self, env_ids: Any = None, extra: Any = None, **given: Any) -> None:
        names = ("obs", "actions", "rewards", "terminated", "truncated", "next_obs")
        given = {name: given.get(name) for name in names}
        ends = as_array(given["terminated"])
        require(ends.ndim >= 1)
        rows = self.rows_of((len(ends),), given, extra)
        self.store(self.environments(env_ids, len(rows)), rows, len(rows))

    def environments(self, env_ids: Any, n: int) -> list[int]:
        ids = [0] * n if env_ids is None else indices_of(env_ids)
        require(len(ids) == n and all(0 <= env < self.n_envs for env in ids))
        return ids

    def store(self, envs: list[int], rows: list[Any], batch: int | None) -> None:
        for env, row in zip(envs, rows, strict=True):
            self.model.store(env, row)

    def model_sample(
        self, batch_size: Any = None, seed: Any = None, n_batches: Any = None, n_step: Any = None,
        gamma: Any = None, out: Any = None, her: Any = None,
    ) -> Any:  # fmt: skip
        size, count, lead = count_of(batch_size, n_batches)
        seed = None if seed is None else whole(seed, 0, LARGEST)
        horizon = None
        require(her is None or (self.goals and isinstance(her, _core.HindsightConfig)))
        require(her is None or n_step is None)
        require((n_step is None) == (gamma is None))
        if n_step is not None:
            horizon = whole(n_step, 1, 65_536), within(gamma, 0, 1)
        outputs(out, self.like(lead, horizon is not None))
        require(self.model.held())
        return stacked(self.drawn(seed, count, size, horizon, her), lead)

    def like(self, lead: tuple[int, ...], windows: bool) -> dict[str, Any]:
        empty = self.model.batch([], (1, 1.0) if windows else None)
        return each(lambda a: np.zeros(lead + a.shape[1:], a.dtype), empty)

    def drawn(self, seed: int | None, count: int, size: int, horizon: Any, her: Any) -> Any:
        model, batches = self.model, []
        for key, number in model.batches(seed, count):
            draws = Draws(key, number)
            rows = [model.draw(draws) for _ in range(size)]
            batches.append(model.batch(rows, horizon))
            if her is not None:
                making.relabel(model, draws, rows, batches[-1], her)
        return batches

    def model_gather(self, indices: Any = None, out: Any = None) -> Any:
        numbers = indices_of(indices)
        batch = self.model.batch([])
        outputs(out, each(lambda a: np.zeros((len(numbers), *a.shape[1:]), a.dtype), batch))
        return self.model.batch([self.model.find(index) for index in numbers])

    def model_update(self, column: Any = None, indices: Any = None, values: Any = None) -> int:
        numbers, values = self.update_of(column, indices, values)
        held, stale = set(self.model.held()), 0
        self.model.written(numbers)
        for index, value in zip(numbers, values, strict=True):
            if index in held:
                env, t = self.model.find(index)
                self.model.rows[env][t][column] = value
            else:
                stale += 1
        return stale

    def update_of(self, name: Any, indices: Any, values: Any) -> tuple[list[int], np.ndarray]:
        require(isinstance(name, str) and name in COLUMNS)
        numbers = indices_of(indices)
        return numbers, column(values, (len(numbers),), COLUMNS[name])

    def model_cut_episode(self, env: Any = 0) -> None:
        self.model.cut(whole(env, 0, self.n_envs - 1))

    def model_clear(self) -> None:
        self.model.clear()

    def model_save(self, path: Any = None, name: Any = "last") -> Any:
        self.saved[named_save(path, name)] = self.model.copy()
        return 0

    def model_load(self, path: Any = None, name: Any = "last") -> None:
        key = named_save(path, name)
        require(key in self.saved)
        self.model = self.saved[key].copy()

    def model_restore(self, state: Any = None) -> None:
        """Whether other numbers make a buffer is not judged here, see `restoring`."""
        require(not must_be_refused(state, self.good))

    def model_prune(self, path: Any = None, keep: Any = None) -> Any:
        place, _ = named_save(path, "last")
        require(Path(place).is_dir())
        require(isinstance(keep, (list, tuple, bytes, np.ndarray)) and np.ndim(keep) < 2)
        require(all(isinstance(name, str) and name.isascii() for name in keep))
        require(all((place, name) in self.saved for name in keep))
        for key in [key for key in self.saved if key[0] == place and key[1] not in list(keep)]:
            del self.saved[key]
        return 0

    def model_facts(self) -> Any:
        facts = {name: getattr(self.model, name, None) for name in self.facts_read}
        facts |= {"len": len(self.model.held()), "capacity": self.model.each * self.n_envs}
        facts["nbytes"] = Between(LEAST_BYTES * len(self.model.held()))
        if "n_pushed" in facts:
            facts["n_pushed"] = sum(map(len, self.model.rows))
        return facts

    def model_construct(self, capacity: Any = None, **given: Any) -> Any:
        n_envs = making.check_settings(**given)
        return whole(capacity, n_envs, 2**30 - 1) // n_envs * n_envs, n_envs, 0

    def model_from_spaces(self, capacity: Any = None, **given: Any) -> Any:
        columns = making.columns_of(**given)
        return columns | {"capacity": whole(capacity, 1, 2**30 - 1)}

    def model_hindsight(self, **given: Any) -> Any:
        return making.hindsight_model(self.goal_seed, **given)

    # How the calls are made that are not plain methods.

    def call_construct(self, **given: Any) -> Any:
        made = self.kind(**given)
        return made.capacity, made.n_envs, len(made)

    more: tuple[int, ...] = ()

    def call_from_spaces(self, **given: Any) -> Any:
        made = self.kind.from_spaces(**given)
        columns = making.columns_of(given["observation_space"], given["action_space"])
        return making.stored(made, columns, *self.more) | {"capacity": made.capacity}

    def call_hindsight(self, **given: Any) -> Any:
        return making.hindsight(self.goal_seed, **given)

    def call_facts(self) -> Any:
        return {name: getattr(self.buffer, name) for name in self.facts_read} | {
            "len": len(self.buffer)
        }

    def call_save(self, path: Any, **given: Any) -> Any:
        """What it returns beyond the bytes of the segments that it wrote."""
        before = segments(path)
        wrote = self.buffer.save(path, **given)
        return wrote - sum(size for name, size in segments(path).items() if name not in before)

    def call_prune(self, path: Any, **given: Any) -> Any:
        """What it returns beyond the number of segments that went."""
        before = segments(path)
        went = _core.prune_replay(path, **given)
        return went - len(before.keys() - segments(path).keys())

    def call_restore(self, state: Any) -> Any:
        other = self.make(self.draw.integer(0, 9))
        if must_be_refused(state, self.good):
            other.restore(state)
        elif restored(other, state, self.good):
            if state is self.good:
                self.buffer = other
            elif len(other):
                other.clear()

    def caller(self, step: str) -> Callable[..., Any]:
        own = getattr(self, f"call_{step}", None)
        return own if own is not None else getattr(self.buffer, step)

    def spoil(self, step: str, given: Arguments) -> Arguments:
        """The arguments with one changed, in ways that fit the step."""
        if step == "prune" and self.draw.boolean():
            return given | {"keep": self.draw.one_of(*SCALARS, ["a", 3], ["\ud800"])}
        if step == "prune":
            return given | {"path": self.draw.one_of(*SCALARS)}
        if step == "gather" and self.draw.boolean():
            return {"indices": self.draw_any_indices()}
        if step in ("gather", "update", "update_priorities") and self.draw.boolean():
            return given | {"indices": self.with_one_ahead(given["indices"])}
        if not given:
            return {"surplus": 1}
        return spoilt(self.draw, given, frozenset())

    def contents(self) -> tuple[Any, Any]:
        """Everything held, as it is and as the model has it."""
        indices = np.array(self.model.held(), np.uint64)
        return self.buffer.gather(indices), self.model.contents() | {"indices": indices}
