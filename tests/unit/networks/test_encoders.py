"""Tests that encoders equal the papers' networks, read every image layout, and train with later layers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import RandomSpacesEnv
from torch import Tensor
from torch.nn import Conv2d, Linear, functional

from rlox.algorithms import DQN, PPO, SAC
from rlox.algorithms.assembly.encoding import EncoderSpec, make_encoder_spec
from rlox.configs import DQNConfig, PPOConfig
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, ShapeError
from rlox.networks import (
    EncodedEnsemble,
    Encoder,
    EnsembleMLP,
    ImageSpec,
    encoder_cost,
    q_values,
)

ATARI = ImageSpec((4, 84, 84), channels_first=True, max_value=255.0)
PROCGEN = ImageSpec((64, 64, 3), channels_first=False, max_value=255.0)
GRID = ImageSpec((7, 7, 3), channels_first=False, max_value=255.0)


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def image(shape: tuple[int, ...], high: int = 255) -> spaces.Box:
    return spaces.Box(0, high, shape, np.uint8)


def bytes_of(encoder: Encoder, rows: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (rows, encoder.dim), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("kind", "picture", "parameters", "features"),
    [
        # parameters by layer, (inputs x kernel + 1) x outputs; with 6 actions DQN on Pong has 1,687,206
        ("nature", ATARI, 8_224 + 32_832 + 36_928 + (64 * 7 * 7 + 1) * 512, 512),
        ("impala", PROCGEN, 9_728 + 41_632 + 46_240 + (32 * 8 * 8 + 1) * 256, 256),
        ("small", GRID, 208 + 2_080 + 8_256 + (64 * 4 * 4 + 1) * 128, 128),
        ("mlp", GRID, 0, 7 * 7 * 3),
    ],
)
def test_a_network_has_the_parameters_of_its_paper(
    kind: str, picture: ImageSpec, parameters: int, features: int
) -> None:
    encoder = Encoder(0, [picture], [kind])
    assert (count(encoder), encoder.features) == (parameters, features)
    assert encoder(bytes_of(encoder)).shape == (5, features)
    if kind != "mlp":
        assert Encoder(0, [picture], [kind], 10).features == 10


def test_the_nature_network_is_the_papers_written_out() -> None:
    """It has strides 4, 2 and 1 without padding, a rectifier after each layer, and divides pixels by 255."""
    encoder = Encoder(0, [ATARI], ["nature"])
    rows, p = bytes_of(encoder, 2), list(encoder.parameters())
    x = rows.view(2, 4, 84, 84).float() / 255.0
    for i, stride in enumerate((4, 2, 1)):
        kernel = p[2 * i].shape[-1]
        patches = functional.unfold(x, kernel, stride=stride)  # [B, C k k, places]
        out = p[2 * i].flatten(1) @ patches + p[2 * i + 1][:, None]
        side = (x.shape[-1] - kernel) // stride + 1
        x = out.clamp(min=0.0).view(2, -1, side, side)
    expected = (x.flatten(1) @ p[6].T + p[7]).clamp(min=0.0)
    torch.testing.assert_close(encoder(rows), expected)


def test_the_impala_encoder_equals_the_papers_residual_network() -> None:
    encoder = Encoder(0, [PROCGEN], ["impala"])
    rows, p = bytes_of(encoder, 2), iter(encoder.parameters())

    def conv(x: Tensor) -> Tensor:
        return functional.conv2d(x, next(p), next(p), padding=1)

    x = rows.view(2, 64, 64, 3).permute(0, 3, 1, 2).float() / 255.0
    for _ in range(3):
        x = functional.max_pool2d(conv(x), 3, 2, 1)
        for _ in range(2):
            x = x + conv(conv(x.relu()).relu())
    expected = functional.linear(x.relu().flatten(1), next(p), next(p)).relu()
    torch.testing.assert_close(encoder(rows), expected)


@pytest.mark.parametrize(
    ("shape", "first", "planes", "order"),
    [
        ((6, 5), False, (1, 6, 5), "hw"),
        ((6, 5, 2), False, (2, 6, 5), "hwc"),
        ((2, 6, 5), True, (2, 6, 5), "chw"),
        ((3, 6, 5, 2), False, (6, 6, 5), "khwc"),
        ((3, 2, 6, 5), True, (6, 6, 5), "kchw"),
    ],
)
def test_an_image_is_read_in_its_own_order(
    shape: tuple[int, ...], first: bool, planes: tuple[int, int, int], order: str
) -> None:
    picture = ImageSpec(shape, first, 255.0)
    given = torch.arange(2 * int(np.prod(shape))).reshape(2, -1)
    expected = np.einsum(f"n{order}->n{'kchw' if 'k' in order else 'chw' if 'c' in order else 'hw'}", given.reshape(2, *shape).numpy())  # fmt: skip # noqa: E501
    assert picture.planes == planes
    assert np.array_equal(picture.to_images(given).numpy(), expected.reshape(2, *planes))


def test_an_encoder_passes_numbers_beside_an_image_through_unchanged() -> None:
    parts = {
        "eye": image((5, 5, 3)),
        "speed": spaces.Box(-9, 9, (2,)),
        "z": spaces.MultiDiscrete([2, 3]),
    }
    space = spaces.Dict(parts)
    codec = codec_of(space)
    encoder = Encoder(codec.numeric_dim, [ImageSpec((5, 5, 3), False, 255.0)], ["mlp"])
    space.seed(1)
    ones = [space.sample() for _ in range(3)]
    rows = torch.from_numpy(codec.encode_batch(ones))
    expected = [
        np.concatenate(
            [
                one["speed"],
                np.eye(2)[one["z"][0]],
                np.eye(3)[one["z"][1]],
                np.moveaxis(one["eye"], -1, 0).ravel() / 255.0,
            ]
        )
        for one in ones
    ]
    np.testing.assert_allclose(encoder(rows), np.array(expected), rtol=1e-6)
    odd = torch.zeros(3 * codec.dim + 1, dtype=torch.uint8)[1:].view(3, -1)  # no number is aligned
    odd.copy_(rows)
    for i in range(3):
        assert torch.equal(encoder(odd[i : i + 1]), encoder(rows)[i : i + 1])
    with pytest.raises(ShapeError, match=r"expected \[\.\.\., 103\] torch.uint8"):
        encoder(rows.float())


def chosen(shape: tuple[int, ...], **options: Any) -> tuple[str, ...]:
    codec = codec_of(image(shape))
    return make_encoder_spec(PPOConfig(**options), codec, "world").descriptions


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((84, 84, 3), "84x84, 3 channels .*channels last.*255, encoder nature"),
        ((4, 36, 40), "36x40, 4 channels .*channels first.*encoder nature"),
        ((35, 60, 3), "35x60.*encoder impala"),
        ((16, 16, 3), "16x16.*encoder small"),
        ((4, 4, 1), "4x4, 1 channel .*encoder small"),
        ((3, 60, 1), "3x60.*encoder mlp"),
        ((84, 84), "84x84, 1 channel .*without channels.*encoder nature"),
        ((3, 84, 84, 3), "84x84, 9 channels .*channels last.*encoder nature"),
    ],
)
def test_the_network_follows_from_the_size_and_the_run_says_which(shape: tuple[int, ...], said: str) -> None:
    (line,) = chosen(shape)
    assert re.search(said, line), line


@pytest.mark.parametrize("shape", [(8, 8, 12), (3, 64, 3), (64, 3, 64), (84, 84, 84)])
def test_ambiguous_channels_require_image_channels(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"world has images of shape .*algo.image_channels=first or last"):
        chosen(shape)
    last, first = (chosen(shape, image_channels=order)[0] for order in ("last", "first"))
    assert f"{shape[2]} channels" in last
    assert f"{shape[0]} channels" in first


@pytest.mark.parametrize("shape", [(8, 8, 12), (8, 12, 3)])
def test_the_channels_of_a_stack_of_gray_frames_are_its_frames(shape: tuple[int, ...]) -> None:
    codec = replace(codec_of(image(shape)), n_frames=8)
    (line,) = make_encoder_spec(PPOConfig(), codec, "world").descriptions
    assert f"{shape[1]}x{shape[2]}, 8 channels" in line
    (line,) = make_encoder_spec(PPOConfig(image_channels="last"), codec, "world").descriptions
    assert f"{shape[0]}x{shape[1]}, {shape[2]} channels" in line


def test_an_image_too_small_for_a_network_is_refused_with_those_that_take_it() -> None:
    with pytest.raises(ConfigError, match=r"nature needs images of at least 36x36, world has 35x40; set algo.encoder=auto, impala, small or mlp"):  # fmt: skip # noqa: E501
        chosen((35, 40, 3), encoder="nature")
    with pytest.raises(ConfigError, match=r"small needs images of at least 4x4, world has 3x3; set algo.encoder=auto, impala or mlp"):  # fmt: skip # noqa: E501
        chosen((3, 3, 1), encoder="small")


@pytest.mark.parametrize(
    "options", [{"encoder": "nature"}, {"encoder_features": 8}, {"image_channels": "last"}]
)
def test_image_keys_require_an_image_observation(options: dict[str, Any]) -> None:
    codec = codec_of(spaces.Box(-1, 1, (3,)))
    with pytest.raises(ConfigError, match=rf"algo.{next(iter(options))}=.*world has no image"):
        make_encoder_spec(DQNConfig(**options), codec, "world")
    with pytest.raises(ConfigError, match=r"algo.share_encoder=false: CartPole-v1 has no image"):
        PPO("CartPole-v1", share_encoder=False)


def test_features_that_no_network_makes_are_refused() -> None:
    for options, shape in (({"encoder": "mlp"}, (8, 8, 3)), ({}, (3, 3, 1))):
        with pytest.raises(ConfigError, match=r"algo.encoder_features=8: the images of world are flattened"):
            chosen(shape, encoder_features=8, **options)
    parts = spaces.Dict({"small": image((3, 3, 1)), "large": image((8, 8, 3))})
    make_encoder_spec(PPOConfig(encoder_features=8), codec_of(parts))


def test_pixels_are_divided_by_what_their_space_allows() -> None:
    codec = codec_of(image((4, 4, 2), high=5))
    encoding = make_encoder_spec(PPOConfig(encoder="mlp"), codec)
    assert encoding.make_encoder is not None
    row = torch.full((1, 32), 5, dtype=torch.uint8)
    assert torch.equal(encoding.make_encoder()(row), torch.ones(1, 32))


def test_the_cost_of_an_encoder_is_what_its_layers_give() -> None:
    cost = encoder_cost(0, [ATARI], ["nature"])
    convolutions = [32 * 20 * 20, 64 * 9 * 9, 64 * 7 * 7]
    pixels = 4 * 84 * 84
    assert cost.parameters == count(Encoder(0, [ATARI], ["nature"]))
    # outputs of each layer and each rectifier, the flattening, the linear layer, the pixels
    assert cost.saved_activations == 2 * sum(convolutions) + 64 * 7 * 7 + 2 * 512 + pixels
    assert cost.peak_activations == pixels + convolutions[0]


def seeing(space: Any, actions: Any) -> Any:
    return lambda: RandomSpacesEnv(space, actions)


def test_a_shared_encoder_learns_from_both_losses_and_separate_ones_from_one() -> None:
    env = seeing(image((7, 7, 3)), spaces.Discrete(3))
    both = PPO(env, n_envs=1, n_steps=8, batch_size=8).policy
    apart = PPO(env, n_envs=1, n_steps=8, batch_size=8, share_encoder=False).policy
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 256, (6, 147), dtype=torch.uint8, generator=generator)
    taken = torch.zeros(6, dtype=torch.long)

    def is_moved(policy: Any, encoder: Any, result: int) -> bool:
        policy.evaluate_actions(rows, taken)[result].sum().backward()
        moved = any(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())
        policy.zero_grad()
        return moved

    log_probs, values = 0, 2
    assert is_moved(both, both.encoder, log_probs)
    assert is_moved(both, both.encoder, values)
    assert is_moved(apart, apart.actor[0], log_probs)
    assert not is_moved(apart, apart.actor[0], values)
    assert not is_moved(apart, apart.critic[0], log_probs)
    assert is_moved(apart, apart.critic[0], values)
    assert count(apart) - count(both) == count(both.encoder)


def test_on_policy_encoders_are_orthogonal_as_ppo_has_them() -> None:
    policy: Any = PPO(seeing(image((7, 7, 3)), spaces.Discrete(3)), n_envs=1, n_steps=8, batch_size=8).policy
    layers = [layer for layer in policy.encoder.nets[0] if isinstance(layer, Conv2d | Linear)]
    assert [type(layer) for layer in layers] == [Conv2d, Conv2d, Conv2d, Linear]
    for layer in layers:
        flat = layer.weight.detach().flatten(1)
        small = flat if flat.shape[0] <= flat.shape[1] else flat.T
        torch.testing.assert_close(small @ small.T, 2.0 * torch.eye(len(small)), atol=1e-4, rtol=0)
        assert not layer.bias.abs().sum()


def test_target_networks_and_critics_have_their_encoders() -> None:
    learner = DQN(seeing(image((7, 7, 3)), spaces.Discrete(3))).learner
    assert count(learner.target) == count(learner.policy) > 10_000
    sac = SAC(seeing(image((7, 7, 3)), spaces.Box(-1, 1, (2,)))).learner
    assert isinstance(sac.policy.critic, EncodedEnsemble)
    assert count(sac.target.module) == count(sac.policy.critic)
    ids = [{id(p) for p in part.parameters()} for part in (sac.policy.actor, sac.policy.critic)]
    assert not ids[0] & ids[1]


def test_critics_with_an_encoder_append_actions_to_its_features() -> None:
    torch.manual_seed(0)
    encoder = Encoder(0, [GRID], ["small"], 6)
    critics = EncodedEnsemble(encoder, EnsembleMLP(2, (6 + 2, 8, 1), "relu"))
    rows, actions = bytes_of(encoder), torch.randn(5, 2, requires_grad=True)
    q = critics.weights  # by hand: each member maps the features and actions, concatenated
    x = torch.cat([encoder(rows), actions], -1)
    hidden = (torch.einsum("bi,moi->mbo", x, q[0]) + critics.biases[0][:, None]).relu()
    by_hand = (torch.einsum("mbi,moi->mbo", hidden, q[1]) + critics.biases[1][:, None]).squeeze(-1)
    slope = torch.randn(2, 5)
    parameters = list(critics.parameters())
    found = torch.autograd.grad(by_hand, [actions, *parameters], slope)
    values = q_values(critics, rows, actions)
    torch.testing.assert_close(values, by_hand)
    torch.testing.assert_close(torch.autograd.grad(values, [actions, *parameters], slope), found)
    torch.testing.assert_close(q_values(critics, rows, actions, members=1), by_hand[:1])


def test_critics_of_a_class_of_their_own_keep_their_layers_behind_an_encoder() -> None:
    class Scaled(EnsembleMLP):
        """Critics that are multiplied by a buffer."""

        def __init__(self) -> None:
            super().__init__(2, (6 + 2, 8, 1))
            self.register_buffer("scale", torch.tensor(3.0))

        def forward(self, x: Tensor, members: int | None = None) -> Tensor:
            return self.scale * super().forward(x, members)

    encoder = Encoder(2, [ImageSpec((2, 2), False, 255.0)], ["mlp"])
    critics = Scaled()
    wrapped = EncoderSpec(6, lambda: encoder).wrap_ensemble(critics)
    rows = torch.randint(0, 255, (5, encoder.dim), dtype=torch.uint8)
    rows[:, :8] = torch.zeros(5, 2).view(torch.uint8)
    actions = torch.randn(5, 2)
    expected = critics(torch.cat([encoder(rows), actions], -1))
    assert torch.equal(wrapped.with_actions(rows, actions), expected)
    assert torch.equal(wrapped.with_actions(rows, actions, 1), expected[:1])
    assert "critics.scale" in wrapped.state_dict()
