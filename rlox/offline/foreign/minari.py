"""Reader for Minari folders (farama.org): metadata.json, and HDF5 with one group per episode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.envs.space_json import space_from_json
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.offline.foreign.formats import MINARI_FILES, ColumnBlock, minari_folder
from rlox.offline.foreign.hdf5 import HDF5Group, open_hdf5
from rlox.offline.foreign.limits import DamagedFileError, parse_json, read_json, rows_at_once

__all__ = ["read_minari"]

METADATA_FILE, DATA_FILE = MINARI_FILES


def read_minari(path: Path) -> tuple[dict[str, Any], Iterator[ColumnBlock]]:
    """Return the metadata and the episodes, with observations and actions encoded as policies see them."""
    folder = minari_folder(path)
    if folder is None:
        raise DamagedFileError(f"{path} has no metadata.json")
    metadata = read_json(folder / METADATA_FILE)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise ConfigError(
            f"{path} has data_format={metadata['data_format']}, expected hdf5, which is Minari's default"
        )
    space_texts = {name: metadata.get(name) for name in ("observation_space", "action_space")}
    for name, text in space_texts.items():
        if not isinstance(text, str):
            raise DamagedFileError(
                f"{path}: metadata.json has no {name}, expected one: rlox makes no environment to find it"
            )
    observation, action = (space_from_json(str(text)) for text in space_texts.values())
    codecs = codec_of(observation, str(path)), ActionCodec.of(action, str(path))
    root = open_hdf5(folder / DATA_FILE)
    rlox_note = metadata.get("rlox")
    metadata_kept = {**space_texts, **_kept_metadata(metadata)}
    if isinstance(rlox_note, str):
        metadata_kept = {**metadata_kept, **parse_json(rlox_note, f"{path}: rlox in metadata.json")}
    names = [name for name in root.names() if name.startswith("episode_")]
    if metadata.get("total_episodes", len(names)) != len(names):
        raise DamagedFileError(
            f"{path} has {len(names)} episodes, metadata.json says {metadata['total_episodes']}: the dataset "
            "is incomplete"
        )
    return metadata_kept, _episodes(root, names, *codecs)


def _kept_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Select the metadata entries to keep, by rlox's keys."""
    key_map = {"dataset_id": "minari", "algorithm_name": "algo", "env_spec": "spec"}
    selected_metadata = {
        key: metadata[minari_key][:100_000]
        for minari_key, key in key_map.items()
        if isinstance(metadata.get(minari_key), str)
    }
    try:
        env = json.loads(selected_metadata.get("spec", "{}")).get("id")
    except (AttributeError, ValueError, RecursionError):
        env = None
    return {**selected_metadata, "env": env} if isinstance(env, str) else selected_metadata


def _episodes(
    root: HDF5Group, names: list[str], obs_codec: ObservationCodec, act_codec: ActionCodec
) -> Iterator[ColumnBlock]:
    at_once = rows_at_once(2 * obs_codec.row_bytes + act_codec.row_bytes)
    ordered_names = sorted(names, key=lambda name: (len(name), name))  # by number
    for name in ordered_names:
        episode = root.group(name)
        rewards = episode.column("rewards")
        steps = len(rewards)
        flags = [episode.column(flag) for flag in ("terminations", "truncations")]
        if not steps or any(len(flag) != steps for flag in flags):
            raise DamagedFileError(f"{name} has {steps} rewards and {[len(f) for f in flags]} flags")
        obs_tree = _columns_of_space(episode, "observations", obs_codec.space, steps + 1)
        action_tree = _columns_of_space(episode, "actions", act_codec.space, steps)
        for start in range(0, steps, at_once):
            rows_slice = slice(start, min(start + at_once, steps))
            rows = obs_codec.encode_batch(_slice_tree(obs_tree, slice(start, rows_slice.stop + 1)))
            terminated, truncated = (flag[rows_slice] for flag in flags)
            # the last row of an episode is its end, even if unmarked; only the last episode may be incomplete
            if rows_slice.stop == steps and name != ordered_names[-1] and not np.any(terminated[-1]):
                truncated[-1] = True
            yield {
                "obs": rows[:-1],
                "next_obs": rows[1:],
                "actions": act_codec.from_env(_slice_tree(action_tree, rows_slice), rows_slice.stop - start),
                "rewards": rewards[rows_slice],
                "terminated": terminated,
                "truncated": truncated,
            }


def _columns_of_space(group: HDF5Group, name: str, space: spaces.Space[Any], rows: int) -> Any:
    """Return the columns of a space as a tree, each with `rows` rows."""
    if isinstance(space, spaces.Dict):
        subgroup = group.group(name)
        return {
            key: _columns_of_space(subgroup, key, subspace, rows) for key, subspace in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        subgroup = group.group(name)
        subspaces = enumerate(space.spaces)
        return tuple(_columns_of_space(subgroup, f"_index_{i}", subspace, rows) for i, subspace in subspaces)
    column = group.column(name)
    shape = (rows, *(space.shape or ()))
    if column.shape != shape:
        is_encoded = len(space.shape or ()) == 3 and (column.dtype.kind in "OSV" or column.ndim <= 2)
        hint = "; these are images as JPEG files, which are not read: write pixels" if is_encoded else ""
        raise DamagedFileError(f"{group.name}/{name} has shape {column.shape}, expected {shape}{hint}")
    return column


def _slice_tree(tree: Any, rows: slice) -> Any:
    """Slice all columns of a tree, which gives a batch of the space."""
    if isinstance(tree, dict):
        return {key: _slice_tree(column, rows) for key, column in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_slice_tree(column, rows) for column in tree)
    return np.asarray(tree[rows])
