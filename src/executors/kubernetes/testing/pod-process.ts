// The container of a fake pod: a real process with a folder of its own for its mounts. Paths of mounts in its variables are
// replaced by paths in that folder. Its log is kept as a container runtime keeps it: by line, long lines in pieces, incomplete
// lines not at all.

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
  /** Contents by path in the container. */
  files: { [path: string]: string }
}

export interface LogEntry {
  stamp: string
  /** Ends with a newline unless it is a piece of a line. */
  text: Buffer
}

export class PodProcess {
  readonly entries: LogEntry[] = []
  exited: { code: number } | null = null
  message = ""
  /** Reason of its end, as the kubelet reports it. */
  reason: string | null = null
  readonly #folder = mkdtempSync(join(tmpdir(), "ork-pod-"))
  readonly #child: ChildProcess
  readonly #listeners = new Set<() => void>()
  readonly #now: () => string
  #killTimer: NodeJS.Timeout | null = null

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
      const reason = /ENOENT/.test(error.message) ? `stat ${program}: no such file or directory` : error.message
      this.message =
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: " +
        `unable to start container process: error during container init: exec: "${program}": ${reason}: unknown`
      this.#end(128)
    })
    this.#child.on("close", (code, signal) => this.#end(code ?? (signal === "SIGKILL" ? 137 : 143)))
  }

  /** Calls the listener after each line and at the end. Returns a function that removes it. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  kill(signal: NodeJS.Signals): void {
    if (this.exited !== null || this.#child.pid === undefined) return
    try {
      process.kill(-this.#child.pid, signal)
    } catch {
      // The process has ended.
    }
  }

  /** Sends SIGTERM, and SIGKILL after the grace period. */
  end(graceMs: number): void {
    if (this.#killTimer !== null) return
    this.kill("SIGTERM")
    this.#killTimer = setTimeout(() => this.kill("SIGKILL"), graceMs)
  }

  /** Deletes its folder. */
  remove(): void {
    this.exited ??= { code: 137 }
    clearTimeout(this.#killTimer ?? undefined)
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
        this.#addEntry(rest.subarray(0, size))
        rest = rest.subarray(size)
      }
    })
    stream.on("end", () => rest.length > 0 && this.#addEntry(rest))
  }

  #addEntry(text: Buffer): void {
    this.entries.push({ stamp: this.#now(), text })
    this.#wake()
  }

  #end(code: number): void {
    if (this.exited !== null) return
    clearTimeout(this.#killTimer ?? undefined)
    if (this.reason === null || this.reason === "OOMKilled") {
      this.message = readFileSync(join(this.#folder, "termination-log")).subarray(-MAX_MESSAGE).toString()
    }
    this.exited = { code }
    this.#wake()
  }

  #wake(): void {
    for (const listener of this.#listeners) listener()
  }
}
