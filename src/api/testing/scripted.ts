// An executor for tests that interprets the command as steps separated by `;`: `echo TEXT` writes a line to the log, `fail` fails the
// attempt, `file PATH TEXT` writes a file into the working folder, `block` waits until `release` is called or the attempt is stopped,
// `defer` waits for a callback, `null` ends it with the output null. Other steps do nothing.

import { appendFile, mkdir, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Assignment, Executor, LaunchContext } from "../../executors/executor.ts"
import { indexKey, logKey, RECORD_BYTES } from "../../objects/logs/log-keys.ts"
import type { FileObjectStore } from "../../objects/file/file.ts"

export class ScriptedExecutor implements Executor {
  readonly name = "process"
  readonly #objects: FileObjectStore
  readonly #sizes = new Map<string, number>()
  readonly #blocked = new Map<string, () => void>()
  /** Callback URLs by task name. */
  readonly callbacks = new Map<string, string>()
  readonly #waiting: { task: string; resolve: () => void }[] = []

  constructor(objects: FileObjectStore) {
    this.#objects = objects
  }

  /** Resolves when a task of that name is blocked. */
  async blocked(task: string): Promise<void> {
    if (this.#blocked.has(task)) return
    await new Promise<void>((resolve) => void this.#waiting.push({ task, resolve }))
  }

  release(task: string): void {
    this.#blocked.get(task)?.()
  }

  async launch(assignment: Assignment, { signal, started }: LaunchContext): Promise<AttemptResult> {
    const startedAt = Date.now()
    started({ at: startedAt, externalId: "1" })
    const { command } = assignment
    const end = (rest: Omit<AttemptResult, "startedAt" | "finishedAt">): AttemptResult => ({
      startedAt,
      finishedAt: Date.now(),
      ...rest,
    })
    for (const step of command !== null && "shell" in command ? command.shell.split(";") : []) {
      const [verb, ...rest] = step.trim().split(" ")
      if (verb === "echo") await this.write(assignment.prefix, `${rest.join(" ")}\n`)
      if (verb === "defer") {
        this.callbacks.set(assignment.task, assignment.callback!()["ORK_CALLBACK_URL"]!)
        return end({ state: "success", output: { inline: { ork_defer: { callback: {} } } } })
      }
      if (verb === "file") await writeText(join(assignment.workingDir, rest[0]!), rest.slice(1).join(" "))
      if (verb === "null") return end({ state: "success", output: { inline: null }, exitCode: 0 })
      if (verb === "fail") return end({ state: "failed", error: "it failed", exitCode: 1 })
      if (verb === "block") await this.#block(assignment.task, signal)
      if (signal.aborted) return end({ state: signal.reason === "timeout" ? "timeout" : "cancelled", error: "stopped" })
    }
    return end({ state: "success", output: { inline: { task: assignment.task } }, exitCode: 0 })
  }

  async write(prefix: string, text: string): Promise<void> {
    const log = this.#objects.localPath(logKey(prefix))
    await mkdir(dirname(log), { recursive: true })
    const offset = this.#sizes.get(prefix) ?? 0
    const bytes = Buffer.from(text)
    this.#sizes.set(prefix, offset + bytes.length)
    await appendFile(log, bytes)
    const record = Buffer.alloc(RECORD_BYTES)
    record.writeBigUInt64LE(BigInt(offset), 0)
    record.writeBigUInt64LE(BigInt(Date.now()), 8)
    record.writeUInt32LE(bytes.length, 16)
    record.writeUInt32LE(1, 20)
    await appendFile(this.#objects.localPath(indexKey(prefix)), record)
  }

  async #block(task: string, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#blocked.set(task, resolve)
      signal.addEventListener("abort", () => resolve())
      for (const waiter of this.#waiting.splice(0)) {
        if (waiter.task === task) waiter.resolve()
        else this.#waiting.push(waiter)
      }
    })
    this.#blocked.delete(task)
  }
}

const writeText = async (path: string, text: string): Promise<void> => {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
}
