// The spawn helper for machines without a C compiler: a small Node.js process with the protocol of native/ork-spawn.c. It finds
// a task's processes by session and by a variable in their environment (process-table.ts), because it can create neither a
// namespace nor a reaper; it does not measure memory and CPU time. It ends with its input, and kills all tasks. What may take long before
// a start (a user look-up, a file system that does not respond) is awaited outside of the event loop, so that it delays no other task.

import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { closeSync, constants as fileConstants, fstatSync, openSync, readFileSync, readSync, rmSync } from "node:fs"
import { constants } from "node:os"
import { ATTEMPT_VARIABLE } from "../environment.ts"
import { MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import { LogWriter } from "../../objects/logs/log-writer.ts"
import { type Mask, maskOf } from "../../objects/mask.ts"
import { liveProcesses, signalProcess } from "./process-table.ts"
import type { TaskProcess } from "./process-table.ts"
import { closeFiles, errnoOf, errorWithCode, prepare, type Prepared, StartFailure } from "./prepare-start.ts"
import { encodeEvent, requestDecoder } from "./protocol.ts"
import type { Exited, HelperEvent, StartRequest } from "./protocol.ts"

// Threads for calls that may hang. Read when the first of them is needed.
process.env["UV_THREADPOOL_SIZE"] = "64"

const VERSION = 4
const { SIGKILL } = constants.signals
/** Time for pipes to close after a task's last process, since a process outside of the task may hold them open. */
const DRAIN_MS = 1000
const MIN_SWEEP_MS = 1
const MAX_SWEEP_MS = 50

interface Task {
  id: number
  child: ChildProcess
  attempt: string
  start: StartRequest
  log: LogWriter
  /** Masks of stdout and stderr. */
  masks: [Mask | null, Mask | null]
  exit: { code: number | null; signal: NodeJS.Signals | null } | null
  /** Both pipes have ended. */
  closed: boolean
  /** No process of the task is left. */
  swept: boolean
  stopping: boolean
  killing: boolean
  stopRequested: boolean
}

const tasks = new Map<number, Task>()
/** Ids of tasks that are being prepared, with the signal to deliver after their start; 0 for none. */
const preparing = new Map<number, number>()
/** True when all tasks are being killed. */
let ending = false
/** Timer of the next sweep. */
let sweep: { timer: NodeJS.Timeout; ms: number } | null = null

const send = (event: HelperEvent): void => {
  process.stdout.write(encodeEvent(event))
}

const startProcess = (start: StartRequest, { user, stdin, outputs }: Prepared): ChildProcess => {
  const env: { [name: string]: string } = Object.fromEntries(
    start.env.map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
  )
  if (user !== null) env["USER"] = start.runAs
  if (user !== null && start.homeOfUser) env["HOME"] = user.home
  // A shell sets the memory limit and then becomes the command.
  const limited = ["/bin/sh", "-c", `ulimit -v ${Math.ceil(start.memoryBytes / 1024)} && exec "$@"`, "sh", ...start.argv]
  const [program, ...args] = start.memoryBytes > 0 ? limited : start.argv
  const ids = user === null ? {} : { uid: user.uid, gid: user.gid }
  return spawn(program!, args, { cwd: start.cwd, env, stdio: [stdin.fd, ...outputs], detached: true, ...ids })
}

/** Removes whatever is at a path, which a task can change. */
const remove = (path: string): void => {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    // The folder of the file is removed with this server.
  }
}

const removeInput = (start: StartRequest): void => {
  if (start.input !== null) remove(start.stdinPath)
}

const onStart = async (id: number, start: StartRequest): Promise<void> => {
  preparing.set(id, 0)
  const fail = (error: unknown): void => {
    removeInput(start)
    const { failed } = error instanceof StartFailure ? error : new StartFailure("exec", error)
    if (preparing.delete(id)) send({ kind: "failed", id, failed })
  }
  let prepared: Prepared
  try {
    prepared = await prepare(start)
  } catch (error) {
    return fail(error)
  }
  let child: ChildProcess
  try {
    if (ending || !preparing.has(id)) return removeInput(start)
    child = startProcess(start, prepared)
  } catch (error) {
    return fail(error)
  } finally {
    closeFiles(prepared)
  }
  if (child.pid === undefined) {
    child.once("error", fail)
    return
  }
  const signal = preparing.get(id)!
  preparing.delete(id)
  const task = newTask(id, start, child)
  tasks.set(id, task)
  send({ kind: "started", id, pid: child.pid })
  child.stdout?.on("data", (chunk: Buffer) => addToLog(task, 1, chunk))
  child.stderr?.on("data", (chunk: Buffer) => addToLog(task, 2, chunk))
  child.once("exit", (code, signal) => {
    task.exit = { code, signal }
    scheduleSweep(MIN_SWEEP_MS)
  })
  child.once("close", () => {
    task.closed = true
    if (task.swept) end(task)
  })
  if (signal !== 0) onKill(id, signal)
}

