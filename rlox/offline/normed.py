"""Q functions that say nothing unheard-of about actions that no row has."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import layer_norm

from rlox.networks import EnsembleMLP
from rlox.networks.layers import affine

__all__ = ["NormedEnsemble"]


class NormedEnsemble(EnsembleMLP):
    """An ensemble whose hidden layers are normalised before their activation.

    What it says is then bounded by its last weights however far an input is from those it has learned
    (Ball et al. 2023, arXiv:2302.02948, section 4.2), so that bootstrapping from what a policy would do,
    which no row does, does not run away.
    """

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """`[B, in]`, the same for all members -> `[members, B, out]`; `members`: only so many, the first."""
        x = x.expand(len(self.weights[0]) if members is None else members, *x.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                x = self.activation(layer_norm(x, x.shape[-1:]))
            x = affine(x, weight[:members], bias[:members])
        return x
