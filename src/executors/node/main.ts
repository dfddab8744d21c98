// The worker process for functions in TypeScript and JavaScript: reads the frame of a task, calls the function, writes a
// message, one task at a time. The pool starts it with pipes for messages as descriptors 3 (to write) and 4 (to read); it exits
// when the latter closes.

import { writeSync } from "node:fs"
import { Socket } from "node:net"
import { performance } from "node:perf_hooks"
import type { TaskFrame } from "../pool/frames.ts"
import { ErrorReport, jsonOf } from "./function-result.ts"
import { loadFunction, newFiles } from "./function-loader.ts"
import { TaskContext } from "./context.ts"
import { hasLeftProcesses, trackChildProcesses } from "./child-processes.ts"
import { ProcessState } from "./process-state.ts"
import { TermSignal } from "./term-signal.ts"

type Frame = TaskFrame & { id: number; input: unknown }

const UP = 3
const DOWN = 4

const send = (line: string): void => {
  const bytes = Buffer.from(`${line}\n`)
  for (let done = 0; done < bytes.length;) done += writeSync(UP, bytes, done)
}

/**
 * Replaces the environment of the earlier task. Writes only differences, because every write to `process.env` is a call into
 * the C library.
 */
const setEnvironment = (env: TaskFrame["env"]): void => {
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(env, name)) delete process.env[name]
  for (const name of Object.keys(env)) if (process.env[name] !== env[name]) process.env[name] = env[name]
}

const reportFiles = (): void => {
  const files = newFiles()
  if (files.length > 0) send(`F ${JSON.stringify(files)}`)
}

/** The current task; null when there is none. */
let current: { frame: Frame; context: TaskContext; term: TermSignal; startedAt: number } | null = null

const flushed = (stream: NodeJS.WriteStream): Promise<void> | undefined =>
  stream.writableLength === 0 ? undefined : new Promise((resolve) => stream.write("", () => resolve()))

const fail = (error: unknown): string => {
  const report = new ErrorReport(error)
  process.stderr.write(`${report.stack}\n`)
  return report.json
}

const perform = async (frame: Frame): Promise<void> => {
  const term = new TermSignal()
  const context = new TaskContext(frame.context, {
    env: frame.env,
    get signal() {
      return term.signal
    },
    progress: (update) => send(`P ${frame.id} ${JSON.stringify(update)}`),
    write: (stream, text) => void process[stream].write(text),
  })
  current = { frame, context, term, startedAt: performance.now() }
  let kind: "O" | "E" = "O"
  let json: string
  let loaded = false
  try {
    setEnvironment(frame.env)
    process.chdir(frame.cwd)
    const call = await loadFunction(frame)
    loaded = true
    reportFiles()
    json = jsonOf(await call(frame.input, context), frame.maxOutputBytes)
  } catch (error) {
    kind = "E"
    json = fail(error)
  }
  await finish(kind, json, loaded)
}

/**
 * Ends the task. Requests a retirement when the task left anything that could affect the next one, and when the worker is not
 * `usable` for another reason, such as code that was not loaded: Node.js never loads a failed module again.
 */
const finish = async (kind: "O" | "E", json: string, usable: boolean): Promise<void> => {
  if (current === null) return
  const { frame, context, term, startedAt } = current
  reportFiles()
  context.end()
  term.end()
  for (const stream of [process.stdout, process.stderr]) await flushed(stream)
  const retire = !usable || hasLeftProcesses(frame.env["ORK_ATTEMPT_ID"] ?? "") || (await state.hasChanged()) ? 1 : 0
  current = null
  send(`${kind} ${frame.id} ${(performance.now() - startedAt).toFixed(2)} ${retire} ${json}`)
}

// The process exits after an error that nobody handles, in a timer or a promise.
process.on("uncaughtException", (error) => {
  const json = fail(error)
  if (current === null) process.exit(1)
  void finish("E", json, false).finally(() => process.exit(1))
})

trackChildProcesses()
let parts: string[] = []
const down = new Socket({ fd: DOWN, readable: true, writable: false })
down.setEncoding("utf8")
down.on("data", (chunk: string) => {
  const end = chunk.indexOf("\n")
  if (end < 0) return void parts.push(chunk)
  const line = parts.join("") + chunk.slice(0, end)
  parts = [chunk.slice(end + 1)]
  void perform(JSON.parse(line) as Frame)
})
down.on("end", () => process.exit(0))
down.on("error", () => process.exit(0))
const state = new ProcessState()
send("R")
