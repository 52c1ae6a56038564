"""Algorithms: their façades, their learners, and the construction of their runs."""

from __future__ import annotations

from collections.abc import ItemsView, ValuesView
from typing import TYPE_CHECKING, Any

from rlox.configs import ALGO_CONFIGS
from rlox.lazy_imports import lazy_getattr
from rlox.plugins import PluginEntry, PluginRegistry
from rlox.runs.algorithm import Algorithm

if TYPE_CHECKING:
    from rlox.algorithms.a2c import A2C
    from rlox.algorithms.bc import BC
    from rlox.algorithms.best_of_n import BestOfN
    from rlox.algorithms.cql import CQL
    from rlox.algorithms.ddpg import DDPG
    from rlox.algorithms.decision_transformer import DecisionTransformer
    from rlox.algorithms.dpo import DPO
    from rlox.algorithms.dqn import DQN
    from rlox.algorithms.grpo import GRPO
    from rlox.algorithms.hybrid_ppo import HybridPPO
    from rlox.algorithms.iql import IQL
    from rlox.algorithms.online_dpo import OnlineDPO
    from rlox.algorithms.ppo import PPO
    from rlox.algorithms.rainbow import Rainbow
    from rlox.algorithms.recurrent_ppo import RecurrentPPO
    from rlox.algorithms.rloo import RLOO
    from rlox.algorithms.sac import SAC
    from rlox.algorithms.sft import SFT
    from rlox.algorithms.td3 import TD3
    from rlox.algorithms.td3_bc import TD3BC

__all__ = [
    "A2C",
    "ALGORITHMS",
    "BC",
    "CQL",
    "DDPG",
    "DPO",
    "DQN",
    "GRPO",
    "IQL",
    "PPO",
    "RLOO",
    "SAC",
    "SFT",
    "TD3",
    "TD3BC",
    "BestOfN",
    "DecisionTransformer",
    "HybridPPO",
    "OnlineDPO",
    "Rainbow",
    "RecurrentPPO",
]

# Name of the façade class by the name of the algorithm, which is also the name of its module.
_CLASS_NAMES = {
    "ppo": "PPO",
    "recurrent_ppo": "RecurrentPPO",
    "a2c": "A2C",
    "dqn": "DQN",
    "rainbow": "Rainbow",
    "sac": "SAC",
    "td3": "TD3",
    "ddpg": "DDPG",
    "hybrid_ppo": "HybridPPO",
    "bc": "BC",
    "td3_bc": "TD3BC",
    "iql": "IQL",
    "cql": "CQL",
    "decision_transformer": "DecisionTransformer",
    "sft": "SFT",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "dpo": "DPO",
    "online_dpo": "OnlineDPO",
}

__getattr__ = lazy_getattr(
    __name__, {module: (name,) for module, name in {**_CLASS_NAMES, "best_of_n": "BestOfN"}.items()}
)


def _plugin_class(entry: PluginEntry, plugin: Any, setting: str) -> type[Algorithm]:
    """Return the class of a plugin; raise `ConfigError` if it is no `Algorithm` of the plugin's name."""
    _ = ALGO_CONFIGS[entry.name]  # the look-up checks the plugin
    cls = entry.load(setting, plugin.facade)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm) and cls.name == entry.name):
        raise entry.kind_error(
            setting,
            'facade="module:Class" of a subclass of rlox.runs.algorithm.Algorithm with name = '
            f'"{entry.name}"',
        )
    return cls


class _AlgorithmRegistry(PluginRegistry[type[Algorithm]]):
    """The façade classes by name; a look-up imports one class, `values()` and `items()` import all."""

    def __init__(self) -> None:
        super().__init__({}, "algo", _plugin_class)
        self.builtin_names = frozenset(_CLASS_NAMES)
        self.update(dict.fromkeys(_CLASS_NAMES))  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> type[Algorithm]:
        cls = super().__getitem__(name)
        if cls is None:
            self[name] = cls = __getattr__(_CLASS_NAMES[name])
        return cls

    def values(self) -> ValuesView[type[Algorithm]]:  # type: ignore[override]
        """Import and return all classes."""
        return self._load_all().values()

    def items(self) -> ItemsView[str, type[Algorithm]]:  # type: ignore[override]
        """Import all classes and return the pairs of name and class."""
        return self._load_all().items()

    def _load_all(self) -> dict[str, type[Algorithm]]:
        return {name: self[name] for name in self}

    def __repr__(self) -> str:
        return repr(self._load_all())


ALGORITHMS = _AlgorithmRegistry()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
