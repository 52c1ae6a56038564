"""TQC, truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), algorithm 1.

The loss of a critic is the mean over quantiles and atoms, as in the paper; the losses of both critics are
averaged, as in sb3-contrib. The m-step return and the importance weights are those of `dqn.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parity.transcriptions.common import Weights, mean, mlp
from parity.transcriptions.sac import SAC


class TQC(SAC):
    """Soft actor-critic with quantile critics and a truncated target.

    The derivatives of the quantile Huber loss are continuous, and so are the sorted atoms: rounding cannot
    change a step much where an error is near 0 or 1, or where two atoms are nearly equal.
    """

    def _critics(self, batch: dict[str, Tensor], alpha: float) -> Tensor:
        """The mean over rows, critics k, quantiles j, atoms y of |tau_j - 1{u < 0}| L(u), u = y - theta_kj.

        L is the Huber loss with kappa = 1 (Dabney et al. 2018, eqs. 9 and 10).
        """
        n, terms = self.settings["n_quantiles"], []
        for i in range(len(batch["rewards"])):
            weight = batch["weights"][i] if "weights" in batch else 1.0
            y = self.atoms(batch, i, alpha)
            for k in (0, 1):
                theta = self.quantiles(self.weights, f"critic.{k}", batch["obs"][i], batch["actions"][i])
                for j in range(n):
                    tau = (2 * j + 1) / (2 * n)
                    u = y - theta[j]
                    huber = torch.where(u.abs() <= 1, 0.5 * u**2, u.abs() - 0.5)
                    terms.append(weight * mean(abs(tau - (u < 0).to(u)) * huber))
        return mean(terms)

    def atoms(self, batch: dict[str, Tensor], i: int, alpha: float) -> Tensor:
        """Return y_l = r + gamma (z_(l) - alpha log pi(a'|s')) of the lowest atoms of both target critics."""
        reward, obs = batch["rewards"][i], batch["next_obs"][i]
        action, log_prob = self.act(obs, batch["noise_next"][i])
        pooled = torch.cat([self.quantiles(self.targets, f"target.{k}", obs, action) for k in (0, 1)])
        kept = 2 * (self.settings["n_quantiles"] - self.settings["top_quantiles_to_drop_per_net"])
        gamma = 0.0 if bool(batch["terminated"][i]) else self.settings["gamma"] ** int(batch["steps"][i])
        lowest = torch.stack(sorted(pooled.detach(), key=float)[:kept])
        return (reward + gamma * (lowest - alpha * log_prob)).detach()

    def _actor(self, batch: dict[str, Tensor], alpha: float) -> Tensor:
        """E[alpha log pi(a|s) - 1/(2 N) sum_kj theta_kj(s, a)], of all quantiles, none dropped."""
        terms = []
        for obs, noise in zip(batch["obs"], batch["noise_obs"], strict=True):
            action, log_prob = self.act(obs, noise)
            both = [z for k in (0, 1) for z in self.quantiles(self.weights, f"critic.{k}", obs, action)]
            terms.append(alpha * log_prob - mean(both))
        return mean(terms)

    def quantiles(self, weights: Weights, name: str, obs: Tensor, action: Tensor) -> Tensor:
        return mlp(weights, name, torch.cat([obs, action]), "relu", self.kinks)
