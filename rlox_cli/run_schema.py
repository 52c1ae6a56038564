"""The keys of a training run: what `rlox train`, sweeps and saved configurations hold."""

from __future__ import annotations

from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, LOGGER_CONFIGS, EnvConfig, RunConfig
from rlox_cli.schema import Group, Schema, keys_of
from rlox_cli.search.settings import SEARCH, SearchOptions

ALGO = Group("algo", ALGO_CONFIGS)
ENV = Group(
    "env",
    {"base": EnvConfig},
    listed="any Gymnasium id, e.g. env=Acrobot-v1, or env=module:MyEnv-v0",
)
BUFFER = Group("buffer", BUFFER_CONFIGS)
LOGGER = Group("logger", LOGGER_CONFIGS, many=True)

RUN = Schema(
    "run",
    RunConfig,
    primary="train",
    groups=(ALGO, ENV, BUFFER, LOGGER),
    presets=("tuned", "exp", SEARCH),
    choosing=("exp",),
    words=(
        "resume",
        "trust",
        "sweep.workers",
        *(key.name for key in keys_of(SearchOptions, f"{SEARCH}.")),
    ),
    hint="several loggers: logger=[csv,tensorboard]; without the tuned preset: tuned=null\n"
    "  presets of every algorithm: rlox list tuned",
)
