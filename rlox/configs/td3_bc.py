"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.offline import OfflineCriticsConfig
from rlox.configs.params import backend_field, param
from rlox.configs.td3 import TD3_NATIVE_FIELDS, TD3FieldsConfig


@dataclass(frozen=True)
class TD3BCConfig(TD3FieldsConfig, OfflineCriticsConfig):
    """Defaults are those of table 3 of the paper."""

    native_fields: ClassVar[frozenset[str]] = (
        OfflineCriticsConfig.native_fields | TD3_NATIVE_FIELDS | {"alpha"}
    )

    name: str = param("td3_bc", "the algorithm", choices=("td3_bc",))
    alpha: float = param(
        2.5,
        "weight of the critic relative to the squared error of the dataset's actions; 0: only cloning",
        within="[0, inf)",
        source="Fujimoto & Gu 2021, table 3",
    )
    backend: str = backend_field()
    standardize_obs: bool = param(
        True,
        "standardise observations by the dataset's mean and std, also when the policy acts",
        source="Fujimoto & Gu 2021, eq. 6",
    )
