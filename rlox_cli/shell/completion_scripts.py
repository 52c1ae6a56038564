"""Shell scripts that get completions from `rlox completion SHELL words=...`."""

from __future__ import annotations

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
