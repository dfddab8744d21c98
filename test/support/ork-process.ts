// The built command as a live process: signals, kills, and what it has printed so far. And what is left of its tasks in /proc.

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
    child.stdout?.on("data", (data: Buffer) => this.#take(() => (this.stdout += data.toString())))
    child.stderr?.on("data", (data: Buffer) => this.#take(() => (this.stderr += data.toString())))
    this.exit = new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal })))
  }

  /** Resolves when it has printed this; rejects when it ends without. */
  async printed(pattern: RegExp): Promise<void> {
    const found = (): boolean => pattern.test(this.stdout) || pattern.test(this.stderr)
    if (found()) return
    const told = new Promise<"told">((resolve) => this.#waiting.push({ found, resolve: () => resolve("told") }))
    if ((await Promise.race([told, this.exit])) !== "told") {
      throw new Error(`ended before it printed ${pattern}:\n${this.stdout}\n${this.stderr}`)
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  #take(add: () => void): void {
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

/** The child leads a group of its own; whatever a failed test has left of it goes too. */
const killGroup = (child: ChildProcess): void => {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, "SIGKILL")
  } catch {
    // It has ended already.
  }
}

/** Processes that carry this run in their environment; dead ones that nobody has reaped yet are none. */
export const processesOf = (runId: string): number[] =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^[1-9]\d*$/.test(name)) return []
    try {
      return readFileSync(`/proc/${name}/environ`, "latin1").split("\0").includes(`ORK_RUN_ID=${runId}`) ? [Number(name)] : []
    } catch {
      return []
    }
  })
