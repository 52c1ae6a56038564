"""BC: behavioural cloning (Pomerleau 1991, doi:10.1162/neco.1991.3.1.88), supervised learning of actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.offline import OfflineNetworksConfig
from rlox.configs.params import backend_field, param


@dataclass(frozen=True)
class BCConfig(OfflineNetworksConfig):
    """Maximises the likelihood of the dataset's actions."""

    native_fields: ClassVar[frozenset[str]] = OfflineNetworksConfig.native_fields | {"loss", "max_grad_norm"}

    name: str = param("bc", "the algorithm", choices=("bc",))
    loss: str = param(
        "nll",
        "loss for Box actions. nll: negative log-likelihood of a Gaussian with learned standard deviations; "
        "mse: squared error of its mean",
        choices=("nll", "mse"),
    )
    backend: str = backend_field()
    max_grad_norm: float = param(10.0, "global gradient-norm limit", within="(0, inf)")
