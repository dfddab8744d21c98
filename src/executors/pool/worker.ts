// One worker process, which runs one task at a time. The spawn helper starts it, and ends all of its processes with it. A task:
// send its frame → receive output and messages → end, once everything that was written before has been read.

import { constants } from "node:os"
import { pipeline } from "node:stream/promises"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { Progress } from "../executor.ts"
import type { Helper } from "../process/helper.ts"
import type { Exited, StartRequest } from "../process/protocol.ts"
import { startFailureReason } from "../process/messages.ts"
import { messageOf } from "../../core/values/error-message.ts"
import {
  type CodeFile,
  type FrameInput,
  frameLine,
  type FunctionError,
  MessageReader,
  type TaskFrame,
  type WorkerMessage,
} from "./frames.ts"
import { afterReading, Pipes } from "./pipes.ts"

const { SIGTERM, SIGKILL } = constants.signals
/** Characters of stderr that are kept until the worker is ready, for the error if it is not. */
const MAX_START_STDERR = 4096
/** Bytes of a message beyond the largest output. */
const MESSAGE_OVERHEAD = 1 << 16

export interface WorkerSpec extends Pick<
  StartRequest,
  "argv" | "env" | "cwd" | "runAs" | "notRoot" | "homeOfUser" | "memoryBytes" | "cpuMillis"
> {
  /** Folder that contains the pipes. */
  folder: string
  /** User of tasks without `run_as`; "" for the user of Ork. */
  taskUser: string
  maxOutputBytes: number
}

/** Receives the output and progress of a running task. */
export interface TaskListener {
  /** Not called again before the returned promise is settled. */
  output(stream: LogStream, bytes: Buffer): Promise<void> | undefined
  progress(progress: Progress): void
}

export type TaskEnd =
  | { kind: "output"; json: Buffer; retire: boolean }
  | { kind: "error"; error: FunctionError; retire: boolean }
  | WorkerExit

/** The exit of the process, or the loss of its helper. */
export type WorkerExit = { kind: "exited"; exited: Exited } | { kind: "lost"; reason: string }

export class WorkerNotStarted extends Error {}

interface RunningTask {
  id: number
  listener: TaskListener
  /** Set by the first message that ends the task. */
  end: TaskEnd | null
  /** Writes to the log in progress. */
  writing: number
  resolve(end: TaskEnd): void
}

interface StartedWorker {
  helper: Helper
  /** Id of the process at the helper. */
  id: number
  pid: number
  pipes: Pipes
  exited: Promise<WorkerExit>
  reader: MessageReader
}

export class PoolWorker {
  readonly pid: number
  readonly #helper: Helper
  readonly #id: number
  readonly #pipes: Pipes
  /** Resolves when no process of the worker is left. */
  readonly exited: Promise<WorkerExit>
  #running: RunningTask | null = null
  #dead = false
  /** True after an invalid message. */
  #broken = false
  /** Values to mask in whatever the process writes from now on: code of an earlier task may still run. */
  readonly secrets = new Set<string>()
  /** Duration of the last function in milliseconds, by the worker's clock. */
  lastMs = 0
  tasks = 0
  /** Successive polls in which the pool has seen the current task running. */
  busyPolls = 0
  /** True once the worker has reported loaded code. */
  loaded = false
  onFiles: (files: CodeFile[]) => void = () => {}

