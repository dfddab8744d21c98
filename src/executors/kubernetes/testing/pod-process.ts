// The container of a fake pod: a real process, in a folder of its own that stands for its mounts. Where a container would see `/ork`, this sees
// a folder below it: paths of mounts are replaced in its variables. Its log is kept as a container runtime keeps it: by line, long
// ones in pieces, what has no end yet not at all.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { Readable } from "node:stream"

const TERMINATION_LOG = "/dev/termination-log"
const MAX_MESSAGE = 4096
const MAX_PIECE = 16 * 1024

export interface PodPlan {
  command: string[]
  env: { [name: string]: string }
  /** Path in the container, and what is there. */
  files: { [path: string]: string }
}

export interface LogEntry {
  stamp: string
  /** With its line end, if it is not a piece of a line. */
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
  #killer: NodeJS.Timeout | null = null

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
    for (const stream of [this.#child.stdout, this.#child.stderr]) if (stream !== null) this.#copy(stream)
    this.#child.on("error", (error) => {
      this.reason = "StartError"
      const words = /ENOENT/.test(error.message) ? `stat ${program}: no such file or directory` : error.message
      this.message =
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: " +
        `unable to start container process: error during container init: exec: "${program}": ${words}: unknown`
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

  /** SIGTERM, and SIGKILL after the grace. */
  end(graceMs: number): void {
    if (this.#killer !== null) return
    this.kill("SIGTERM")
    this.#killer = setTimeout(() => this.kill("SIGKILL"), graceMs)
  }

  /** Nobody wants to know of it any more. */
  remove(): void {
    this.exited ??= { code: 137 }
    clearTimeout(this.#killer ?? undefined)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #copy(stream: Readable): void {
    let rest: Buffer = Buffer.alloc(0)
    stream.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      for (;;) {
        const end = rest.indexOf(0x0a)
        const size = end >= 0 && end < MAX_PIECE ? end + 1 : rest.length > MAX_PIECE ? MAX_PIECE : 0
        if (size === 0) break
        this.#say(rest.subarray(0, size))
        rest = rest.subarray(size)
      }
    })
    stream.on("end", () => rest.length > 0 && this.#say(rest))
  }

  #say(text: Buffer): void {
    this.entries.push({ stamp: this.#now(), text })
    this.#tell()
  }

  #end(code: number): void {
    if (this.exited !== null) return
    clearTimeout(this.#killer ?? undefined)
    if (this.reason === null || this.reason === "OOMKilled") {
      this.message = readFileSync(join(this.#folder, "termination-log")).subarray(-MAX_MESSAGE).toString()
    }
    this.exited = { code }
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}
