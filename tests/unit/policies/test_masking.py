"""Tests that masked actions have probability and gradient exactly 0 and the value `MASKED_LOGIT`."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from rlox.policies import DiscretePolicy, MaskedDiscretePolicy
from rlox.policies.heads import MASKED_LOGIT
from rlox.policies.masking import MaskedEpsilonGreedy, MaskedQPolicy, mask_values
from rlox.policies.q_policy import EpsilonGreedy, QPolicy
from rlox.policies.value_distribution import QuantileValue

OBS, ACTIONS, ROWS = 3, 5, 64
DRAWS = 20_000


def rows(n: int = ROWS, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Returns rows `[n, OBS + ACTIONS]`, observations and masks; each mask allows one to five actions."""
    g = torch.Generator().manual_seed(seed)
    obs = torch.randn(n, OBS, generator=g)
    masks = (torch.rand(n, ACTIONS, generator=g) < 0.4).float()
    masks[torch.arange(n), torch.randint(ACTIONS, (n,), generator=g)] = 1.0
    return torch.cat([obs, masks], -1), obs, masks


def spread(net: torch.nn.Module) -> None:
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=g))


def policy() -> MaskedDiscretePolicy:
    made = MaskedDiscretePolicy(OBS, ACTIONS, hidden=8)
    spread(made)
    return made


def test_masked_actions_have_probability_0_and_the_others_form_a_softmax() -> None:
    made, (given, obs, masks) = policy(), rows()
    logits = made.actor(obs)
    log_p = torch.log_softmax(made.logits(given), -1)
    assert (log_p.exp()[masks == 0] == 0.0).all()
    for i in range(ROWS):
        allowed = masks[i].bool()
        expected = Categorical(logits=logits[i, allowed])
        torch.testing.assert_close(log_p[i, allowed], expected.logits)
        action = int(allowed.nonzero()[0])
        log_prob, entropy, value = made.evaluate_actions(given[i : i + 1], torch.tensor([action]))
        torch.testing.assert_close(log_prob[0], expected.logits[0])
        torch.testing.assert_close(entropy[0], expected.entropy())
        assert value == made.critic(obs[i])


def test_gradients_through_actions_that_are_not_allowed_are_exactly_0() -> None:
    made, (given, obs, masks) = policy(), rows()
    logits = made.actor(obs).detach().requires_grad_()
    log_p = torch.log_softmax(mask_values(logits, masks), -1)
    chosen = log_p.gather(-1, masks.argmax(-1, keepdim=True)).sum()
    entropy = -(log_p.exp() * log_p).sum()
    for number in (chosen, entropy):
        (gradient,) = torch.autograd.grad(number, logits, retain_graph=True)
        assert (gradient[masks == 0] == 0.0).all()
        assert gradient[(masks == 1) & (masks.sum(-1, keepdim=True) > 1)].abs().sum() > 0
    for p in made.parameters():
        p.grad = None
    log_prob, spread_of, value = made.evaluate_actions(given, masks.argmax(-1))
    (log_prob + spread_of + value).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in made.parameters() if p.grad is not None)
    never = copy.deepcopy(made)
    last = given.clone()
    last[:, OBS:] = torch.tensor([1.0, 1, 0, 0, 0])
    never.zero_grad()
    torch.stack(never.evaluate_actions(last, torch.zeros(ROWS, dtype=torch.long))).sum().backward()
    head = never.actor[-1]
    assert (head.weight.grad[2:] == 0).all() and (head.bias.grad[2:] == 0).all()  # type: ignore[index, union-attr]
    assert (head.bias.grad[:2] != 0).all()  # type: ignore[index, union-attr]


def test_an_entropy_of_any_weight_has_a_finite_gradient() -> None:
    """Uses autograd, as with a shared encoder; there the slope of an entropy is its weight over the rows."""
    for weight in (1.0, 2.0, 1e6):
        made, (given, _, masks) = policy(), rows()
        evaluated = made.evaluate_actions(given, masks.argmax(-1))
        (weight * evaluated[1]).sum().backward()
        written = copy.deepcopy(made)
        written.zero_grad()
        logits = written.actor(given[:, :OBS])
        for said, allowed in zip(logits, masks.bool(), strict=True):
            (weight * Categorical(logits=said[allowed]).entropy()).backward(retain_graph=True)
        for p, q in zip(made.actor.parameters(), written.actor.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4 * weight)


def test_entropy_of_a_single_allowed_action_is_0_and_finite() -> None:
    made, (given, _, _) = policy(), rows()
    given[:, OBS:] = torch.eye(ACTIONS)[2]
    log_prob, entropy, _ = made.evaluate_actions(given, torch.full((ROWS,), 2))
    assert torch.equal(log_prob, torch.zeros(ROWS))
    assert torch.equal(entropy, torch.zeros(ROWS))


def test_a_mask_of_ones_equals_the_policy_without_masks_bit_for_bit() -> None:
    made, (given, obs, _) = policy(), rows()
    given[:, OBS:] = 1.0
    plain = DiscretePolicy(OBS, ACTIONS, hidden=8)
    plain.load_state_dict(made.state_dict())
    actions = torch.arange(ROWS) % ACTIONS
    for masked, free in zip(
        made.evaluate_actions(given, actions), plain.evaluate_actions(obs, actions), strict=True
    ):
        assert torch.equal(masked, free)
    with torch.inference_mode():
        noise = lambda: torch.Generator().manual_seed(8)  # noqa: E731
        one = made.sampler(1, ROWS, noise())(given, 0)
        assert torch.equal(one, plain.sampler(1, ROWS, noise())(obs, 0))


