// One worker process: started through the spawn helper, which ends all of its processes with it; runs one task at a time.
// A task: frame down → output on its pipes, messages up → its end, once everything that it wrote before has been read.

import { constants } from "node:os"
import { join } from "node:path"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { Progress } from "../executor.ts"
import type { Helper } from "../process/helper.ts"
import type { Exited, StartRequest } from "../process/protocol.ts"
import { describeStartFailure } from "../process/messages.ts"
import { type CodeFile, type FunctionError, MessageReader, type TaskFrame, type WorkerMessage } from "./frames.ts"
import { afterReading, Pipes, withPipes } from "./pipes.ts"

const { SIGTERM, SIGKILL } = constants.signals
/** What a worker that could not start is quoted with. */
const MAX_EARLY = 4096
/** Beyond the largest output: the message around it. */
const MESSAGE_SLACK = 1 << 16

export interface WorkerSpec extends Pick<
  StartRequest,
  "argv" | "env" | "cwd" | "runAs" | "homeOfUser" | "memoryBytes" | "cpuMillis"
> {
  /** Holds the pipes; they are there already. */
  folder: string
  maxOutputBytes: number
}

/** What a task says while it runs. */
export interface TaskListener {
  /** Not called again before the promise, if there is one, is settled. */
  output(stream: LogStream, bytes: Buffer): Promise<void> | undefined
  progress(progress: Progress): void
}

export type TaskEnd =
  | { kind: "output"; json: Buffer; last: boolean }
  | { kind: "error"; error: FunctionError; last: boolean }
  | WorkerGone

/** Its process has ended, or nobody knows any more what it does. */
export type WorkerGone = { kind: "exited"; exited: Exited } | { kind: "lost"; reason: string }

export class WorkerNotStarted extends Error {}

interface Running {
  listener: TaskListener
  /** Set with the first message that ends it. */
  end: TaskEnd | null
  /** Writes to its log that are not done yet. */
  writing: number
  settle(end: TaskEnd): void
}

export class PoolWorker {
  readonly pid: number
  readonly #helper: Helper
  readonly #id: number
  readonly #pipes: Pipes
  readonly #gone: Promise<WorkerGone>
  #running: Running | null = null
  #dead = false
  #faulty = false
  /** Milliseconds that the last function took, by its own clock. */
  lastMs = 0
  tasks = 0
  /** How often the pool has seen its task at work. */
  looks = 0
  /** It has told of code that it loaded. */
  loaded = false
  onFiles: (files: CodeFile[]) => void = () => {}

  private constructor(helper: Helper, id: number, pid: number, pipes: Pipes, gone: Promise<WorkerGone>, reader: MessageReader) {
    this.#helper = helper
    this.#id = id
    this.pid = pid
    this.#pipes = pipes
    this.#gone = gone
    this.#listen(pipes.out, "stdout")
    this.#listen(pipes.err, "stderr")
    pipes.up.on("data", (chunk: Buffer) => this.#read(reader, chunk))
    void gone.then((end) => {
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
    const gone = Promise.withResolvers<WorkerGone>()
    const { folder, maxOutputBytes, ...rest } = spec
    const request: StartRequest = {
      ...rest,
      argv: withPipes(folder, spec.argv),
      input: null,
      secrets: [],
      stdinPath: "/dev/null",
      logPath: join(folder, "log"),
      outputPath: join(folder, "output"),
    }
    return new Promise((resolve, reject) => {
      let pid = 0
      let early = ""
      const hear = (chunk: Buffer): void => void (early = (early + chunk.toString()).slice(-MAX_EARLY))
      const fail = (reason: string): void => {
        pipes.close()
        reject(new WorkerNotStarted(reason))
      }
      const id = helper.run(request, {
        started: (started) => (pid = started),
        failed: (failed) => fail(describeStartFailure(failed, { ...request, argv: spec.argv })),
        exited: (exited) => gone.resolve({ kind: "exited", exited }),
        lost: (reason) => gone.resolve({ kind: "lost", reason }),
      })
      pipes.err.on("data", hear)
      const reader = new MessageReader(maxOutputBytes + MESSAGE_SLACK)
      let ready = false
      pipes.up.on("data", function first(chunk: Buffer) {
        if (!reader.read(chunk).some((message) => message.kind === "ready")) return
        ready = true
        pipes.up.off("data", first)
        pipes.err.off("data", hear)
        resolve(new PoolWorker(helper, id, pid, pipes, gone.promise, reader))
      })
      void gone.promise.then((end) =>
        afterReading(() => {
          if (!ready) fail(notStarted(end, spec.argv[0] ?? "", early))
        }),
      )
    })
  }

  get dead(): boolean {
    return this.#dead || this.#faulty
  }

  run(frame: TaskFrame, listener: TaskListener): Promise<TaskEnd> {
    this.tasks += 1
    this.looks = 0
    return new Promise((settle) => {
      this.#running = { listener, end: null, writing: 0, settle }
      if (this.dead) void this.#gone.then((end) => this.#end(end))
      else this.#pipes.down.write(`${JSON.stringify(frame)}\n`)
    })
  }

  /** SIGTERM to all of its processes; a function that looks at its signal may come to an end. */
  terminate(): void {
    this.#helper.kill(this.#id, SIGTERM)
  }

  kill(): void {
    this.#helper.kill(this.#id, SIGKILL)
  }

  /** Its function has ended: it may go, and what it left behind goes with it. */
  hangUp(): void {
    this.#pipes.hangUp()
  }

  /** Resolves when nothing of it is left. */
  get gone(): Promise<WorkerGone> {
    return this.#gone
  }

  #listen(socket: Pipes["out"], stream: LogStream): void {
    socket.on("data", (bytes: Buffer) => {
      const running = this.#running
      // What comes between two tasks is of none.
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
    if (this.#faulty) return
    try {
      for (const message of reader.read(chunk)) this.#take(message)
    } catch {
      // Nobody but the function can have written there: such a worker is of no use any more.
      this.#faulty = true
      this.kill()
    }
  }

  #take(message: WorkerMessage): void {
    switch (message.kind) {
      case "ready":
        return
      case "progress": {
        const { kind: _, ...progress } = message
        return this.#running?.listener.progress(progress)
      }
      case "files":
        this.loaded = true
        this.looks = 0
        return this.onFiles(message.files)
      case "output":
      case "error": {
        this.lastMs = message.ms
        const running = this.#running
        if (running === null) return
        const { ms: _, ...end } = message
        running.end ??= end
        return afterReading(() => this.#end(end, running))
      }
      default:
        return message satisfies never
    }
  }

  /** The first end counts, once its output is written. */
  #end(end: TaskEnd, running = this.#running): void {
    if (running === null || running !== this.#running) return
    running.end ??= end
    if (running.writing > 0) return
    this.#running = null
    running.settle(running.end)
  }
}

const notStarted = (gone: WorkerGone, program: string, stderr: string): string => {
  if (gone.kind === "lost") return gone.reason
  const { code, signal } = gone.exited
  // The shell's own answer for a program that it cannot find.
  if (code === 127) return `${program} was not found in PATH`
  const last = stderr.trimEnd().split("\n").at(-1) ?? ""
  const how = code === null ? `was killed by signal ${signal}` : `ended with exit code ${code}`
  return `its worker process ${how} before it was ready${last === "" ? "" : `: ${last}`}`
}
