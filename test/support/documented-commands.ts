// Finds the calls of `ork` and `npm run` in a shell script of the documentation that name a command or an option that does not exist.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { ADMIN_COMMANDS } from "../../src/cli/commands/specs/admin.ts"
import type { CommandSpec } from "../../src/cli/commands/specs/command-spec.ts"
import { JOB_COMMANDS } from "../../src/cli/commands/specs/jobs.ts"
import { PROCESS_COMMANDS } from "../../src/cli/commands/specs/processes.ts"
import { RUN_COMMANDS } from "../../src/cli/commands/specs/runs.ts"
import { WORKFLOW_COMMANDS } from "../../src/cli/commands/specs/workflows.ts"
import { REPO } from "./ork.ts"

const COMMANDS: readonly CommandSpec[] = [
  ...RUN_COMMANDS,
  ...WORKFLOW_COMMANDS,
  ...JOB_COMMANDS,
  ...PROCESS_COMMANDS,
  ...ADMIN_COMMANDS,
]

const { scripts } = JSON.parse(readFileSync(join(REPO, "package.json"), "utf8")) as { scripts: Record<string, string> }

/** Returns a sentence for each wrong call. */
export const wrongCalls = (script: string): string[] =>
  callsIn(script).flatMap(([program, ...words]) => {
    if (program === "ork" || program === "bin/ork") return wrongOrkCall(words)
    const [run, name = ""] = words
    return program === "npm" && run === "run" && !Object.hasOwn(scripts, name)
      ? [`npm run ${name}: there is no such script`]
      : []
  })

/** Splits a script into its commands, as lists of words. Understands quotes, comments, pipes and lists of commands. */
const callsIn = (script: string): string[][] => {
  const joined = script.replaceAll(/\\\n\s*/g, " ")
  const tokens = joined.matchAll(/\s#[^\n]*|^#[^\n]*|\n|\|\|?|&&|;|[()]|\$\(|(?:'[^']*'|"(?:\\.|[^"])*"|[^\s'"|&;()])+/gm)
  const calls: string[][] = [[]]
  for (const [token] of tokens) {
    if (/^\s*#/.test(token)) continue
    if (/^(?:\n|\|\|?|&&|;|[()]|\$\()$/.test(token)) calls.push([])
    else calls.at(-1)!.push(token.replaceAll(/^['"]|['"]$/g, ""))
  }
  return calls.map(withoutPrefix).filter((words) => words.length > 0)
}

/** Removes variables and programs that start another one from the beginning of a command. */
const withoutPrefix = (words: readonly string[]): string[] => {
  const start = words.findIndex((word) => !/^(?:\w+=.*|sudo|nohup|exec|env|export|time|npx)$/.test(word))
  return start === -1 ? [] : words.slice(start)
}

const wrongOrkCall = (words: readonly string[]): string[] => {
  const options = ["--help", "--version"]
  let specs = COMMANDS
  const named: string[] = []
  for (const word of words) {
    const spec = specs.find(({ usage }) => usage.split(" ")[0] === word)
    if (spec === undefined) break
    named.push(word)
    options.push(...flagsOf(spec))
    specs = spec.subcommands ?? []
  }
  for (const spec of specs) if (spec.isDefault === true) options.push(...flagsOf(spec))
  const first = words[0]
  if (first === undefined || first === "…") return []
  const call = ["ork", ...words].join(" ")
  if (named.length === 0 && !options.includes(first)) return [`${call}: there is no command ${first}`]
  const end = words.indexOf("--")
  const given = words.slice(0, end === -1 ? undefined : end).filter((word) => /^--?[a-z]/.test(word))
  return given
    .map((word) => word.split("=")[0]!)
    .filter((option) => !options.includes(option))
    .map((option) => `${call}: there is no option ${option}`)
}

const flagsOf = ({ options = [] }: CommandSpec): string[] =>
  options.flatMap(([flags]) => flags.split(/,? /).filter((word) => word.startsWith("-")))
