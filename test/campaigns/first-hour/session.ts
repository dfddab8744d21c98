// The commands that a user types in the first hour, and their counts.

import { execFile } from "node:child_process"
import { chmodSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { startChild } from "../ork-child.ts"
import type { OrkProcess } from "../../support/ork-process.ts"

export const expectText = (text: string, part: string): void => {
  if (!text.includes(part)) throw new Error(`expected ${JSON.stringify(part)} in: ${text.trim()}`)
}

const READY = /is ready at (http:\S+)/
/** A file that an import wrote, and a problem that it reported. */
const WRITTEN = /^\S+:\d+: \S*\/(\S+)\.yaml$/gm
const PROBLEM = /^\S+:\d+: problem: /gm

export class Session {
  readonly #program: string
  readonly #folder: string
  /** Names of the imported workflows. */
  readonly workflows: string[] = []
  failures = 0
  #steps = 0
  #problems = 0
  #runs = 0
  #explained = 0
  #server: OrkProcess | null = null
  readonly #start = Date.now()

  constructor(program: string, folder: string) {
    this.#program = program
    this.#folder = folder
    // Tasks of a server that runs as root run as another user, who writes to this folder too.
    chmodSync(folder, 0o777)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.kill("SIGTERM")
    await this.#server?.exit
  }

  /** Runs a step and prints one line about it: what it returns, or its error. */
  async step(name: string, run: () => Promise<string>): Promise<void> {
    const start = Date.now()
    this.#steps++
    const result = await run().then(
      (text) => ({ mark: "✓", text }),
      (error: Error) => ({ mark: "✗", text: error.message }),
    )
    if (result.mark === "✗") this.failures++
    const lastLine = result.text.trim().split("\n").at(-1)!
    console.log(
      `${result.mark} ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)${lastLine === "" ? "" : `: ${lastLine}`}`,
    )
  }

  /** Calls `ork`; resolves with everything that it printed. Rejects if the exit code is another one. */
  ork(args: readonly string[], exitCode: number | readonly number[] = 0): Promise<string> {
    const env = { PATH: process.env.PATH, HOME: this.#folder, TZ: "UTC" }
    return new Promise((resolve, reject) => {
      execFile(this.#program, args, { cwd: this.#folder, env, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
        const code = error === null ? 0 : Number(error.code)
        if ([exitCode].flat().includes(code)) resolve(stdout + stderr)
        else reject(new Error(`ork ${args.join(" ")} ended with ${code}: ${stdout}${stderr}`))
      })
    })
  }

  /** Imports a file, and checks that every line with an entry is either converted or reported. */
  async importFile(kind: "crontab" | "airflow" | "dagu", file: string, options: readonly string[] = []): Promise<string> {
    const report = await this.ork(["import", kind, file, "--out", join(this.#folder, "workflows"), ...options], [0, 1])
    const written = [...report.matchAll(WRITTEN)].map(([, name]) => name!)
    const problems = report.match(PROBLEM)?.length ?? 0
    if (kind === "crontab") expectEveryEntry(file, report)
    if (written.length === 0) throw new Error(`no workflow was written: ${report}`)
    this.workflows.push(...written)
    this.#problems += problems
    return `${written.length} workflows, ${problems} lines reported`
  }

  async serve(): Promise<string> {
    this.#server = startChild(["serve", "--port", "0"], { cwd: this.#folder, env: { HOME: this.#folder, TZ: "UTC" } })
    await this.#server.printed(READY)
    return READY.exec(this.#server.stdout)![1]!
  }

  async run(workflow: string, exitCode = 0): Promise<string> {
    this.#runs++
    const printed = await this.ork(["trigger", workflow, "--wait"], exitCode)
    return /^[✓✗] .*$/m.exec(printed)?.[0] ?? ""
  }

  async explain(workflow: string, expected: string): Promise<string> {
    const text = await this.ork(["explain", workflow])
    expectText(text, expected)
    this.#explained++
    return text.split("\n").find((line) => line.includes(expected))!
  }

  summary(): string {
    const seconds = ((Date.now() - this.#start) / 1000).toFixed(0)
    return (
      `${this.#steps} steps: ${this.workflows.length} workflows imported, ${this.#problems} lines reported, ${this.#runs} runs, ` +
      `${this.#explained} failures explained and fixed, ${this.failures} steps failed, in ${seconds} s`
    )
  }
}

/** Throws if the report lacks a line of the crontab that has an entry. */
const expectEveryEntry = (file: string, report: string): void => {
  const lines = readFileSync(file, "utf8").split("\n")
  const entries = lines.flatMap((line, i) => (/^[@\d*]/.test(line) ? [i + 1] : []))
  const missing = entries.filter((line) => !report.includes(`${basename(file)}:${line}: `))
  if (missing.length > 0) throw new Error(`lines without a report: ${missing.join(", ")}`)
}
