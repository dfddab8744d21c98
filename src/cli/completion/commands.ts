// `ork completion SHELL` prints a script for the shell; `ork __complete` is what the script calls.

import { Argument } from "commander"
import { type Add, example } from "../options.ts"
import { SHELLS, SCRIPTS, type Shell } from "./scripts.ts"

export const addCompletion: Add = (program, context, done) => {
  const command = program
    .command("completion")
    .addArgument(new Argument("<shell>", "which shell").choices(SHELLS))
    .description("print a script that completes commands, options and names in bash, zsh or fish")
  example(command, 'eval "$(ork completion bash)"').action((shell: Shell) => {
    context.stdout.write(SCRIPTS[shell])
    done(0)
  })
  program.command("__complete [words...]", { hidden: true }).action(async (words: string[]) => {
    const [{ candidates }, { serverNames }] = await Promise.all([import("./candidates.ts"), import("./names.ts")])
    const found = await candidates(program, words, serverNames(context))
    for (const word of [...found.words, ...(found.files ? [":files"] : [])]) context.stdout.write(`${word}\n`)
    done(0)
  })
}
