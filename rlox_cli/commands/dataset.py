"""`rlox dataset`: make, show, check and convert datasets for offline learning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from rlox.configs import EnvConfig
from rlox.configs.offline import FORMATS, UNUSED_ENV_FIELDS
from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.run_schema import ENV, single_env_rewriter
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import ENVIRONMENT, FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

POSITIONAL_KEYS = ("what", "path")
ACTIONS = ("make", "show", "check", "convert")


@dataclass(frozen=True)
class DatasetConfig:
    """Arguments of `rlox dataset`."""

    what: str = param(doc="the action; what= may be left out", choices=ACTIONS)
    path: str | None = param(
        None,
        "folder or file of the dataset to make, show, check or convert; path= may be left out",
        verbatim=True,
    )
    policy: str = param("random", "make: the run folder of the policy that plays, or random", verbatim=True)
    quality: str | None = param(
        None,
        "make: expert plays the run's best checkpoint; medium the first one that scores at least a third of "
        "the way from random actions to expert; medium-replay is the replay buffer of that checkpoint, "
        "full-replay that of the last checkpoint; null: expert for a run, else random",
        choices=("random", "medium", "medium-replay", "full-replay", "expert"),
    )
    steps: int = param(100_000, "make: least number of transitions, in whole episodes", within="[1, inf)")
    seed: int = param(1_000_000, "make: episode i starts from reset(seed=seed + i)", within="[0, 2147483647]")
    sampled: bool = param(True, "make: sample the actions; false: take the best ones")
    episodes: int = param(20, "make: episodes by which a policy is scored", within="[1, inf)")
    overwrite: bool = param(False, "make, convert: replace the dataset that is there")
    to: str | None = param(None, "convert: the folder or file to write", verbatim=True)
    format: str | None = param(
        None,
        "convert: format to write; null: by the suffix of to=, .npz, .parquet, .hdf5 (d4rl), else rlox",
        choices=FORMATS,
    )
    time_limit: int | None = param(
        None,
        "show, check, convert: steps after which episodes were truncated, for a file that does not say so or "
        "marks them as terminated",
        within="[1, inf)",
    )
    trust: bool = param(False, "make: import the code that the run folder names, module:Name")
    json: bool = param(False, "show, check: JSON on standard output, for programs")
    env: EnvConfig = param(
        doc="make: the environment of policy=random; convert: that of a dataset whose file names none",
        default_factory=EnvConfig,
    )


SCHEMA = Schema("dataset", DatasetConfig, primary="dataset", groups=(ENV,))
KEYS = {f.name for f in fields(DatasetConfig)}
CONVERT_KEYS = {"to", "format", "time_limit"}


def check(composed: DictConfig) -> DatasetConfig:
    """Return the validated configuration of one call."""
    from rlox.configs import make
    from rlox_cli.config import validate

    config = make(DatasetConfig, validate.checked_data(composed, SCHEMA))
    if config.path is None:
        raise ConfigError(f"missing key 'path': name the folder of the dataset to {config.what}")
    if config.what == "convert" and config.to is None:
        raise ConfigError("missing key 'to': name the output, to=FOLDER or to=FILE.npz")
    if config.policy == "random" and config.quality not in (None, "random"):
        raise ConfigError(f"quality={config.quality} needs a trained policy; name its run: policy=RUN")
    return config


def _require_consistent(args: Sequence[str]) -> None:
    """Raise `ConfigError` for keys without effect, and for random actions without an environment."""
    keys = dict(a.lstrip("+").partition("=")[::2] for a in args if "=" in a and a[:1] != "-")
    action, policy = keys.get("what"), keys.get("policy", "random")
    if action in ("show", "check"):
        _require_allowed(keys, {*POSITIONAL_KEYS, "json", "time_limit"}, f"what={action}")
    elif action == "convert":
        known = {*POSITIONAL_KEYS, "to", "format", "time_limit", "overwrite", "env"}
        _require_allowed(keys, known, f"what={action}")
    elif action == "make" and policy == "random":
        if "env" not in keys and "env.id" not in keys:
            raise ConfigError("policy=random: name the environment, e.g. env=Pendulum-v1")
        unused_keys = {"sampled", "episodes", "trust", "json", *(f"env.{key}" for key in UNUSED_ENV_FIELDS)}
        _require_allowed(keys, keys.keys() - unused_keys - CONVERT_KEYS, "policy=random")
    elif action == "make":
        env_keys = {key for key in keys if key.split(".")[0] == "env"}
        _require_allowed(
            keys,
            keys.keys() - env_keys - {"json"} - CONVERT_KEYS,
            f"policy={policy}, which has its environment",
        )
        quality = keys.get("quality", "")
        if quality.endswith("-replay"):
            play_keys = {"steps", "seed", "sampled"}
            play_keys |= {"episodes"} if quality == "full-replay" else set()
            _require_allowed(keys, keys.keys() - play_keys, f"quality={quality}, which plays nothing")
        if quality == "random":
            allowed_keys = keys.keys() - {"sampled", "episodes"}
            _require_allowed(keys, allowed_keys, "quality=random, which scores no policy")


def _require_allowed(values: Mapping[str, str], allowed_keys: Collection[str], context: str) -> None:
    """Raise `ConfigError` for a key that would have no effect."""
    for key, value in values.items():
        if (key in KEYS or key.startswith("env.")) and key not in allowed_keys:
            raise ConfigError(f"{key}={value} has no effect with {context}; leave {key} out")


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.config.verbatim import quote_existing_path
    from rlox_cli.runs.datasets import run_dataset_command

    flags, arguments = compose.split_flags(call.args, call.command)
    positional_keys, args = list(POSITIONAL_KEYS), [*flags]
    for argument in arguments:
        is_positional = positional_keys and "=" not in argument and argument[:1] not in "~+"
        if is_positional and positional_keys == ["path"]:
            argument = quote_existing_path(argument)
        args.append(f"{positional_keys.pop(0)}={argument}" if is_positional else argument)
    errors: list[int] = []

    def job(composed: DictConfig) -> None:
        config = check(composed)
        _require_consistent(args)
        has_env = any(a.startswith(("env=", "env.id=")) for a in args)
        errors.append(run_dataset_command(config, config.env.id if has_env else None))

    compose.run(replace(call, args=args), job)
    return FAILED if any(errors) else OK


COMMAND = Command(
    name="dataset",
    summary="make, show, check and convert datasets for offline learning",
    description=(
        "make plays a policy, or takes a run's replay buffer, and writes a folder that states its origin:\n"
        "scores of random actions and of the policy, returns with their interval, how episodes ended.\n"
        "show describes a dataset. check looks for errors in it, such as time limits that are marked as\n"
        "terminations, and exits with 1 if there are any. show, check and convert also read Minari, D4RL's\n"
        "HDF5, npz and Parquet (the extra datasets); convert writes these, too."
    ),
    examples=(
        "rlox dataset make data/pendulum policy=runs/Pendulum-v1/sac/NAME quality=medium-replay",
        "rlox dataset check data/pendulum",
        "rlox dataset convert hopper.hdf5 to=data/hopper env=Hopper-v5",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, ENVIRONMENT, STORAGE, *SIGNALS),
    failure_meaning="failed; of dataset check: an error was found",
    check=check,
    run=_run,
    rewrite=single_env_rewriter(SCHEMA),
    usage_arguments="WHAT PATH",
    is_print_only=lambda args: not {"make", "convert"}.intersection(a.removeprefix("what=") for a in args),
)
