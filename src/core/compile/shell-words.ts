// Words of shell commands that make other words code: `sh -c`, `eval`, `trap`.

const SHELLS = new Set(["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "su", "runuser"])
const CODE_COMMANDS = new Set(["eval", "trap"])

/** Words that may precede the name of a command. */
const COMMAND_PREFIXES = new Set([
  "!",
  "{",
  "if",
  "then",
  "elif",
  "else",
  "while",
  "until",
  "do",
  "time",
  "command",
  "builtin",
  "exec",
  "sudo",
])

export const isCommandPrefix = (word: string): boolean => COMMAND_PREFIXES.has(word)

export const isShell = (word: string): boolean => SHELLS.has(baseName(word))

/** True for `-c`, `-lc`, `-euc`: the next argument of a shell is a script. */
export const isCodeFlag = (word: string): boolean => /^-[A-Za-z]*c$/.test(word)

/** Returns the command that will evaluate the word after these words as code: a shell, `eval` or `trap`; otherwise null. */
export const codeCommand = (words: readonly string[]): string | null => {
  const command = words.find((word) => !isCommandPrefix(word) && !/^[A-Za-z_][A-Za-z0-9_]*=/.test(word))
  if (command === undefined) return null
  if (CODE_COMMANDS.has(command)) return command
  if (!isCodeFlag(words.at(-1)!)) return null
  const shell = words.slice(0, -1).find(isShell)
  return shell === undefined ? null : baseName(shell)
}

const baseName = (word: string): string => word.slice(word.lastIndexOf("/") + 1)
