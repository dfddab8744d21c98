// The container of a fake pod: a real process, in a folder of its own that stands for its mounts. Where a container would see `/ork`, this sees
// a folder below it: paths of mounts are replaced in its variables.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

const TERMINATION_LOG = "/dev/termination-log"
const MAX_MESSAGE = 4096

export interface PodPlan {
  command: string[]
  env: { [name: string]: string }
  /** Path in the container, and what is there. */
  files: { [path: string]: string }
}

export interface LogEntry {
  stamp: string
  /** With its line end, if it has one yet. */
  text: Buffer
}

export class PodProcess {
  readonly entries: LogEntry[] = []
  exited: { code: number } | null = null
  message = ""
  /** What its kubelet says of its end. */
  reason: string | null = null
  readonly #folder = mkdtempSync(join(tmpdir(), "ork-pod-"))
  readonly #child: ChildProcess
  readonly #listeners = new Set<() => void>()
  readonly #now: () => string

  constructor(plan: PodPlan, now: () => string) {
    this.#now = now
    for (const [path, content] of Object.entries(plan.files)) {
      mkdirSync(dirname(join(this.#folder, path)), { recursive: true })
      writeFileSync(join(this.#folder, path), content)
    }
    writeFileSync(join(this.#folder, "termination-log"), "")
    const mounts = new Set(Object.keys(plan.files).map((path) => dirname(path)))
    const inside = (text: string): string =>
      [...mounts].reduce((value, mount) => (value.startsWith(`${mount}/`) ? join(this.#folder, value) : value), text)
    const env = Object.fromEntries(
      Object.entries(plan.env).map(([name, value]) => [
        name,
        value === TERMINATION_LOG ? join(this.#folder, "termination-log") : inside(value),
      ]),
    )
    const [program = "", ...args] = plan.command
    this.#child = spawn(program, args, {
      env: { PATH: process.env["PATH"], ...env },
      cwd: this.#folder,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    })
    this.#child.stdout?.on("data", (chunk: Buffer) => this.#say(chunk))
    this.#child.stderr?.on("data", (chunk: Buffer) => this.#say(chunk))
    this.#child.on("error", (error) => {
      this.reason = "StartError"
      this.message = `failed to create containerd task: exec: "${program}": ${/ENOENT/.test(error.message) ? "executable file not found in $PATH" : error.message}: unknown`
      this.#end(128)
    })
    this.#child.on("close", (code, signal) => this.#end(code ?? (signal === "SIGKILL" ? 137 : 143)))
  }

  /** Called after each line and at the end; returns how to stop that. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  kill(signal: NodeJS.Signals): void {
    if (this.exited !== null || this.#child.pid === undefined) return
    try {
      process.kill(-this.#child.pid, signal)
    } catch {
      // It was quicker.
    }
  }

  /** Nobody wants to know of it any more. */
  remove(): void {
    this.exited ??= { code: 137 }
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #say(chunk: Buffer): void {
    let from = 0
    while (from < chunk.length) {
      const at = chunk.indexOf(0x0a, from)
      const piece = chunk.subarray(from, at < 0 ? chunk.length : at + 1)
      const last = this.entries.at(-1)
      if (last !== undefined && last.text.at(-1) !== 0x0a) last.text = Buffer.concat([last.text, piece])
      else this.entries.push({ stamp: this.#now(), text: piece })
      from += piece.length
    }
    this.#tell()
  }

  #end(code: number): void {
    if (this.exited !== null) return
    if (this.reason === null) {
      this.message = readFileSync(join(this.#folder, "termination-log")).subarray(-MAX_MESSAGE).toString()
    }
    this.exited = { code }
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}
