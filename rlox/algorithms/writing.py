"""The source of those that learn from what their model writes."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.text import Text
from rlox.configs import RunConfig
from rlox.configs.text import GroupConfig, WritingConfig
from rlox.errors import ConfigError
from rlox.sources.text import WritingSource

__all__ = ["writing_source"]


def writing_source(
    config: RunConfig, text: Text, group_size: int, judged: bool = True
) -> WritingSource:
    """Groups of completions; `judged` by rewards, which have to be there then."""
    algo = cast(WritingConfig, config.algo)
    if judged and text.judge is None:
        raise ConfigError(
            f"{algo.name} needs rewards: give it a reward_fn (algo.rewards=[module:name]), or a task"
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
        text.write,
        text.sampling.max_new_tokens,
        text.judge if judged else None,
        text.weights,
        group_size,
        text.group,
        algo.minibatches if isinstance(algo, GroupConfig) else 1,
    )