  private constructor({ helper, id, pid, pipes, exited, reader }: StartedWorker) {
    this.#helper = helper
    this.#id = id
    this.pid = pid
    this.#pipes = pipes
    this.exited = exited
    this.#listen(pipes.out, "stdout")
    this.#listen(pipes.err, "stderr")
    pipes.up.on("data", (chunk: Buffer) => this.#read(reader, chunk))
    void exited.then((end) => {
      this.#dead = true
      afterReading(() => {
        this.#end(end)
        pipes.close()
      })
    })
  }

  /** Resolves when the worker is ready for tasks; rejects with WorkerNotStarted. */
  static start(helper: Helper, spec: WorkerSpec): Promise<PoolWorker> {
    const pipes = new Pipes(spec.folder)
    const exit = Promise.withResolvers<WorkerExit>()
    const { folder, maxOutputBytes, taskUser, ...rest } = spec
    const request: StartRequest = {
      ...rest,
      input: null,
      secrets: [],
      stdinPath: "",
      logPath: "",
      outputPath: "",
      pipes: folder,
      maxLogBytes: 0,
    }
    return new Promise((resolve, reject) => {
      let pid = 0
      let stderr = ""
      const collect = (chunk: Buffer): void => void (stderr = (stderr + chunk.toString()).slice(-MAX_START_STDERR))
      const fail = (reason: string): void => {
        pipes.close()
        reject(new WorkerNotStarted(reason))
      }
      const id = helper.run(request, {
        started: (started) => (pid = started),
        failed: (failed) => fail(startFailureReason(failed, { ...request, taskUser })),
        exited: (exited) => exit.resolve({ kind: "exited", exited }),
        lost: (reason) => exit.resolve({ kind: "lost", reason }),
      })
      pipes.err.on("data", collect)
      const reader = new MessageReader(maxOutputBytes + MESSAGE_OVERHEAD)
      let ready = false
      pipes.up.on("data", function first(chunk: Buffer) {
        try {
          if (!reader.read(chunk).some((message) => message.kind === "ready")) return
        } catch (error) {
          helper.kill(id, SIGKILL)
          return fail(invalidMessage(error))
        }
        ready = true
        pipes.up.off("data", first)
        pipes.err.off("data", collect)
        resolve(new PoolWorker({ helper, id, pid, pipes, exited: exit.promise, reader }))
      })
      void exit.promise.then((end) =>
        afterReading(() => {
          if (!ready) fail(describeStartExit(end, stderr))
        }),
      )
    })
  }

  get dead(): boolean {
    return this.#dead || this.#broken
  }

  run(frame: TaskFrame, input: FrameInput, listener: TaskListener): Promise<TaskEnd> {
    this.tasks += 1
    this.busyPolls = 0
    return new Promise((resolve) => {
      const id = this.tasks
      this.#running = { id, listener, end: null, writing: 0, resolve }
      if (this.dead) void this.exited.then((end) => this.#end(end))
      else if (input.inputFiles === undefined)
        this.#pipes.down.write(`${JSON.stringify({ id, ...frame, input: input.input })}\n`)
      else void this.#sendLarge(frameLine(id, frame, input))
    })
  }

  /** Sends a frame as fast as the worker reads it. A worker that got a part of it cannot be used any more. */
  async #sendLarge(line: AsyncIterable<Buffer>): Promise<void> {
    try {
      await pipeline(line, this.#pipes.down, { end: false })
    } catch (error) {
      if (this.#dead) return
      this.#broken = true
      this.kill()
      this.#end({ kind: "error", error: { message: `its input could not be sent: ${messageOf(error)}` }, retire: true })
    }
  }

  /** Sends SIGTERM to all processes of the worker, so that a function that uses its signal can end by itself. */
  terminate(): void {
    this.#helper.kill(this.#id, SIGTERM)
  }

  kill(): void {
    this.#helper.kill(this.#id, SIGKILL)
  }

  /** Makes the worker exit, together with the processes that its functions left. */
  closeInput(): void {
    this.#pipes.closeInput()
  }

  #listen(socket: Pipes["out"], stream: LogStream): void {
    socket.on("data", (bytes: Buffer) => {
      const running = this.#running
      // Output between two tasks belongs to none.
      if (running === null) return
      const writing = running.listener.output(stream, bytes)
      if (writing === undefined) return
      socket.pause()
      running.writing += 1
      void writing.finally(() => {
        socket.resume()
        running.writing -= 1
        const { end } = running
        if (end !== null) afterReading(() => this.#end(end, running))
      })
    })
  }

  #read(reader: MessageReader, chunk: Buffer): void {
    if (this.#broken) return
    try {
      for (const message of reader.read(chunk)) this.#apply(message)
    } catch (error) {
      // A function has written to the worker's pipe.
      this.#broken = true
      this.kill()
      this.#end({ kind: "error", error: { message: invalidMessage(error) }, retire: true })
    }
  }

  #apply(message: WorkerMessage): void {
    switch (message.kind) {
      case "ready":
        return
      case "progress":
        return this.#taskOf(message.id)?.listener.progress(message.update)
      case "files":
        this.loaded = true
        this.busyPolls = 0
        return this.onFiles(message.files)
      case "output":
      case "error": {
        const running = this.#taskOf(message.id)
        if (running === null) return
        this.lastMs = message.ms
        const { ms: _, id: _id, ...end } = message
        running.end ??= end
        return afterReading(() => this.#end(end, running))
      }
      default:
        return message satisfies never
    }
  }

  /** Returns the running task if it has this id: a leftover of an earlier task may send messages too. */
  #taskOf(id: number): RunningTask | null {
    return this.#running?.id === id ? this.#running : null
  }

  /** Ends the task as soon as its output is written. The first end counts. */
  #end(end: TaskEnd, running = this.#running): void {
    if (running === null || running !== this.#running) return
    running.end ??= end
    if (running.writing > 0) return
    this.#running = null
    running.resolve(running.end)
  }
}

const invalidMessage = (error: unknown): string => `its worker process sent an invalid message: ${messageOf(error)}`

const describeStartExit = (exit: WorkerExit, stderr: string): string => {
  if (exit.kind === "lost") return exit.reason
  const { code, signal } = exit.exited
  const last = stderr.trimEnd().split("\n").at(-1) ?? ""
  const how = code === null ? `was killed by signal ${signal}` : `ended with exit code ${code}`
  return `its worker process ${how} before it was ready${last === "" ? "" : `: ${last}`}`
}
