// Shell scripts that call `ork __complete` for completions. It prints one word per line; a line `:files` makes the shell add file
// names.

export const SHELLS = ["bash", "zsh", "fish"] as const
export type Shell = (typeof SHELLS)[number]

const BASH = `# ork completion for bash. Put this into ~/.bashrc:  eval "$(ork completion bash)"
_ork_complete() {
  local current="\${COMP_WORDS[COMP_CWORD]}" word
  COMPREPLY=()
  while IFS= read -r word; do
    if [ "$word" = ":files" ]; then
      compopt -o default 2>/dev/null
    else
      COMPREPLY+=("$word")
    fi
  done < <(ork __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current" 2>/dev/null)
}
complete -F _ork_complete ork
`

const ZSH = `#compdef ork
# ork completion for zsh. Put this into ~/.zshrc, after compinit:  eval "$(ork completion zsh)"
_ork_complete() {
  local -a found
  found=("\${(@f)$(ork __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${found[(Ie):files]} )); then
    found=("\${(@)found:#:files}")
    _files
  fi
  found=("\${(@)found:#}")
  (( \${#found} )) && compadd -a found
}
compdef _ork_complete ork
`

const FISH = `# ork completion for fish. Put this into ~/.config/fish/completions/ork.fish:  ork completion fish > …
function __ork_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for word in (ork __complete -- $words[2..-1] "$current" 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path "$current"
        else
            echo $word
        end
    end
end
complete -c ork -f -a '(__ork_complete)'
`

export const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const satisfies Record<Shell, string>
