// The client of a spawn helper: one child process that exchanges frames over its standard streams. Requests of one iteration of
// the event loop are sent in one write. The helper ends when its input ends, so it cannot outlive this process.

import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { constants } from "node:os"
import { encodeRequest, eventDecoder, FRAME_MAX } from "./protocol.ts"
import type { Exited, Failed, Hello, HelperEvent, StartRequest } from "./protocol.ts"

/** Receives the events of one task. Exactly one of `failed`, `exited` and `lost` is the last. */
export interface TaskListener {
  started(pid: number): void
  failed(failed: Failed): void
  exited(exited: Exited): void
  /** Called when the helper itself has died. */
  lost(reason: string): void
}

/** Time for a helper to start. */
const START_MS = 10_000
const RENEWALS_PER_LEASE = 10

export class Helper {
  readonly hello: Hello
  readonly #child: ChildProcess
  readonly #listeners = new Map<number, TaskListener>()
  readonly #closed: Promise<void>
  #queue: Buffer[] = []
  #lastId = 0
  #dead: string | null = null
  #stopping = false
  #leaseTimer: NodeJS.Timeout | undefined
  #lease = { ms: Number.POSITIVE_INFINITY, renewedAt: 0, missed: false }

  private constructor(child: ChildProcess, hello: Hello, onEvent: (handler: (event: HelperEvent) => void) => void) {
    this.#child = child
    this.hello = hello
    this.#closed = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        const reason = signal ?? `exit code ${code}`
        clearInterval(this.#leaseTimer)
        this.#dead = this.#stopping
          ? "stopped, because Ork is shutting down"
          : this.#missedLease()
            ? "killed: Ork was paused or blocked for longer than its lease, and another server may run the task"
            : `the spawn helper ended unexpectedly (${reason})`
        for (const listener of this.#listeners.values()) listener.lost(this.#dead)
        this.#listeners.clear()
        resolve()
      })
    })
    onEvent((event) => this.#onEvent(event))
  }

  /** Rejects when the helper does not start within `timeoutMs`. */
  static start(command: string, args: string[], timeoutMs = START_MS): Promise<Helper> {
    // Its own session, because Ctrl-C in the terminal is for Ork, which then stops its tasks in order. No environment, because
    // tasks may be able to read that of the helper.
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], detached: true, env: {} })
    const decode = eventDecoder()
    return new Promise((resolve, reject) => {
      let handler: ((event: HelperEvent) => void) | null = null
      const fail = (reason: string): void => {
        clearTimeout(timer)
        reject(new Error(`the spawn helper ${command} did not start: ${reason}`))
      }
      const timer = setTimeout(() => {
        child.kill("SIGKILL")
        fail(`it did not answer within ${timeoutMs} ms`)
      }, timeoutMs)
      child.once("error", (error) => fail(error.message))
      child.once("close", () => fail("it ended at once"))
      // The event `close` reports a helper that has died; the broken pipe adds nothing.
      child.stdin.on("error", () => {})
      child.stdout.on("data", (chunk: Buffer) => {
        for (const event of decode(chunk)) {
          if (handler !== null) handler(event)
          else if (event.kind === "hello") {
            clearTimeout(timer)
            resolve(new Helper(child, event.hello, (onEvent) => (handler = onEvent)))
          }
        }
      })
    })
  }

  get dead(): boolean {
    return this.#dead !== null
  }

  get pid(): number {
    return this.#child.pid!
  }

  /** Starts a task. Returns the id for `kill`. */
  run(request: StartRequest, listener: TaskListener): number {
    const id = (this.#lastId = (this.#lastId % 0xffff_ffff) + 1)
    if (this.#dead !== null) {
      listener.lost(this.#dead)
      return id
    }
    const frame = encodeRequest({ kind: "start", id, start: request })
    if (frame.length > FRAME_MAX) {
      const text = `its command, environment, input and secrets have ${frame.length} bytes, and the limit is ${FRAME_MAX}`
      listener.failed({ stage: "files", errno: constants.errno.E2BIG, text })
      return id
    }
    this.#listeners.set(id, listener)
    this.#send(frame)
    return id
  }

  kill(id: number, signal: number): void {
    if (this.#listeners.has(id)) this.#send(encodeRequest({ kind: "kill", id, signal }))
  }

  /** Makes the helper end with all tasks when this process is silent for `ms`. */
  keepLease(ms: number): void {
    this.#lease = { ms, renewedAt: performance.now(), missed: false }
    const renew = (): void => {
      this.#lease.missed = this.#missedLease()
      this.#lease.renewedAt = performance.now()
      this.#send(encodeRequest({ kind: "lease", ms }))
    }
    this.#leaseTimer = setInterval(renew, ms / RENEWALS_PER_LEASE).unref()
    renew()
  }

  #missedLease(): boolean {
    const { ms, renewedAt, missed } = this.#lease
    return missed || performance.now() - renewedAt > ms
  }

  /** Stops the helper, which kills every process of every task. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#child.stdin!.end()
    await this.#closed
  }

  #send(frame: Buffer): void {
    if (this.#queue.push(frame) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    const data = this.#queue.length === 1 ? this.#queue[0]! : Buffer.concat(this.#queue)
    this.#queue = []
    if (this.#dead === null) this.#child.stdin!.write(data)
  }

  #onEvent(event: HelperEvent): void {
    if (event.kind === "hello") return
    const listener = this.#listeners.get(event.id)
    if (listener === undefined) return
    switch (event.kind) {
      case "started":
        return listener.started(event.pid)
      case "failed":
        this.#listeners.delete(event.id)
        return listener.failed(event.failed)
      case "exited":
        this.#listeners.delete(event.id)
        return listener.exited(event.exited)
      default:
        return event satisfies never
    }
  }
}
