// `ork completion SHELL` prints a script for the shell, and `ork __complete WORDS…` the completions that the script asks for.

import type { Command } from "commander"
import { candidates } from "../../completion/candidates.ts"
import { serverNames } from "../../completion/names.ts"
import { SCRIPTS, type Shell } from "../../completion/scripts.ts"
import type { Context } from "../../target/context.ts"
import { print } from "../../terminal/output.ts"

export const completion = async (context: Context, shell: Shell): Promise<number> => {
  context.stdout.write(SCRIPTS[shell])
  return 0
}

/** `words`: the typed words, the last one incomplete. `command`: the command `__complete`, a child of the program. */
export const complete = async (context: Context, words: string[], _options: object, command: Command): Promise<number> => {
  for (const candidate of await candidates(command.parent!, words, serverNames(context))) print(context, candidate)
  return 0
}
