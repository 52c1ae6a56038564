"""The source of those that learn from what their model writes."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.text import Text
from rlox.configs import RunConfig
from rlox.configs.text import GroupConfig, WritingConfig
from rlox.errors import ConfigError
from rlox.llm.serving import GenerationServer
from rlox.sources.text import WritingSource
from rlox.sources.writers import LocalWriter, ServedWriter, Writer

__all__ = ["writing_source"]


def _writer(config: RunConfig, text: Text) -> Writer:
    """The model itself, or a server that was given, or is configured."""
    algo, server = cast(WritingConfig, config.algo), text.given.server
    if server is None and algo.server is None:
        if algo.staleness:
            raise ConfigError(
                f"algo.staleness={algo.staleness} is of a server: set algo.server, or leave it out"
            )
        return LocalWriter(text.model, text.sampling, config.seed)
    if text.group.size > 1:
        raise ConfigError(
            f"a server that writes for {text.group.size} processes would get the weights of each: take one"
        )
    ours = server is None
    if server is None:
        name, tolerance = algo.server_model, algo.server_tolerance
        server = GenerationServer(str(algo.server), algo.server_url, name, tolerance=tolerance)
    return ServedWriter(server, text.model, text.sampling, config.seed, algo.staleness, ours)


def writing_source(
    config: RunConfig, text: Text, group_size: int, judged: bool = True
) -> WritingSource:
    """Groups of completions; `judged` by rewards, which have to be there then."""
    algo = cast(WritingConfig, config.algo)
    if judged and text.judge is None:
        raise ConfigError(
            f"{algo.name} needs rewards: give it a reward_fn (algo.rewards=[module:name], or "
            "[right] by answers), or a task"
        )
    if isinstance(algo, GroupConfig) and algo.mask_truncated and not text.sampling.eos:
        raise ConfigError(
            "algo.mask_truncated=true without a token that ends a completion: none would be left; set "
            "algo.eos_token_id=[...]"
        )
    return WritingSource(
        text.prompts,
        algo.batch_size,
        config.seed,
        _writer(config, text),
        text.judge if judged else None,
        text.weights,
        group_size,
        text.group,
        algo.minibatches if isinstance(algo, GroupConfig) else 1,
    )
