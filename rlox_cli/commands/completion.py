"""`rlox completion`: TAB in bash, zsh and fish."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.command import Call, Command
from rlox_cli.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE
from rlox_cli.schema import Schema

if TYPE_CHECKING:
    from omegaconf import DictConfig

SHELLS = ("bash", "zsh", "fish")
WORDS = "words="


@dataclass(frozen=True)
class CompletionConfig:
    """What `rlox completion` takes."""

    shell: str = param(doc="the shell, also without shell=", choices=SHELLS)
    words: str | None = param(
        None,
        "what was typed after rlox, a word a line: prints what the last may become, not the script",
        verbatim=True,
    )


SCHEMA = Schema("completion", CompletionConfig, primary="completion")


def check(composed: DictConfig) -> CompletionConfig:
    """The validated configuration."""
    from rlox.configs import make
    from rlox_cli import validate

    return make(CompletionConfig, validate.known_data(composed, SCHEMA))


def _run(call: Call) -> int:
    match call.args:
        case [shell, words] if shell in SHELLS and words.startswith(WORDS):
            # at each TAB: Hydra would take too long
            return _answer(CompletionConfig(shell, words.removeprefix(WORDS)))
    from rlox_cli import compose

    flags, given = compose.taken_apart(call.args, call.command)
    bare = [word for word in given if "=" not in word and word[:1] not in "~+"][:1]
    named = [f"shell={word}" for word in bare] + [word for word in given if word not in bare]
    compose.run(replace(call, args=[*flags, *named]), lambda composed: _answer(check(composed)))
    return OK


def _answer(config: CompletionConfig) -> int:
    if config.words is not None:
        from rlox_cli.suggestions import suggest

        print("\n".join(suggest(config.words.removesuffix("\n").split("\n"))))
        return OK
    from rlox_cli.shells import SCRIPTS

    print(SCRIPTS[config.shell], end="")
    return OK


COMMAND = Command(
    name="completion",
    summary="TAB in bash, zsh and fish: prints what the shell has to read",
    notes=(
        "Prints a script by which TAB completes commands, keys, options, environments and run folders:\n"
        "  bash   source <(rlox completion bash), in ~/.bashrc\n"
        "  zsh    source <(rlox completion zsh), in ~/.zshrc\n"
        "  fish   rlox completion fish | source, in ~/.config/fish/config.fish"
    ),
    examples=("rlox completion bash",),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    prints=lambda args: True,
    takes="SHELL",
)
