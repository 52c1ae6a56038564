"""Q functions with layer normalisation, whose values stay bounded for actions outside the dataset."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from rlox.networks import EnsembleMLP

__all__ = ["LayerNormEnsemble"]

EPS = 1e-5  # torch's default


class LayerNormEnsemble(EnsembleMLP):
    """An ensemble of ReLU networks with layer normalisation before each hidden activation.

    The weights of the last layer then bound the outputs, however far an input is from the training data
    (Ball et al. 2023, arXiv:2302.02948, section 4.2). So targets with policy actions that are not in the
    dataset do not diverge.
    """

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Map `[B, in]` to `[members, B, out]`; the first `members` networks run (`None`: all of them)."""
        x = x.expand(len(self.weights[0]) if members is None else members, *x.shape)
        for i, (weight, bias) in enumerate(self.layers(members)):
            if i:
                x = self.activation(layer_norm(x, x.shape[-1:], eps=EPS))
            x = torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
        return x
