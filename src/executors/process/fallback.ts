// The spawn helper for machines without a C compiler: a small Node process that speaks the protocol of native/ork-spawn.c. It finds a
// task's processes by session and by a variable in their environment (process-table.ts), since it can set neither a namespace nor a
// reaper; peak memory and CPU time are not known here. It ends with its input, and all tasks with it.

import { execFileSync, spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { chownSync, closeSync, openSync, readFileSync, readSync, rmSync, statSync, writeFileSync } from "node:fs"
import { constants } from "node:os"
import { messageOf } from "../../core/model/error-message.ts"
import { ATTEMPT_VARIABLE } from "../environment.ts"
import { LogWriter } from "../../objects/logs/log-writer.ts"
import { type Mask, maskOf } from "../../objects/mask.ts"
import { liveProcesses, signalProcess } from "./process-table.ts"
import type { FoundProcess } from "./process-table.ts"
import { encodeEvent, INLINE_MAX, requestDecoder } from "./protocol.ts"
import type { Exited, Failed, HelperEvent, Stage, StartRequest } from "./protocol.ts"

const VERSION = 2
const { SIGKILL } = constants.signals
/** How long a pipe that a process outside of the task holds open keeps the task from ending. */
const DRAIN_MS = 1000
const FIRST_LOOK_MS = 1
const LAST_LOOK_MS = 50

interface Task {
  id: number
  child: ChildProcess
  attempt: string
  start: StartRequest
  log: LogWriter
  /** Of stdout and stderr. */
  masks: [Mask | null, Mask | null]
  exit: { code: number | null; signal: NodeJS.Signals | null } | null
  /** Both pipes have ended. */
  closed: boolean
  clean: boolean
  stopping: boolean
  killing: boolean
  told: boolean
}

const tasks = new Map<number, Task>()
/** The next look at what ended tasks left. */
let look: { timer: NodeJS.Timeout; ms: number } | null = null

const send = (event: HelperEvent): void => {
  process.stdout.write(encodeEvent(event))
}

class StartFailure extends Error {
  readonly failed: Failed
  constructor(stage: Stage, error: unknown) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "EIO"
    const errno = (constants.errno as { [name: string]: number })[code] ?? constants.errno.EIO
    const text = messageOf(error)
    super(text)
    this.failed = { stage, errno, text }
  }
}

const attempt = <T>(stage: Stage, step: () => T): T => {
  try {
    return step()
  } catch (error) {
    throw new StartFailure(stage, error)
  }
}

const coded = (code: string, text: string): Error => Object.assign(new Error(text), { code })

interface User {
  uid: number
  gid: number
  home: string
}

/** Asks the system's user database, whatever it is. Supplementary groups are dropped. */
const findUser = (name: string): User => {
  let fields: string[]
  try {
    fields = execFileSync("getent", ["passwd", "--", name], { stdio: ["ignore", "pipe", "ignore"] })
      .toString()
      .trim()
      .split(":")
  } catch {
    throw coded("ENOENT", `no user ${name}`)
  }
  const user = { uid: Number(fields[2]), gid: Number(fields[3]), home: fields[5] ?? "/" }
  if (process.geteuid?.() !== 0 && process.geteuid?.() !== user.uid) throw coded("EPERM", "not root")
  return user
}

const makeFile = (path: string, data: Uint8Array, user: User | null): void => {
  writeFileSync(path, data, { mode: 0o600 })
  if (user !== null) chownSync(path, user.uid, user.gid)
}

const startProcess = (start: StartRequest): ChildProcess => {
  const user = start.runAs === "" ? null : attempt("user", () => findUser(start.runAs))
  attempt("cwd", () => {
    if (!statSync(start.cwd).isDirectory()) throw coded("ENOTDIR", "not a folder")
  })
  const stdin = attempt("files", () => {
    if (start.input !== null) makeFile(start.stdinPath, Buffer.from(start.input), user)
    if (user !== null) makeFile(start.outputPath, Buffer.alloc(0), user)
    return openSync(start.stdinPath === "" ? "/dev/null" : start.stdinPath, "r")
  })
  const env: { [name: string]: string } = Object.fromEntries(
    start.env.map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
  )
  if (user !== null) env["USER"] = start.runAs
  if (user !== null && start.homeOfUser) env["HOME"] = user.home
  // Limits: the shell sets what it can and becomes the command.
  const limited = ["/bin/sh", "-c", `ulimit -v ${Math.ceil(start.memoryBytes / 1024)} && exec "$@"`, "sh", ...start.argv]
  const [program, ...args] = start.memoryBytes > 0 ? limited : start.argv
  const ids = user === null ? {} : { uid: user.uid, gid: user.gid }
  try {
    return spawn(program!, args, { cwd: start.cwd, env, stdio: [stdin, "pipe", "pipe"], detached: true, ...ids })
  } finally {
    closeSync(stdin)
  }
}

const removeFiles = (start: StartRequest): void => {
  if (start.input !== null) rmSync(start.stdinPath, { force: true })
}

