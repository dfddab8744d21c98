// A durable function under kills: a program with the function shares the store of the servers and is killed again and again. Each step
// writes a new token, and the token of the step before it, to a journal.

import { appendFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { Client } from "../client.ts"

const REPO = join(import.meta.dirname, "../../..")
export const FUNCTION = "durable"
const SETTLE_MS = 60_000
const POLL_MS = 200

const PROGRAM = `
import { randomUUID } from "node:crypto"
import { appendFileSync } from "node:fs"
import { setTimeout as delay } from "node:timers/promises"
import { Ork, task, workflow } from "ork"

const note = async (key, step, saw) => {
  const token = randomUUID()
  await delay(20)
  appendFileSync(process.env.JOURNAL, [key, step, token, saw].join(" ") + "\\n")
  return token
}
const called = task("called", { retry: { attempts: 10, delay: "100ms" } }, ({ key, saw }) => note(key, "called", saw))
const durable = workflow("${FUNCTION}", {}, async ({ key }, step) => {
  const first = await step.run("first", () => note(key, "first", "-"))
  const job = await step.call(called, { key, saw: first })
  await step.sleep("pause", "50ms")
  const last = await step.run("last", () => note(key, "last", job))
  return { first, called: job, last }
})
await Ork.open({ database: process.env.ORK_DATABASE_URL, objects: process.env.ORK_OBJECT_STORE, run: [durable, called] })
console.log("the program is ready")
`

/** Writes the program into a folder. Returns its file. */
export const writeProgram = (folder: string): string => {
  mkdirSync(join(folder, "node_modules"), { recursive: true })
  if (!existsSync(join(folder, "node_modules/ork"))) symlinkSync(REPO, join(folder, "node_modules/ork"))
  const file = join(folder, "program.mjs")
  writeFileSync(file, PROGRAM)
  return file
}

export interface StepEntry {
  key: string
  step: string
  token: string
  saw: string
}

/** Lines that the steps wrote themselves. */
export class StepJournal {
  readonly file: string

  constructor(file: string) {
    this.file = file
    appendFileSync(file, "")
  }

  read(): StepEntry[] {
    const lines = readFileSync(this.file, "utf8").split("\n").slice(0, -1)
    return lines.map((line) => {
      const [key, step, token, saw] = line.split(" ")
      if (saw === undefined) throw new Error(`the journal has a line that no step writes: ${JSON.stringify(line)}`)
      return { key, step, token, saw } as StepEntry
    })
  }
}

/** Checks all runs of the function that servers acknowledged. */
export const checkFunctions = async (client: Client, journal: StepJournal): Promise<string[]> => {
  const violations: string[] = []
  for (const [key, run] of client.acknowledged) {
    if (!key.startsWith(`${FUNCTION}-`)) continue
    const status = await Promise.race([client.end(run), delay(SETTLE_MS, "unfinished", { ref: false })])
    if (status !== "success") violations.push(`function ${key} (run ${run}) is ${status}`)
    else violations.push(...stepProblems(key, await resultOf(client, run), journal.read()))
  }
  return violations
}

type Result = Record<"first" | "called" | "last", string>

const resultOf = async (client: Client, run: string): Promise<Result | null> => {
  for (const until = performance.now() + SETTLE_MS; performance.now() < until; await delay(POLL_MS)) {
    const { body } = await client.ask("GET", `/runs/${run}/tasks?limit=10`)
    const [task] = body["items"] as { output: Result | null }[]
    if (task !== undefined && task.output !== null) return task.output
  }
  return null
}

const STEPS = ["first", "called", "last"] as const

/**
 * The result has the token of each step; every try of a step read the token of the step before it that is in the result; and once a
 * step has begun, those before it do not run again.
 */
export const stepProblems = (key: string, result: Result | null, entries: readonly StepEntry[]): string[] => {
  if (result === null) return [`function ${key} succeeded, and has no result`]
  const own = entries.filter((entry) => entry.key === key)
  const problems: string[] = []
  for (const [i, step] of STEPS.entries()) {
    const tries = own.filter((entry) => entry.step === step)
    const before = i === 0 ? "-" : result[STEPS[i - 1]!]
    if (!tries.some(({ token }) => token === result[step]))
      problems.push(`function ${key}: no try of ${step} wrote the token of its result`)
    for (const { saw } of tries) if (saw !== before) problems.push(`function ${key}: ${step} read ${saw}, not ${before}`)
    const lastTry = own.findLastIndex((entry) => entry.step === step)
    const next = own.findIndex((entry) => entry.step === STEPS[i + 1])
    if (next !== -1 && lastTry > next) problems.push(`function ${key}: ${step} ran again after ${STEPS[i + 1]} had begun`)
  }
  return problems
}