const newTask = (id: number, start: StartRequest, child: ChildProcess): Task => ({
  id,
  child,
  attempt: start.env.find((entry) => entry.startsWith(`${ATTEMPT_VARIABLE}=`))?.slice(ATTEMPT_VARIABLE.length + 1) ?? "",
  start,
  log: new LogWriter(start.logPath, start.maxLogBytes),
  masks: [maskOf(start.secrets), maskOf(start.secrets)],
  exit: null,
  closed: false,
  swept: false,
  stopping: false,
  killing: false,
  stopRequested: false,
})

const addToLog = ({ log, masks }: Task, stream: 1 | 2, chunk: Buffer): void => {
  const mask = masks[stream - 1]!
  const bytes = mask === null ? chunk : mask.add(chunk)
  if (bytes.length > 0) log.add(stream, bytes)
}

const belongs = (found: TaskProcess, task: Task): boolean => found.session === task.child.pid || found.attempt === task.attempt

const signalGroup = (pid: number, signal: number): void => {
  try {
    process.kill(-pid, signal)
  } catch {
    // It has ended.
  }
}

const signalTask = (task: Task, signal: number): void => {
  const found = liveProcesses().filter((process) => belongs(process, task))
  for (const one of found) signalProcess(one, signal)
  // Without /proc, the process group is signalled.
  if (found.length === 0 && task.exit === null) signalGroup(task.child.pid!, signal)
}

const onKill = (id: number, signal: number): void => {
  if (preparing.has(id)) {
    preparing.set(id, signal)
    if (signal !== SIGKILL) return
    preparing.delete(id)
    return send({ kind: "exited", id, exited: KILLED_BEFORE_START })
  }
  const task = tasks.get(id)
  if (task === undefined) return
  if (signal === SIGKILL) task.killing = true
  else task.stopping = true
  if (task.exit === null) task.stopRequested = true
  signalTask(task, signal)
  scheduleSweep(MIN_SWEEP_MS)
}

/** Keeps a sweep that is due sooner, so that many exits in a row do not postpone it. */
const scheduleSweep = (ms: number): void => {
  if (sweep !== null && sweep.ms <= ms) return
  if (sweep !== null) clearTimeout(sweep.timer)
  const timer = setTimeout(() => {
    sweep = null
    sweepEnded(ms)
  }, ms)
  sweep = { timer, ms }
}

/** Reads the process table once for all tasks whose main process has ended, and kills what they have left. */
const sweepEnded = (interval: number): void => {
  const ended = [...tasks.values()].filter((task) => task.exit !== null && !task.swept)
  if (ended.length === 0) return
  const found = liveProcesses()
  for (const task of ended) {
    const left = found.filter((process) => belongs(process, task))
    if (!task.stopping || task.killing) for (const one of left) signalProcess(one, SIGKILL)
    if (left.length > 0) {
      scheduleSweep(Math.min(interval * 2, MAX_SWEEP_MS))
      continue
    }
    task.swept = true
    if (task.closed) end(task)
    else {
      setTimeout(() => {
        task.child.stdout?.destroy()
        task.child.stderr?.destroy()
      }, DRAIN_MS).unref()
    }
  }
}

const end = (task: Task): void => {
  tasks.delete(task.id)
  for (const [i, mask] of task.masks.entries()) if (mask !== null) task.log.add(i === 0 ? 1 : 2, mask.end())
  task.log.close()
  removeInput(task.start)
  send({ kind: "exited", id: task.id, exited: { ...exitOf(task), ...outputOf(task) } })
}

