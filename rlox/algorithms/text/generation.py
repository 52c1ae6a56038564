"""The source of algorithms that learn from completions of their own model."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.text.components import TextContext
from rlox.configs import RunConfig
from rlox.configs.text import GenerationConfig, GroupConfig
from rlox.errors import ConfigError
from rlox.llm.serving import GenerationServer
from rlox.sources.generators import CompletionGenerator, LocalGenerator, ServerGenerator
from rlox.sources.text import GenerationSource

__all__ = ["make_generation_source"]


def _make_generator(config: RunConfig, text: TextContext) -> CompletionGenerator:
    """Return a generator that uses the given server, the configured one, or else the model itself."""
    algo, server = cast(GenerationConfig, config.algo), text.objects.server
    if server is None and algo.server is None:
        if algo.staleness:
            raise ConfigError(
                f"algo.staleness={algo.staleness} applies to a server only: set algo.server, or leave "
                "algo.staleness out"
            )
        return LocalGenerator(text.model, text.sampling, config.seed)
    if text.group.size > 1:
        raise ConfigError(
            f"a server would get its weights from each of {text.group.size} processes, expected one; start "
            "one process"
        )
    is_own_server = server is None
    if server is None:
        name, tolerance = algo.server_model, algo.server_tolerance
        server = GenerationServer(str(algo.server), algo.server_url, name, tolerance=tolerance)
    return ServerGenerator(server, text.model, text.sampling, config.seed, algo.staleness, is_own_server)


def make_generation_source(
    config: RunConfig, text: TextContext, group_size: int, is_rewarded: bool = True
) -> GenerationSource:
    """Make the source of groups of completions; with `is_rewarded` a reward function is required."""
    algo = cast(GenerationConfig, config.algo)
    if is_rewarded and text.reward_function is None:
        raise ConfigError(
            f"{algo.name} needs rewards: give it a reward_fn (algo.rewards=[module:name], or "
            "[right] to compare with right answers), or a task"
        )
    if isinstance(algo, GroupConfig) and algo.mask_truncated and not text.sampling.eos:
        raise ConfigError(
            "algo.mask_truncated=true without a token that ends a completion would mask every completion; "
            "set algo.eos_token_id=[...]"
        )
    return GenerationSource(
        text.prompts,
        algo.batch_size,
        config.seed,
        _make_generator(config, text),
        text.reward_function if is_rewarded else None,
        text.weights,
        group_size,
        text.group,
        algo.minibatches if isinstance(algo, GroupConfig) else 1,
    )
