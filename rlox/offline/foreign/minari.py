"""Minari's folders (farama.org): metadata.json, and HDF5 with a group for each episode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.actions import ActionCodec
from rlox.envs.space_text import space_of
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.offline.foreign.bounds import Damage, document, parsed, rows_at_once
from rlox.offline.foreign.hdf5 import Group, opened
from rlox.offline.foreign.kinds import MINARI_FILES, Raw, minari_folder

__all__ = ["read_minari"]

METADATA, FILE = MINARI_FILES


def read_minari(path: Path) -> tuple[dict[str, Any], Iterator[Raw]]:
    """What the metadata say, and the episodes; observations and actions as policies see them."""
    folder = minari_folder(path)
    if folder is None:
        raise Damage(f"{path} has no metadata.json")
    metadata = document(folder / METADATA)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise ConfigError(
            f"{path} has data_format={metadata['data_format']}, expected hdf5, which is Minari's default"
        )
    both = {name: metadata.get(name) for name in ("observation_space", "action_space")}
    for name, text in both.items():
        if not isinstance(text, str):
            raise Damage(
                f"{path}: metadata.json has no {name}, and no environment is made to ask it"
            )
    observation, action = (space_of(str(text)) for text in both.values())
    codecs = ObservationCodec.of(observation, str(path)), ActionCodec.of(action, str(path))
    root = opened(folder / FILE)
    note = metadata.get("rlox")
    about = {**both, **_said(metadata)}
    if isinstance(note, str):
        about = {**about, **parsed(note, f"{path}: rlox in metadata.json")}
    names = [name for name in root.names() if name.startswith("episode_")]
    if metadata.get("total_episodes", len(names)) != len(names):
        raise Damage(
            f"{path} has {len(names)} episodes, metadata.json says {metadata['total_episodes']}: it was not "
            "written to its end"
        )
    return about, _episodes(root, names, *codecs)


def _said(metadata: dict[str, Any]) -> dict[str, Any]:
    """What is kept of the metadata."""
    kept = {"dataset_id": "minari", "algorithm_name": "algo", "env_spec": "spec"}
    found = {
        ours: metadata[theirs][:100_000]
        for theirs, ours in kept.items()
        if isinstance(metadata.get(theirs), str)
    }
    try:
        env = json.loads(found.get("spec", "{}")).get("id")
    except (AttributeError, ValueError, RecursionError):
        env = None
    return {**found, "env": env} if isinstance(env, str) else found


def _episodes(
    root: Group, names: list[str], obs_codec: ObservationCodec, act_codec: ActionCodec
) -> Iterator[Raw]:
    at_once = rows_at_once(2 * obs_codec.row_bytes + act_codec.row_bytes)
    ordered = sorted(names, key=lambda name: (len(name), name))  # by number
    for name in ordered:
        episode = root.group(name)
        rewards = episode.column("rewards")
        steps = len(rewards)
        flags = [episode.column(flag) for flag in ("terminations", "truncations")]
        if not steps or any(len(flag) != steps for flag in flags):
            raise Damage(f"{name} has {steps} rewards and {[len(f) for f in flags]} flags")
        seen = _tree(episode, "observations", obs_codec.space, steps + 1)
        taken = _tree(episode, "actions", act_codec.space, steps)
        for first in range(0, steps, at_once):
            part = slice(first, min(first + at_once, steps))
            rows = obs_codec.encode_batch(_part(seen, slice(first, part.stop + 1)))
            terminated, truncated = (flag[part] for flag in flags)
            # what is another episode does not go on in the next one; the last may go on
            if part.stop == steps and name != ordered[-1] and not np.any(terminated[-1]):
                truncated[-1] = True
            yield {
                "obs": rows[:-1],
                "next_obs": rows[1:],
                "actions": act_codec.of_env(_part(taken, part), part.stop - first),
                "rewards": rewards[part],
                "terminated": terminated,
                "truncated": truncated,
            }


def _tree(group: Group, name: str, space: spaces.Space[Any], rows: int) -> Any:
    """The columns of the parts of a space, each with so many rows."""
    if isinstance(space, spaces.Dict):
        inside = group.group(name)
        return {key: _tree(inside, key, part, rows) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        inside = group.group(name)
        parts = enumerate(space.spaces)
        return tuple(_tree(inside, f"_index_{i}", part, rows) for i, part in parts)
    found = group.column(name)
    shape = (rows, *(space.shape or ()))
    if found.shape != shape:
        coded = len(space.shape or ()) == 3 and (found.dtype.kind in "OSV" or found.ndim <= 2)
        hint = "; these are images as JPEG files, which are not read: write pixels" if coded else ""
        raise Damage(f"{group.name}/{name} has shape {found.shape}, expected {shape}{hint}")
    return found


def _part(tree: Any, rows: slice) -> Any:
    """Those rows of all columns, as a batch of the space."""
    if isinstance(tree, dict):
        return {key: _part(column, rows) for key, column in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_part(column, rows) for column in tree)
    return np.asarray(tree[rows])
