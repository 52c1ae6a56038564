"""Random programs of calls on a buffer and its model: half valid, half with one spoilt argument."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables import constructors
from helpers.callables.calls import LARGEST, count_of, named_save, stacked
from helpers.callables.changed_states import must_be_refused, restore_changed
from helpers.callables.engine import (
    SCALARS,
    Arguments,
    Draw,
    IntegerRange,
    as_array,
    as_integer,
    require,
    spoil_one,
    within,
)
from helpers.callables.rings import COLUMNS, PADDING, Draws, Rings, flags, indices_of, outputs
from helpers.callables.schemas import FLAT, SCHEMAS, Schema, column, map_columns
from rlox import _core

COMMON = (
    "push", "push_batch", "sample", "gather", "update", "cut_episode", "save", "load", "facts",
)  # fmt: skip
IN_MEMORY = (*COMMON, "clear", "restore", "prune", "construct", "from_spaces")
FACTS = ("capacity", "n_envs", "n_pushed", "nbytes")
ENDS = ("made", "refused", "stale")


LEAST_BYTES = 4 + 4 + 8 + 1  # of a row: action, reward, latent, flags


def segments(path: Any) -> dict[str, int]:
    """Return the sizes of the segments in a folder; empty if the path is not a folder."""
    try:
        entries = os.scandir(os.fsdecode(path))
    except (TypeError, ValueError, OSError):
        return {}
    return {file.name: file.stat().st_size for file in entries if file.name.endswith(".seg")}


class Program:
    """A buffer, its model, and the saved copies of the model."""

    kind: Any = _core.ReplayBuffer
    steps: tuple[str, ...] = (*IN_MEMORY, "hindsight")
    facts_read: tuple[str, ...] = FACTS
    ends: tuple[str, ...] = ENDS
    """Possible ends of calls."""

    schemas = tuple(SCHEMAS)
    """Names of the observation schemas of the program."""

    def __init__(self, draw: Draw, folder: Path, schema: Schema = FLAT) -> None:
        self.draw, self.folder, self.schema, self.saved = draw, folder, schema, {}
        self.capacity, self.n_envs = draw.integer(3, 12), draw.integer(1, 3)
        self.seed = draw.integer(0, LARGEST)
        self.model = self.make_model()
        self.buffer = self.make(self.seed)

    saved: dict[tuple[str, str], Any]
    model: Any

    def settings(self) -> Arguments:
        settings = {
            "act_dim": 1,
            "n_envs": self.n_envs,
            "extra_columns": {"latent": ("float32", (2,))},
        }
        return self.schema.settings() | settings

    def make_model(self) -> Any:
        return Rings(self.capacity, self.n_envs, self.seed, self.schema)

    def make(self, seed: int) -> Any:
        return self.kind(self.capacity, seed=seed, **self.settings())

    def close(self) -> None:
        """Close resources that the program leaves open."""

    # Draws of valid arguments.

    def draw_rows(self, *lead: int) -> Arguments:
        arguments = {
            "obs": self.schema.draw(self.draw, *lead),
            "actions": self.draw.numbers(*lead, 1),
            "rewards": self.draw.numbers(*lead),
            "terminated": self.draw.flags(*lead),
            "truncated": self.draw.flags(*lead),
            "extra": {"latent": self.draw.numbers(*lead, 2)},
        }
        if self.draw.boolean():
            arguments["next_obs"] = self.schema.draw(self.draw, *lead)
        return arguments

    def draw_push(self) -> Arguments:
        arguments = self.draw_rows(*([self.n_envs] if self.n_envs > 1 else []))
        arguments["action"], arguments["reward"] = (
            arguments.pop("actions"),
            arguments.pop("rewards"),
        )
        return arguments

    def draw_push_batch(self) -> Arguments:
        n = self.draw.integer(1, 6)
        arguments = self.draw_rows(n)
        if self.draw.boolean():
            arguments["env_ids"] = self.draw.rng.integers(0, self.n_envs, n)
        return arguments

    def draw_request(self) -> Arguments:
        arguments: Arguments = {"batch_size": self.draw.integer(1, 6)}
        if self.draw.boolean():
            arguments["seed"] = self.draw.integer(0, LARGEST)
        if self.draw.boolean():
            arguments["n_batches"] = self.draw.integer(1, 3)
        return arguments

    def push_one(self) -> None:
        arguments = self.draw_push()
        self.model_push(**arguments)
        self.buffer.push(**arguments)

    def draw_sample(self) -> Arguments:
        arguments = self.draw_request()
        kind = self.draw.integer(0, 2)
        if kind == 1 and self.has_goals:
            arguments["her"] = self.draw_goals()
        elif kind:
            arguments |= {"n_step": self.draw.integer(1, 5), "gamma": self.draw.unit()}
        if self.draw.boolean():
            arguments["out"] = self.buffer.sample(**{"seed": 0, **arguments})
        return arguments

    @property
    def has_goals(self) -> bool:
        """Whether hindsight can relabel samples."""
        return self.kind is _core.ReplayBuffer and self.schema.has_goals

    def draw_goals(self) -> Any:
        strategy = self.draw.one_of("future", "final", "episode")
        return _core.HindsightConfig(constructors.goal_reward, strategy, ratio=self.draw.unit())

    def draw_indices(self) -> Any:
        indices = self.model.held_indices()
        return self.draw.rng.choice(np.array(indices, np.uint64), self.draw.integer(1, 5))

    def draw_any_indices(self) -> Any:
        """Return indices of held rows, of earlier rows and of padding."""
        before = min(self.model.start(env) for env in range(self.n_envs)) * self.n_envs
        earlier = np.array([*range(before), PADDING], np.uint64)
        unknown = self.draw.rng.choice(earlier, self.draw.integer(0, 3))
        return self.draw.rng.permutation(np.concatenate([self.draw_indices(), unknown]))

    def with_one_ahead(self, indices: Any) -> Any:
        """Return the indices with one replaced by the index of a future row."""
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
        arguments = self.draw_save()
        self.buffer.save(**arguments)
        self.model_save(**arguments)
        return arguments

    def draw_restore(self) -> Arguments:
        self.good = self.buffer.state()
        return {"state": self.good}

    def draw_prune(self) -> Arguments:
        path = self.draw_load()["path"]
        save_names = [name for folder, name in self.saved if folder == os.fspath(path)]
        return {"path": path, "keep": save_names[self.draw.integer(0, len(save_names)) :]}

    def draw_clear(self) -> Arguments:
        return {}

    draw_facts = draw_clear

    # Models of valid calls: their effects and results.

    def draw_construct(self) -> Arguments:
        return constructors.draw_settings(self.draw) | {"capacity": self.draw.integer(3, 50)}

    def draw_from_spaces(self) -> Arguments:
        return constructors.spaces(self.draw)

    def draw_hindsight(self) -> Arguments:
        self.goal_seed = self.draw.integer(0, LARGEST)
        return constructors.draw_hindsight(self.draw)

    def rows_of(self, lead: tuple[int, ...], arguments: Arguments, extra: Any) -> list[Any]:
        require(isinstance(extra, dict) and extra.keys() == {"latent"})
        arguments["latent"] = extra["latent"]
        arrays = {name: column(arguments[name], lead, shape) for name, shape in COLUMNS.items()}
        arrays["obs"] = self.schema.read(arguments["obs"], lead)
        for name in ("terminated", "truncated"):
            arrays[name] = flags(arguments[name], lead)
        after = None
        if arguments["next_obs"] is not None:
            after = self.schema.read(arguments["next_obs"], lead)
        if not lead:
            return [arrays | {"next_obs": after}]
        arrays["next_obs"] = after

        def row(i: int) -> Any:
            at = lambda array: array[i]  # noqa: E731
            return {name: None if a is None else map_columns(at, a) for name, a in arrays.items()}

        return [row(i) for i in range(lead[0])]

    def model_push(
        self, obs: Any = None, action: Any = None, reward: Any = None, terminated: Any = None,
        truncated: Any = None, next_obs: Any = None, extra: Any = None,
    ) -> None:  # fmt: skip
        arguments = {"obs": obs, "actions": action, "rewards": reward, "terminated": terminated}
        arguments |= {"truncated": truncated, "next_obs": next_obs}
        lead = (self.n_envs,) if self.n_envs > 1 else ()
        self.store(list(range(self.n_envs)), self.rows_of(lead, arguments, extra), None)

    def model_push_batch(self, env_ids: Any = None, extra: Any = None, **arguments: Any) -> None:
        names = ("obs", "actions", "rewards", "terminated", "truncated", "next_obs")
        arguments = {name: arguments.get(name) for name in names}
        ends = as_array(arguments["terminated"])
        require(ends.ndim >= 1)
        rows = self.rows_of((len(ends),), arguments, extra)
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
        seed = None if seed is None else as_integer(seed, 0, LARGEST)
        horizon = None
        require(her is None or (self.has_goals and isinstance(her, _core.HindsightConfig)))
        require(her is None or n_step is None)
        require((n_step is None) == (gamma is None))
        if n_step is not None:
            horizon = as_integer(n_step, 1, 65_536), within(gamma, 0, 1)
        outputs(out, self.template(lead, horizon is not None))
        require(self.model.held_indices())
        return stacked(self.sample_rows(seed, count, size, horizon, her), lead)

    def template(self, lead: tuple[int, ...], windows: bool) -> dict[str, Any]:
        empty = self.model.batch([], (1, 1.0) if windows else None)
        return map_columns(lambda a: np.zeros(lead + a.shape[1:], a.dtype), empty)

    def sample_rows(self, seed: int | None, count: int, size: int, horizon: Any, her: Any) -> Any:
        model, batches = self.model, []
        for key, number in model.batches(seed, count):
            draws = Draws(key, number)
            rows = [model.draw(draws) for _ in range(size)]
            batches.append(model.batch(rows, horizon))
            if her is not None:
                constructors.relabel(model, draws, rows, batches[-1], her)
        return batches

    def model_gather(self, indices: Any = None, out: Any = None) -> Any:
        numbers = indices_of(indices)
        batch = self.model.batch([])
        outputs(out, map_columns(lambda a: np.zeros((len(numbers), *a.shape[1:]), a.dtype), batch))
        return self.model.batch([self.model.find(index) for index in numbers])

    def model_update(self, column: Any = None, indices: Any = None, values: Any = None) -> int:
        numbers, values = self.update_of(column, indices, values)
        held_indices, stale = set(self.model.held_indices()), 0
        self.model.check_written(numbers)
        for index, value in zip(numbers, values, strict=True):
            if index in held_indices:
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
        self.model.cut(as_integer(env, 0, self.n_envs - 1))

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
        """Refuse only states that no buffer writes; `restore_changed` checks the others."""
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
        facts |= {
            "len": len(self.model.held_indices()),
            "capacity": self.model.rows_per_env * self.n_envs,
        }
        facts["nbytes"] = IntegerRange(LEAST_BYTES * len(self.model.held_indices()))
        if "n_pushed" in facts:
            facts["n_pushed"] = sum(map(len, self.model.rows))
        return facts

    def model_construct(self, capacity: Any = None, **arguments: Any) -> Any:
        n_envs = constructors.check_settings(**arguments)
        return as_integer(capacity, n_envs, 2**30 - 1) // n_envs * n_envs, n_envs, 0

    def model_from_spaces(self, capacity: Any = None, **arguments: Any) -> Any:
        columns = constructors.columns_of(**arguments)
        return columns | {"capacity": as_integer(capacity, 1, 2**30 - 1)}

    def model_hindsight(self, **arguments: Any) -> Any:
        return constructors.hindsight_model(self.goal_seed, **arguments)

    # Calls that are not plain methods.

    def call_construct(self, **arguments: Any) -> Any:
        buffer = self.kind(**arguments)
        return buffer.capacity, buffer.n_envs, len(buffer)

    more: tuple[int, ...] = ()

    def call_from_spaces(self, **arguments: Any) -> Any:
        buffer = self.kind.from_spaces(**arguments)
        columns = constructors.columns_of(arguments["observation_space"], arguments["action_space"])
        return constructors.stored_columns(buffer, columns, *self.more) | {"capacity": buffer.capacity}

    def call_hindsight(self, **arguments: Any) -> Any:
        return constructors.hindsight(self.goal_seed, **arguments)

    def call_facts(self) -> Any:
        return {name: getattr(self.buffer, name) for name in self.facts_read} | {"len": len(self.buffer)}

    def call_save(self, path: Any, **arguments: Any) -> Any:
        """Return the result minus the bytes of the segments that the call wrote."""
        before = segments(path)
        n_bytes = self.buffer.save(path, **arguments)
        return n_bytes - sum(size for name, size in segments(path).items() if name not in before)

    def call_prune(self, path: Any, **arguments: Any) -> Any:
        """Return the result minus the number of segments that the call removed."""
        before = segments(path)
        n_removed = _core.prune_replay(path, **arguments)
        return n_removed - len(before.keys() - segments(path).keys())

    def call_restore(self, state: Any) -> Any:
        other = self.make(self.draw.integer(0, 9))
        if must_be_refused(state, self.good):
            other.restore(state)
        elif restore_changed(other, state, self.good):
            if state is self.good:
                self.buffer = other
            elif len(other):
                other.clear()

    def caller(self, step: str) -> Callable[..., Any]:
        method = getattr(self, f"call_{step}", None)
        return method if method is not None else getattr(self.buffer, step)

    def spoil(self, step: str, arguments: Arguments) -> Arguments:
        """Return the arguments with one changed in a way that fits the step."""
        if step == "prune" and self.draw.boolean():
            return arguments | {"keep": self.draw.one_of(*SCALARS, ["a", 3], ["\ud800"])}
        if step == "prune":
            return arguments | {"path": self.draw.one_of(*SCALARS)}
        if step == "gather" and self.draw.boolean():
            return {"indices": self.draw_any_indices()}
        if step in ("gather", "update", "update_priorities") and self.draw.boolean():
            return arguments | {"indices": self.with_one_ahead(arguments["indices"])}
        if not arguments:
            return {"surplus": 1}
        return spoil_one(self.draw, arguments, frozenset())

    def contents(self) -> tuple[Any, Any]:
        """Return all held rows, from the buffer and from the model."""
        indices = np.array(self.model.held_indices(), np.uint64)
        return self.buffer.gather(indices), self.model.contents() | {"indices": indices}
