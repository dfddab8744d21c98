// `ork help [COMMAND]` and `ork version`.

import type { Command } from "commander"
import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { printResult } from "../../terminal/output.ts"
import { nearest } from "../../../core/values/nearest.ts"

/** `command`: the command `help`, a child of the program. */
export const help = async (_context: Context, words: string[], _options: object, command: Command): Promise<number> => {
  let found = command.parent!
  for (const word of words) {
    const next = found.commands.find((each) => each.name() === word)
    if (next === undefined) throw new InputError(`there is no command ${words.join(" ")}; ${hintFor(word, found)}`)
    found = next
  }
  found.outputHelp()
  return 0
}

const hintFor = (word: string, { commands }: Command): string => {
  const near = nearest(
    word,
    commands.map((each) => each.name()),
  )
  return near === undefined ? "`ork help` lists the commands" : `did you mean ${near}?`
}

export const version = async (context: Context, options: { json?: boolean }): Promise<number> =>
  printResult(context, options, { version: context.version() }, `ork ${context.version()}`)
