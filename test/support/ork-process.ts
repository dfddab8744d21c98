// The built command as a live process with its output so far, and the processes of its tasks in /proc.

import { type ChildProcess, spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { onTestFinished } from "vitest"
import { ORK } from "./ork.ts"

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export class OrkProcess {
  readonly child: ChildProcess
  readonly exit: Promise<Exit>
  stdout = ""
  stderr = ""
  #waiting: { found: () => boolean; resolve: () => void }[] = []

  constructor(child: ChildProcess) {
    this.child = child
    child.stdout?.on("data", (data: Buffer) => this.#addOutput(() => (this.stdout += data.toString())))
    child.stderr?.on("data", (data: Buffer) => this.#addOutput(() => (this.stderr += data.toString())))
    this.exit = new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal })))
  }

  /** Resolves when the output matches; rejects when the process exits before. */
  async printed(pattern: RegExp): Promise<void> {
    const found = (): boolean => pattern.test(this.stdout) || pattern.test(this.stderr)
    if (found()) return
    const printed = new Promise<"printed">((resolve) => this.#waiting.push({ found, resolve: () => resolve("printed") }))
    if ((await Promise.race([printed, this.exit])) !== "printed") {
      throw new Error(`exited before it printed ${pattern}:\n${this.stdout}\n${this.stderr}`)
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  #addOutput(add: () => void): void {
    add()
    this.#waiting = this.#waiting.filter(({ found, resolve }) => {
      if (!found()) return true
      resolve()
      return false
    })
  }
}

export const startOrk = (
  args: string[],
  { cwd, env = {}, command = [ORK] }: { cwd: string; env?: Record<string, string>; command?: string[] },
): OrkProcess => {
  const [program, ...before] = command
  const child = spawn(program!, [...before, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  })
  onTestFinished(() => killGroup(child))
  return new OrkProcess(child)
}

/** Kills the process group of the child, with everything that a failed test has left. */
const killGroup = (child: ChildProcess): void => {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, "SIGKILL")
  } catch {
    // The group has exited.
  }
}

/** Live processes of a run's tasks, by their environment. */
export const processesOf = (runId: string): number[] =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^[1-9]\d*$/.test(name)) return []
    try {
      return readFileSync(`/proc/${name}/environ`, "latin1").split("\0").includes(`ORK_RUN_ID=${runId}`) ? [Number(name)] : []
    } catch {
      return []
    }
  })
