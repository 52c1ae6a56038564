"""`rlox completion`: TAB completion in bash, zsh and fish."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

# bash splits words at = and : and replaces the text after the last of them; a whole word gets a space.
BASH = """\
_rlox_complete() {
  local line=${COMP_LINE:0:COMP_POINT} IFS=$' \\t\\n' word words
  read -ra words <<< "$line"
  case $line in *[[:space:]]) words+=("") ;; esac
  local current=${words[${#words[@]}-1]} typed
  printf -v typed '%s\\n' "${words[@]:1}"
  local kept=${current%"${current##*[=:]}"}
  [[ $COMP_WORDBREAKS == *[=:]* ]] || kept=
  COMPREPLY=()
  while IFS= read -r word; do
    [[ -n $word ]] || continue
    word=${word#"$kept"}
    [[ $word == *[^A-Za-z0-9._/=:,@+~%-]* ]] && printf -v word %q "$word"
    case $word in *[=./]) ;; *) word="$word " ;; esac
    COMPREPLY+=("$word")
  done < <("${words[0]}" completion bash "words=$typed" 2>/dev/null)
}
complete -o nospace -F _rlox_complete rlox
"""

ZSH = """\
#compdef rlox
_rlox() {
  local -a typed found whole part
  typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
  found=("${(@f)$("${(Q)words[1]}" completion zsh "words=${(pj:\\n:)typed}"$'\\n' 2>/dev/null)}")
  part=(${(M)found:#*[=./]})
  whole=(${found:#*[=./]})
  (( ${#part} )) && compadd -S '' -a part
  (( ${#whole} )) && compadd -a whole
}
if [[ ${funcstack[1]} == _rlox ]]; then
  _rlox "$@"
else
  (( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit }
  compdef _rlox rlox
fi
"""

FISH = """\
function __rlox_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (printf '%s\\n' $before[2..-1] "$current" | string collect --no-trim-newlines)
    command $before[1] completion fish "words=$lines" 2>/dev/null
end
complete -c rlox -f -a '(__rlox_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


SHELLS = ("bash", "zsh", "fish")
WORDS_PREFIX = "words="


@dataclass(frozen=True)
class CompletionConfig:
    """Arguments of `rlox completion`."""

    shell: str = param(doc="the shell; shell= may be left out", choices=SHELLS)
    words: str | None = param(
        None,
        "the words after rlox, one per line: prints completions of the last one, not the script",
        verbatim=True,
    )


SCHEMA = Schema("completion", CompletionConfig, primary="completion")


def check(composed: DictConfig) -> CompletionConfig:
    """Return the validated configuration."""
    from rlox.configs import make
    from rlox_cli.config import validate

    return make(CompletionConfig, validate.checked_data(composed, SCHEMA))


def _run(call: Call) -> int:
    match call.args:
        case [shell, words] if shell in SHELLS and words.startswith(WORDS_PREFIX):
            # runs at each TAB, for which Hydra would take too long
            return _print_completion(CompletionConfig(shell, words.removeprefix(WORDS_PREFIX)))
    from rlox_cli.config import compose

    flags, arguments = compose.split_flags(call.args, call.command)
    positional = [argument for argument in arguments if "=" not in argument and argument[:1] not in "~+"][:1]
    overrides = [f"shell={argument}" for argument in positional] + [
        argument for argument in arguments if argument not in positional
    ]
    compose.run(replace(call, args=[*flags, *overrides]), lambda composed: _print_completion(check(composed)))
    return OK


def _print_completion(config: CompletionConfig) -> int:
    if config.words is not None:
        from rlox_cli.shell.completion import suggest

        print("\n".join(suggest(config.words.removesuffix("\n").split("\n"))))
        return OK

    print(SCRIPTS[config.shell], end="")
    return OK


COMMAND = Command(
    name="completion",
    summary="TAB completion in bash, zsh and fish: print a script for the shell",
    description=(
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
    is_print_only=lambda args: True,
    usage_arguments="SHELL",
)
