"""TD3+BC's update in Rust: TD3's with a term for the dataset's actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.td3.native import NativeTD3Learner
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.native.vector_policies import ContinuousSizes, NativeDeterministicPolicy
from rlox.training.backend import require_native
from rlox.training.components import BuildContext

if TYPE_CHECKING:
    from rlox.policies.deterministic import DeterministicPolicy

__all__ = ["NativeTD3BCLearner", "build_native_td3_bc"]


class NativeTD3BCLearner(NativeTD3Learner):
    """Native counterpart of `TD3BCLearner`: results differ by rounding only; states are interchangeable."""

    def __init__(self, native: NativeDeterministicPolicy, config: TD3BCConfig, seed: int) -> None:
        super().__init__(native, config, seed)
        self._bc_alpha = config.alpha


def build_native_td3_bc(
    config: RunConfig,
    context: BuildContext,
    encoder_spec: EncoderSpec,
    actions: ActionCodec,
    sizes: ContinuousSizes,
) -> tuple[NativeDeterministicPolicy, NativeTD3BCLearner]:
    """Build TD3+BC's policy and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(TD3BCConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> DeterministicPolicy:
        from rlox.algorithms.td3.learner import build_policy

        return build_policy(algo, encoder_spec, sizes.size)

    native = NativeDeterministicPolicy(sizes, config.seed, make_module, 0.0)
    return native, NativeTD3BCLearner(native, algo, config.seed)