def test_samples_take_allowed_actions_with_the_masked_probabilities() -> None:
    made, (given, _, masks) = policy(), rows(4, seed=2)
    p = torch.softmax(made.logits(given), -1).detach()
    g = torch.Generator().manual_seed(1)
    many = given.repeat(DRAWS, 1)
    with torch.inference_mode():
        sample = made.sampler(4, len(many), g)
        drawn = {"sampler": sample(many, 0), "sample": made.sample(many, g)}
        best = made.mode(given)
    for name, actions in drawn.items():
        counts = torch.nn.functional.one_hot(actions.view(DRAWS, 4), ACTIONS).float().mean(0)
        assert (counts[masks == 0] == 0).all(), name
        torch.testing.assert_close(counts, p, atol=0.02, rtol=0)  # four deviations are 0.014
    assert torch.equal(best, p.argmax(-1))


def q_policy(epsilon: float = 0.0) -> MaskedQPolicy:
    made = MaskedQPolicy(OBS, ACTIONS, (8,), epsilon=epsilon)
    spread(made)
    return made


@pytest.mark.parametrize("dueling", [False, True])
def test_the_best_value_is_one_of_an_allowed_action(dueling: bool) -> None:
    made, (given, obs, masks) = MaskedQPolicy(OBS, ACTIONS, (8,), dueling=dueling), rows()
    spread(made)
    with torch.inference_mode():
        free, values = made.q(obs), made(given)
        assert torch.equal(values[masks == 1], free[masks == 1])
        assert (values[masks == 0] == MASKED_LOGIT).all()
        assert torch.equal(values, made.inference_values()(given))
        best = made.mode(given)
    for i in range(ROWS):
        allowed = masks[i].nonzero()[:, 0].tolist()
        assert int(best[i]) == max(allowed, key=lambda a: float(free[i, a]))
    assert (free.argmax(-1) != best).any()


def test_exploration_is_uniform_over_what_is_allowed() -> None:
    given = rows(3)[0].numpy()
    given[:, OBS:] = [[0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    explore = MaskedEpsilonGreedy(q_policy(), 3, lambda _: 1.0, 1, torch.device("cpu"))
    with torch.inference_mode():
        drawn = np.stack([explore.random_actions(step, given) for step in range(6000)])
        acted = np.stack([explore.act(given, step, 0.0) for step in range(6000)])
    assert np.array_equal(drawn, acted)
    rates = np.stack([np.bincount(drawn[:, n], minlength=ACTIONS) for n in range(3)]) / 6000
    expected = [[0, 1 / 3, 0, 1 / 3, 1 / 3], [1, 0, 0, 0, 0], [0.2] * 5]
    assert ((rates > 0) == (np.array(expected) > 0)).all()
    np.testing.assert_allclose(rates, expected, atol=0.026)  # four standard deviations
    # with a mask of ones each draw equals the draw without masks
    plain = QPolicy(OBS, ACTIONS, (8,))
    free = EpsilonGreedy(plain, 3, lambda _: 1.0, 1, torch.device("cpu"))
    assert drawn[:50, 2].tolist() == [free.random_actions(step, given)[2] for step in range(50)]


def test_with_epsilon_0_the_best_allowed_action_is_taken() -> None:
    made, (given, _, masks) = q_policy(), rows()
    explore = MaskedEpsilonGreedy(made, ROWS, lambda _: 0.0, 1, torch.device("cpu"))
    with torch.inference_mode():
        taken = explore.act(given.numpy(), 0, 0.0)
        assert taken.tolist() == made.mode(given).tolist()
    assert all(masks[i, a] == 1 for i, a in enumerate(taken))


def test_a_masked_q_policy_samples_epsilon_greedily_over_the_allowed_actions() -> None:
    made, (given, _, masks) = q_policy(0.6), rows(2, seed=4)
    given[:, OBS:] = masks = torch.tensor([[0.0, 1, 1, 0, 1], [0, 0, 0, 1, 0]])
    with torch.inference_mode():
        many = made.sample(given.repeat(DRAWS, 1), torch.Generator().manual_seed(1))
        best = made.mode(given)
    rates = torch.nn.functional.one_hot(many.view(DRAWS, 2), ACTIONS).float().mean(0)
    expected = 0.6 * masks / masks.sum(-1, keepdim=True)
    expected[torch.arange(2), best] += 0.4
    torch.testing.assert_close(rates, expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("returns", [None, QuantileValue(3)])
@pytest.mark.parametrize("dueling", [False, True])
def test_masked_noisy_networks_equal_plain_ones_on_allowed_actions(
    returns: QuantileValue | None, dueling: bool
) -> None:
    options = {"net_arch": (8,), "dueling": dueling, "value_distribution": returns, "sigma": 0.5}
    masked, plain = (kind(OBS, ACTIONS, **options) for kind in (MaskedQPolicy, QPolicy))
    spread(masked)
    plain.load_state_dict(masked.state_dict())
    given, obs, masks = rows()
    noise = torch.randn(masked.noise_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for said in (None, noise):
            assert torch.equal(masked.outputs(given, said), plain.outputs(obs, said))
            values, wanted = masked(given, said), plain(obs, said)
            assert torch.equal(values[masks > 0], wanted[masks > 0])
            assert (values[masks == 0] == MASKED_LOGIT).all()
        assert not torch.allclose(masked(given, noise), masked(given))
        drawn = {tuple(masked.sample(given).tolist()) for _ in range(5)}
    assert len(drawn) > 1  # the best actions vary with the noise
    assert all((masks[torch.arange(ROWS), list(choices)] == 1).all() for choices in drawn)
