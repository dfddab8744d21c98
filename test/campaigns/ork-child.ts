// The built command as a child process of a campaign, outside vitest. All of them end with the campaign.

import { type ChildProcess, spawn } from "node:child_process"
import { join } from "node:path"
import type { Readable } from "node:stream"
import { OrkProcess } from "../support/ork-process.ts"

const REPO = join(import.meta.dirname, "../..")

const running = new Set<ChildProcess>()
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL")
})
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130))

export interface ChildOptions {
  cwd: string
  env: Record<string, string>
}

/** A point at which the process kills itself, and what it reports. */
export interface Failpoint {
  /** `POINT#COUNT#MS` (kills/ork.ts); null: none. */
  point: string | null
  reported(point: string): void
}

/** Starts `ork ARGS`. */
export const startChild = (args: string[], options: ChildOptions): OrkProcess =>
  watched(spawn(join(REPO, "bin/ork"), args, { ...settings(options), stdio: ["ignore", "pipe", "pipe"] }))

/** Starts a program that uses the SDK. */
export const startProgram = (file: string, options: ChildOptions): OrkProcess =>
  watched(spawn(process.execPath, [file], { ...settings(options), stdio: ["ignore", "pipe", "pipe"] }))

/** Starts `ork ARGS` with failpoints. */
export const startWithFailpoints = (args: string[], options: ChildOptions, { point, reported }: Failpoint): OrkProcess => {
  const env = { ...options.env, ...(point !== null && { ORK_FAILPOINT: point }) }
  const child = startEntry("kills/ork.ts", args, { ...options, env })
  let text = ""
  ;(child.stdio[3] as Readable).on("data", (data: Buffer) => {
    const lines = (text + data.toString()).split("\n")
    text = lines.pop()!
    for (const line of lines) reported(line)
  })
  return watched(child)
}

/** Starts `ork ARGS` on an object store that truncates objects while `file` exists. */
export const startTruncating = (args: string[], options: ChildOptions, file: string): OrkProcess =>
  watched(startEntry("outages/ork.ts", args, { ...options, env: { ...options.env, ORK_TRUNCATE: file } }))

/** Starts an entry point of this folder in place of the command. File descriptor 3 is a pipe. */
const startEntry = (file: string, args: string[], options: ChildOptions): ChildProcess =>
  spawn(process.execPath, ["--require", join(REPO, "bin/preload.cjs"), join(import.meta.dirname, file), ...args], {
    ...settings(options),
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  })

const settings = ({ cwd, env }: ChildOptions): { cwd: string; env: Record<string, string> } => ({
  cwd,
  env: { PATH: process.env.PATH!, HOME: process.env.HOME!, ORK_LOG: "warn", ...env },
})

const watched = (child: ChildProcess): OrkProcess => {
  running.add(child)
  child.once("exit", () => running.delete(child))
  return new OrkProcess(child)
}
