// Runs the built command as a user does and parses its --json output.

import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

export const REPO = join(import.meta.dirname, "../..")
export const ORK = join(REPO, "bin/ork")

export interface OrkResult {
  code: number
  stdout: string
  stderr: string
}

export interface OrkEvent {
  event: "run" | "task"
  run_id: string
  task?: string
  index?: number | null
  status: string
  at: string
}

export interface OrkRun {
  id: string
  workflow: string
  status: string
  error: string | null
  tasks: Record<string, number>
}

/** A temporary folder that is removed after the test. */
export const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-test-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs the command with PATH, HOME and `env` as its only environment. */
export const ork = (
  args: string[],
  { cwd, env = {}, command = [ORK] }: { cwd: string; env?: Record<string, string>; command?: string[] },
): Promise<OrkResult> =>
  new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env }, maxBuffer: 1 << 28 }
    const [program, ...before] = command
    execFile(program!, [...before, ...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1
      resolve({ code, stdout, stderr })
    })
  })

/** Runs `ork run … --json`; returns the events, and the run from the last line. */
export const orkRun = async (
  args: string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<OrkResult & { events: OrkEvent[]; run: OrkRun }> => {
  const result = await ork(["run", ...args, "--json"], options)
  const lines = result.stdout.split("\n").filter((line) => line !== "")
  const last = lines.pop()
  if (last === undefined)
    throw new Error(`ork run ${args.join(" ")} printed nothing and exited ${result.code}: ${result.stderr}`)
  return { ...result, events: lines.map((line) => JSON.parse(line) as OrkEvent), run: JSON.parse(last) as OrkRun }
}