const onStart = (id: number, start: StartRequest): void => {
  let child: ChildProcess
  try {
    child = startProcess(start)
  } catch (error) {
    removeFiles(start)
    const failure = error instanceof StartFailure ? error : new StartFailure("exec", error)
    return send({ kind: "failed", id, failed: failure.failed })
  }
  if (child.pid === undefined) {
    child.once("error", (error) => {
      removeFiles(start)
      send({ kind: "failed", id, failed: new StartFailure("exec", error).failed })
    })
    return
  }
  const mark = start.env.find((entry) => entry.startsWith(`${ATTEMPT_VARIABLE}=`))
  const task: Task = {
    id,
    child,
    attempt: mark?.slice(ATTEMPT_VARIABLE.length + 1) ?? "",
    start,
    log: new LogWriter(start.logPath),
    masks: [maskOf(start.secrets), maskOf(start.secrets)],
    exit: null,
    closed: false,
    clean: false,
    stopping: false,
    killing: false,
    told: false,
  }
  tasks.set(id, task)
  send({ kind: "started", id, pid: child.pid })
  child.stdout!.on("data", (chunk: Buffer) => addToLog(task, 1, chunk))
  child.stderr!.on("data", (chunk: Buffer) => addToLog(task, 2, chunk))
  child.once("exit", (code, signal) => {
    task.exit = { code, signal }
    lookIn(FIRST_LOOK_MS)
  })
  child.once("close", () => {
    task.closed = true
    if (task.clean) end(task)
  })
}

const addToLog = ({ log, masks }: Task, stream: 1 | 2, chunk: Buffer): void => {
  const mask = masks[stream - 1]!
  const bytes = mask === null ? chunk : mask.add(chunk)
  if (bytes.length > 0) log.add(stream, bytes)
}

const belongs = (found: FoundProcess, task: Task): boolean => found.session === task.child.pid || found.attempt === task.attempt

const signalTask = (task: Task, signal: number): void => {
  const found = liveProcesses().filter((process) => belongs(process, task))
  for (const one of found) signalProcess(one, signal)
  // Where there is no /proc: the process group.
  if (found.length === 0 && task.exit === null) process.kill(-task.child.pid!, signal)
}

const onKill = (id: number, signal: number): void => {
  const task = tasks.get(id)
  if (task === undefined) return
  if (signal === SIGKILL) task.killing = true
  else task.stopping = true
  if (task.exit === null) task.told = true
  signalTask(task, signal)
  lookIn(FIRST_LOOK_MS)
}

/** A look that is due sooner stays as it is, so that many ends in a row do not put it off. */
const lookIn = (ms: number): void => {
  if (look !== null && look.ms <= ms) return
  if (look !== null) clearTimeout(look.timer)
  const timer = setTimeout(() => {
    look = null
    lookAtEnded(ms)
  }, ms)
  look = { timer, ms }
}

/** One look at the process table for all tasks whose main process has ended. */
const lookAtEnded = (gap: number): void => {
  const ended = [...tasks.values()].filter((task) => task.exit !== null && !task.clean)
  if (ended.length === 0) return
  const found = liveProcesses()
  for (const task of ended) {
    const left = found.filter((process) => belongs(process, task))
    if (!task.stopping || task.killing) for (const one of left) signalProcess(one, SIGKILL)
    if (left.length > 0) {
      lookIn(Math.min(gap * 2, LAST_LOOK_MS))
      continue
    }
    task.clean = true
    if (task.closed) end(task)
    else {
      setTimeout(() => {
        task.child.stdout!.destroy()
        task.child.stderr!.destroy()
      }, DRAIN_MS).unref()
    }
  }
}

const end = (task: Task): void => {
  tasks.delete(task.id)
  for (const [i, mask] of task.masks.entries()) if (mask !== null) task.log.add(i === 0 ? 1 : 2, mask.end())
  task.log.close()
  removeFiles(task.start)
  send({ kind: "exited", id: task.id, exited: { ...outcome(task), ...answerOf(task) } })
}

const outcome = ({ exit, told, log }: Task): Omit<Exited, "outputSize" | "answer"> => ({
  code: exit!.code,
  signal: exit!.signal === null ? 0 : constants.signals[exit!.signal],
  maxRssBytes: 0,
  userMicros: 0,
  systemMicros: 0,
  memoryHit: false,
  told,
  logErrno: log.errno,
  logSize: log.size,
  line: log.last,
})

const answerOf = ({ start, log }: Task): Pick<Exited, "outputSize" | "answer"> => {
  const info = statSync(start.outputPath, { throwIfNoEntry: false })
  const outputSize = info?.isFile() ? info.size : -1
  if (outputSize > INLINE_MAX) return { outputSize, answer: null }
  const bytes = outputSize > 0 ? readFileSync(start.outputPath) : null
  if (outputSize >= 0) rmSync(start.outputPath, { force: true })
  if (bytes !== null) return { outputSize, answer: { from: "output", bytes } }
  if (log.last.length === 0 || log.last.length > INLINE_MAX || log.last.split) return { outputSize, answer: null }
  const line = Buffer.alloc(log.last.length)
  const file = openSync(start.logPath, "r")
  readSync(file, line, 0, line.length, log.last.offset)
  closeSync(file)
  return { outputSize, answer: { from: "line", bytes: line } }
}

/** Ork is gone: so are its tasks. */
const endAll = (): void => {
  const found = liveProcesses().filter((process) => [...tasks.values()].some((task) => belongs(process, task)))
  for (const one of found) signalProcess(one, SIGKILL)
  for (const task of tasks.values()) if (task.exit === null && found.length === 0) signalTask(task, SIGKILL)
  if (found.length === 0) process.exit(0)
  setTimeout(endAll, 1)
}

// Ctrl-C and the like are for Ork, which then ends its tasks in order.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) process.on(signal, () => {})
process.stdout.on("error", endAll)
const decode = requestDecoder()
process.stdin.on("data", (chunk: Buffer) => {
  for (const request of decode(chunk)) {
    if (request.kind === "start") onStart(request.id, request.start)
    else onKill(request.id, request.signal)
  }
})
process.stdin.on("end", endAll)
process.stdin.on("error", endAll)
send({ kind: "hello", hello: { version: VERSION, namespace: false, cgroups: "none", usable: true } })
