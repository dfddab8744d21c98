// A worker process for functions in TypeScript and JavaScript, one task at a time: a frame in, the function called, a message out.
// Started by the pool with pipes for messages as descriptors 3 (to write) and 4 (to read); ends when the latter ends.

import { writeSync } from "node:fs"
import { Socket } from "node:net"
import { performance } from "node:perf_hooks"
import type { TaskFrame } from "../pool/frames.ts"
import { ErrorReport, jsonOf } from "./answer.ts"
import { loadFunction, newFiles } from "./code.ts"
import { TaskContext } from "./context.ts"
import { leftBehind, watchChildren } from "./children.ts"
import { TermSignal } from "./term-signal.ts"

const UP = 3
const DOWN = 4

const say = (line: string): void => {
  const bytes = Buffer.from(`${line}\n`)
  for (let done = 0; done < bytes.length;) done += writeSync(UP, bytes, done)
}

/** What an earlier task had or set goes. Every touch of `process.env` is a call of the system's: none is made in vain. */
const setEnvironment = (env: TaskFrame["env"]): void => {
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(env, name)) delete process.env[name]
  for (const name of Object.keys(env)) if (process.env[name] !== env[name]) process.env[name] = env[name]
}

const tellFiles = (): void => {
  const files = newFiles()
  if (files.length > 0) say(`F ${JSON.stringify(files)}`)
}

/** The task at work; null: none. */
let current: { frame: TaskFrame; context: TaskContext; term: TermSignal; startedAt: number } | null = null

const flushed = (stream: NodeJS.WriteStream): Promise<void> | undefined =>
  stream.writableLength === 0 ? undefined : new Promise((resolve) => stream.write("", () => resolve()))

const fail = (error: unknown): string => {
  const report = new ErrorReport(error)
  process.stderr.write(`${report.stack}\n`)
  return report.json
}

const perform = async (frame: TaskFrame): Promise<void> => {
  const term = new TermSignal()
  const context = new TaskContext(frame.context, frame.env, {
    progress: (update) => say(`P ${JSON.stringify(update)}`),
    write: (stream, text) => void process[stream].write(text),
    signal: () => term.signal,
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
    tellFiles()
    json = jsonOf(await call(frame.input, context), frame.maxOutputBytes)
  } catch (error) {
    kind = "E"
    json = fail(error)
  }
  await finish(kind, json, loaded)
}

/** Node never tries again to load a module that it could not load: then, too, this process has to go. */
const finish = async (kind: "O" | "E", json: string, loaded = true): Promise<void> => {
  const { frame, context, term, startedAt } = current!
  tellFiles()
  context.end()
  term.end()
  for (const stream of [process.stdout, process.stderr]) await flushed(stream)
  const last = leftBehind(frame.env["ORK_ATTEMPT_ID"] ?? "") || !loaded ? 1 : 0
  current = null
  say(`${kind} ${(performance.now() - startedAt).toFixed(2)} ${last} ${json}`)
}

/** Thrown where nobody waits for it (a timer, a promise without a handler): this process is of no use any more. */
process.on("uncaughtException", (error) => {
  const json = fail(error)
  if (current === null) process.exit(1)
  void finish("E", json).finally(() => process.exit(1))
})

watchChildren()
let parts: string[] = []
const down = new Socket({ fd: DOWN, readable: true, writable: false })
down.setEncoding("utf8")
down.on("data", (chunk: string) => {
  const end = chunk.indexOf("\n")
  if (end < 0) return void parts.push(chunk)
  const line = parts.join("") + chunk.slice(0, end)
  parts = [chunk.slice(end + 1)]
  void perform(JSON.parse(line) as TaskFrame)
})
down.on("end", () => process.exit(0))
down.on("error", () => process.exit(0))
say("R")