const KILLED_BEFORE_START: Exited = {
  code: null,
  signal: SIGKILL,
  maxRssBytes: 0,
  userMicros: 0,
  systemMicros: 0,
  outOfMemory: false,
  stopRequested: true,
  logErrno: 0,
  logSize: 0,
  line: { offset: 0, length: 0, split: false },
  outputSize: -1,
  outputErrno: 0,
  inlineOutput: null,
}

type OutputFields = Pick<Exited, "outputSize" | "outputErrno" | "inlineOutput">

const exitOf = ({ exit, stopRequested, log }: Task): Omit<Exited, keyof OutputFields> => ({
  code: exit!.code,
  signal: exit!.signal === null ? 0 : constants.signals[exit!.signal],
  maxRssBytes: 0,
  userMicros: 0,
  systemMicros: 0,
  outOfMemory: false,
  stopRequested,
  logErrno: log.errno,
  logSize: log.size,
  line: log.last,
})

/** Returns the output as native/ork-spawn.c does. A log that cannot be read is not complete. */
const outputOf = ({ start, log }: Task): OutputFields & { logErrno: number } => {
  const logErrno = log.errno
  const none = { outputSize: -1, outputErrno: 0, inlineOutput: null, logErrno }
  try {
    const file = readOutputFile(start.outputPath)
    if (file.size > 0)
      return { ...none, outputSize: file.size, inlineOutput: file.bytes && { from: "output", bytes: file.bytes } }
    none.outputSize = file.size
  } catch (error) {
    return { ...none, outputErrno: errnoOf(error) }
  }
  if (log.last.length === 0 || log.last.length > MAX_INLINE_OUTPUT_BYTES || log.last.split) return none
  try {
    return { ...none, inlineOutput: { from: "line", bytes: readLine(start.logPath, log.last) } }
  } catch (error) {
    return { ...none, logErrno: logErrno || errnoOf(error) }
  }
}

/** Reads the output file without following links or waiting for pipes. A small file is read and removed. */
const readOutputFile = (path: string): { size: number; bytes: Buffer | null } => {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fileConstants
  let file: number
  try {
    file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (errnoOf(error) === constants.errno.ENOENT) return { size: -1, bytes: null }
    throw error
  }
  try {
    const info = fstatSync(file)
    if (!info.isFile()) throw errorWithCode(info.isDirectory() ? "EISDIR" : "EINVAL", "not a regular file")
    if (info.size > MAX_INLINE_OUTPUT_BYTES) return { size: info.size, bytes: null }
    const bytes = readFileSync(file)
    remove(path)
    return { size: bytes.length, bytes }
  } finally {
    closeSync(file)
  }
}

const readLine = (path: string, { offset, length }: { offset: number; length: number }): Buffer => {
  const line = Buffer.alloc(length)
  const file = openSync(path, "r")
  try {
    readSync(file, line, 0, length, offset)
    return line
  } finally {
    closeSync(file)
  }
}

/** Kills all tasks and exits: Ork has ended. */
const endAll = (): void => {
  ending = true
  const found = liveProcesses().filter((process) => [...tasks.values()].some((task) => belongs(process, task)))
  for (const one of found) signalProcess(one, SIGKILL)
  for (const task of tasks.values()) if (task.exit === null && found.length === 0) signalTask(task, SIGKILL)
  // `process.exit` would wait for calls that hang.
  if (found.length === 0) process.kill(process.pid, SIGKILL)
  setTimeout(endAll, 1)
}

let lease: NodeJS.Timeout | undefined

const onLease = (ms: number): void => {
  clearTimeout(lease)
  lease = setTimeout(endAll, ms)
}

// Signals such as Ctrl-C are for Ork, which then stops its tasks in order.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) process.on(signal, () => {})
process.stdout.on("error", endAll)
const decode = requestDecoder()
process.stdin.on("data", (chunk: Buffer) => {
  for (const request of decode(chunk)) {
    if (request.kind === "start") void onStart(request.id, request.start)
    else if (request.kind === "kill") onKill(request.id, request.signal)
    else onLease(request.ms)
  }
})
process.stdin.on("end", endAll)
process.stdin.on("error", endAll)
send({ kind: "hello", hello: { version: VERSION, namespace: false, cgroups: "none", usable: true, protections: 0 } })
