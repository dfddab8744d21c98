// Functions in TypeScript and Python for workflows of executors that call them through `ork exec`.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const WORDS = `
export const words = (input: { text: string }, ctx: { attempt: number; taskName: string; log(line: string): void }) => {
  ctx.log("counting in " + ctx.taskName)
  return { count: input.text.split(" ").length, attempt: ctx.attempt }
}
export const fails = () => {
  throw new Error("no such table")
}
`

const LOAD = `
def load(input, ctx):
    print("loading", input["words"]["count"])
    return {"loaded": input["words"]["count"] * 2, "task": ctx.task_name}
`

/** Writes the functions, and a workflow that calls them with the fields of an executor. */
export const writeFunctions = (folder: string, fields: object): void => {
  mkdirSync(join(folder, "tasks"))
  writeFileSync(join(folder, "tasks/words.ts"), WORDS)
  writeFileSync(join(folder, "tasks/load.py"), LOAD)
  const definition = {
    name: "functions",
    defaults: fields,
    tasks: {
      words: { file: "tasks/words.ts", function: "words", input: { text: "a b c" } },
      load: { file: "tasks/load.py", function: "load", depends_on: ["words"] },
      fails: { file: "tasks/words.ts", function: "fails" },
    },
  }
  writeFileSync(join(folder, "flow.json"), JSON.stringify(definition))
}

/** The output of `ork show --json` for that workflow after it has run. */
export const FUNCTION_RESULTS = [
  { name: "words", status: "success", output: { count: 3, attempt: 1 } },
  { name: "load", status: "success", output: { loaded: 6, task: "load" } },
  { name: "fails", status: "failed", exit_code: 1 },
] as const
