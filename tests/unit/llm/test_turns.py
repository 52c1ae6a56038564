"""Tests turns of conversations: their end tokens, and learning only from the assistant's tokens."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.pretrained import CHAT, folder, tokenizer, with_begin
from transformers import AutoTokenizer

from rlox.algorithms import GRPO, SFT
from rlox.errors import ConfigError
from rlox.llm.codecs import Tokenizer
from rlox.llm.datasets import TextDataset
from rlox.llm.prompts import answer_context

# CHAT with marks around the assistant's turns.
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] }}<|im_end|>{% endgeneration %}\n"
    "{% else %}{{ m['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Keeps only the last word of earlier messages, as templates leave out earlier thoughts.
CHANGING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'] if loop.last else m['content'].split(' ')[-1] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPEN = CHAT.replace("<|im_end|>\n", "\n")
NOTHING = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


TALK = [
    turn("system", "hello there"),
    turn("user", "what colour is the sky?"),
    turn("assistant", "it is blue"),
    turn("user", "the sea?"),
    turn("assistant", "it is green"),
]


def rows(path: Path, *lines: Any, times: int = 20) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) * times)
    return path


def both(path: Path) -> dict[str, Any]:
    """Names the file for training and for evaluation."""
    return {"dataset": path, "eval_dataset": path}


def made(path: Path, template: str, eos: str | None = "<|im_end|>") -> Path:
    """Makes a model with this template and this end token."""
    folder(path, template)
    codec = tokenizer(template)
    codec.eos_token = eos
    codec.save_pretrained(path)
    return path


def test_a_template_that_ends_turns_unlike_completions_causes_a_warning(tmp_path: Path) -> None:
    model, data = made(tmp_path / "m", CHAT, "<|pad|>"), rows(tmp_path / "d", {"messages": TALK})
    told = (
        r"dataset=.*: the chat template ends a turn by '<\|im_end\|>' \(token 2\), and completions end by "
        r"'<\|pad\|>' \(token 0\): a completion goes on .*; set algo.eos_token_id=\[2,0\]"
    )
    with pytest.warns(UserWarning, match=told):
        SFT(model, **both(data))
    asked = rows(tmp_path / "p", {"prompt": TALK[:2]})
    with pytest.warns(UserWarning, match=r"ends a turn by '<\|im_end\|>' \(token 2\)"):
        GRPO(model, **both(asked), reward_fn=none)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        SFT(model, **both(data), eos_token_id=(2, 0))
        SFT(made(tmp_path / "good", CHAT), **both(data))
        SFT(made(tmp_path / "texts", CHAT, "<|pad|>"), **both(rows(tmp_path / "t", {"text": "ab"})))


@pytest.mark.parametrize(("template", "named"), [(OPEN, r"by '.*' \(token \d+\)"), (NOTHING, "by nothing")])
def test_a_template_without_special_ends_of_turns_causes_a_warning(
    template: str, named: str, tmp_path: Path
) -> None:
    data = rows(tmp_path / "d", {"messages": TALK})
    with pytest.warns(UserWarning, match=f"the chat template ends a turn {named}, and completions"):
        SFT(made(tmp_path / "m", template), **both(data))


def test_a_run_without_any_end_token_is_refused(tmp_path: Path) -> None:
    model = made(tmp_path / "m", CHAT, None)
    asked = rows(tmp_path / "p", {"prompt": TALK[:2]})
    with pytest.raises(
        ConfigError,
        match=r"completions end by nothing: no completion could end; set algo.eos_token_id=\[2\]",
    ):
        GRPO(model, **both(asked), reward_fn=none)
    assert GRPO(model, **both(asked), reward_fn=none, eos_token_id=(2,))._text.sampling.eos == (2,)
    with pytest.warns(UserWarning, match="completions end by nothing: a completion goes on"):
        SFT(model, **both(rows(tmp_path / "d", {"messages": TALK})))


def none(completions: list[torch.Tensor], prompts: Any) -> list[float]:
    return [0.0] * len(completions)


def learned(codec: Tokenizer, prompt: Any) -> str:
    """Returns the text of the tokens that count in the loss."""
    assert prompt.answer_ids is not None
    kept = prompt.answer_ids if prompt.loss_mask is None else prompt.answer_ids[prompt.loss_mask]
    return codec._tokenizer.decode(kept)


@pytest.mark.parametrize(("template", "end"), [(CHAT, "<|im_end|>\n"), (MARKED, "<|im_end|>")])
def test_assistant_only_rows_mask_other_turns_from_the_loss(template: str, end: str, tmp_path: Path) -> None:
    codec = Tokenizer(made(tmp_path / "model", template))
    data = {
        "m": ({"messages": TALK}, f"it is blue{end}it is green{end}"),
        "c": ({"prompt": TALK[:2], "completion": TALK[2:]}, f"it is blue{end}it is green{end}"),
        "a": ({"prompt": TALK[:4], "completion": TALK[4:]}, f"it is green{end}"),
        "p": (
            {"prompt": TALK[:2], "chosen": TALK[2:3], "rejected": TALK[4:]},
            f"it is blue{end}",
        ),
    }
    for name, (row, expected) in data.items():
        path = rows(tmp_path / name, row, times=1)
        ((_, prompt),) = TextDataset(path, codec, assistant_only=True).rows
        assert learned(codec, prompt) == expected, name
        ((_, whole),) = TextDataset(path, codec).rows
        assert torch.equal(whole.answer_ids, prompt.answer_ids)
        assert whole.loss_mask is None


def test_marked_tokens_are_those_that_transformers_counts(tmp_path: Path) -> None:
    path = made(tmp_path / "m", MARKED)
    there = AutoTokenizer.from_pretrained(path).apply_chat_template(
        TALK, return_dict=True, return_assistant_tokens_mask=True
    )
    data = rows(tmp_path / "d", {"messages": TALK}, times=1)
    ((_, prompt),) = TextDataset(data, Tokenizer(path), assistant_only=True).rows
    assert prompt.loss_mask is not None
    assert [False, *prompt.loss_mask.tolist()] == [bool(m) for m in there["assistant_masks"]]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "a text": (CHAT, {"text": "ab"}, "these are texts, expected a conversation (messages)"),
    "a prompt of text": (CHAT, {"prompt": "a", "completion": "b"}, "these are texts, expected"),
    "a template that changes turns": (
        CHANGING,
        {"messages": TALK},
        "the chat template writes a turn differently once others follow, and does not mark",
    ),
    "no assistant": (CHAT, {"messages": TALK[:2]}, "the conversation has no turn of the assistant"),
    "the assistant first": (CHAT, {"messages": TALK[2:]}, "the conversation begins with the assis"),
    "no mark": (MARKED, {"messages": TALK[:2]}, "marks no token as the assistant's"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_without_known_turns_of_the_assistant_are_refused(case: str, tmp_path: Path) -> None:
    template, row, told = REFUSED[case]
    codec, path = Tokenizer(made(tmp_path / "m", template)), rows(tmp_path / "d", row, times=1)
    with pytest.raises(ConfigError) as raised:
        TextDataset(path, codec, assistant_only=True)
    assert f"dataset={path}, line 1: algo.assistant_only_loss=true: " in str(raised.value)
    assert told in str(raised.value)


def test_the_assistant_only_loss_is_the_mean_over_the_assistants_tokens(tmp_path: Path) -> None:
    model = made(tmp_path / "m", CHAT)
    data = rows(tmp_path / "d", {"messages": TALK}, {"messages": TALK[:3]})
    given = both(data) | {"batch_size": 2}
    sft = SFT(model, assistant_only_loss=True, **given)
    (batch, _) = sft.source.next(sft.clock)
    total, count = 0.0, 0
    for prompt in sft._text.prompts.training_prompts(0, 2):
        ids = torch.cat([prompt.ids, prompt.answer_ids])[None]
        with torch.no_grad():
            said = sft.policy(input_ids=ids).logits[0, :-1].log_softmax(-1)
        each = said[torch.arange(len(ids[0]) - 1), ids[0, 1:]]
        total += float(each[prompt.loss_mask].sum())
        count += int(prompt.loss_mask.sum())
        assert not prompt.loss_mask.all()
    assert float(sft.learner.loss(batch).detach()) == pytest.approx(-total / count, rel=1e-5)
    scores, tokens = sft.learner.score(sft._text.prompts.training_prompts(0, 2))
    assert sum(tokens) == count
    assert float((scores * tokens).sum()) == pytest.approx(total, rel=1e-5)
    assert sft.train(2)["loss"] == pytest.approx(-total / count, rel=1e-5)
    plain = SFT(model, **given)
    (whole, _) = plain.source.next(plain.clock)
    assert float(plain.learner.loss(whole).detach()) != pytest.approx(-total / count, rel=1e-3)


def test_the_assistant_only_loss_needs_a_file_of_conversations() -> None:
    with pytest.raises(ConfigError, match=r"assistant_only_loss=true needs conversations in a file"):
        SFT(task="copy", assistant_only_loss=True)


def test_texts_with_two_bos_tokens_cause_a_warning(tmp_path: Path) -> None:
    from helpers.pretrained import qwen

    qwen(len(with_begin())).save_pretrained(tmp_path / "m")
    with_begin().save_pretrained(tmp_path / "m")
    kinds = {
        "texts": {"text": "<s>the sky is blue"},
        "prompts": {"prompt": "<s>the sky is", "completion": " blue"},
    }
    for name, row in kinds.items():
        data = rows(tmp_path / name, {k: v.replace("<s>", "") for k, v in row.items()}, row)
        with pytest.warns(UserWarning, match=r"dataset=.*, line 2 begins with token 1 twice"):
            SFT(tmp_path / "m", **both(data))


def test_a_file_asks_its_tokenizer_for_many_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = Tokenizer(made(tmp_path / "m", CHAT))
    asked: list[int] = []
    for name in ("encode_all", "encode_chats"):
        real = getattr(Tokenizer, name)

        def counted(self: Any, several: Any, *given: Any, real: Any = real) -> Any:
            asked.append(len(several))
            return real(self, several, *given)

        monkeypatch.setattr(Tokenizer, name, counted)
    texts = [{"prompt": f"{i}+1=", "completion": f"{i + 1}"} for i in range(1500)]
    found = TextDataset(rows(tmp_path / "t", *texts, times=1), codec).rows
    assert asked == [1024, 1024, 476, 476]
    for row, of in zip(found, texts, strict=True):
        alone = codec.encode(of["prompt"] + of["completion"], with_eos=True)
        assert row.prompt.answer_ids is not None
        whole = torch.cat([answer_context(row.prompt), row.prompt.answer_ids])
        assert whole.tolist() == alone.tolist()
    asked.clear()
    talks = [{"messages": [*TALK[:2], turn("assistant", f"{i}")]} for i in range(1100)]
    found = TextDataset(rows(tmp_path / "c", *talks, times=1), codec).rows
    assert asked == [1024, 76]
    for row, of in zip(found, talks, strict=True):
        assert row.prompt.answer_ids is not None
        whole = torch.cat([row.prompt.ids, row.prompt.answer_ids])
        assert whole.tolist() == codec.encode_chat(of["messages"], "", {}).tolist()


def test_a_line_that_the_template_refuses_is_named_among_many(tmp_path: Path) -> None:
    strict = "{% if messages|length > 3 %}{{ raise_exception('too long') }}{% endif %}" + CHAT
    codec = Tokenizer(made(tmp_path / "m", strict))
    data = rows(tmp_path / "d", *[{"messages": TALK[:3]}] * 4, {"messages": TALK}, times=1)
    with pytest.raises(ConfigError, match=r"dataset=.*, line 5: the chat template .*too long"):
        TextDataset(data, codec)
