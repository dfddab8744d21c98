// Virtualenvs with the requirements of tasks, one folder for each combination of interpreter and requirements. python/build_virtualenv.py
// builds them, once for all processes that use the same data folder: `complete` exists only in the folder of a finished one.

import { createHash } from "node:crypto"
import { existsSync, realpathSync, statSync } from "node:fs"
import { chmod, chown, lchown, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { openRegularFile } from "../../objects/shared/regular-file.ts"
import type { Environment } from "../environment.ts"
import type { Python } from "./python.ts"
import type { Requirements } from "./requirements.ts"
import { SharedWork } from "./shared-work.ts"
import type { TaskCommand, TaskCommands } from "./task-commands.ts"
import { markUsed, removeUnused } from "./unused-virtualenvs.ts"

const BUILD = fileURLToPath(new URL("../../../python/build_virtualenv.py", import.meta.url))
const IDENTIFY = "import sys; print(sys.version, sys.implementation.cache_tag, sys.base_prefix)"

/** Variables of a task that configure pip and uv. Their values are a part of the key, because they may select other packages. */
const VARIABLE = /^(?:PIP_|UV_|(?:HTTPS?|ALL|NO)_PROXY$|SSL_CERT_|REQUESTS_CA_BUNDLE$|CURL_CA_BUNDLE$)/i
/** Lines of the output that are shown in the error. */
const MAX_LINES = 5
/** A program that prints without end must not fill the memory of Ork. */
const MAX_LOG_BYTES = 1024 ** 2

export interface VirtualenvRequest {
  /** Path of the Python to build it with. */
  program: string
  requirements: Requirements
  workflow: string
  /** Variables of the task. */
  env: Environment
  commands: TaskCommands
  signal: AbortSignal
}

/** `log`: what pip or uv printed, or its end. */
export class BuildFailure extends Error {
  readonly log: string
  constructor(message: string, log: string) {
    super(message)
    this.log = log
  }
}

export class Virtualenvs {
  readonly #folder: string
  /** Versions of interpreters, by program and time of its change. */
  readonly #versions = new Map<string, string>()
  readonly #identifying = new SharedWork<string>()
  readonly #building = new SharedWork<void>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Returns the virtualenv, which is built first if there is none. Rejects with BuildFailure. */
  async find(request: VirtualenvRequest): Promise<Python> {
    const version = await this.#identify(request)
    const key = keyOf(request, version)
    const folder = join(this.#folder, key)
    if (isComplete(folder)) await markUsed(folder)
    else await this.#building.run(key, request.signal, (signal) => this.#build(folder, { ...request, signal }))
    const virtualenv = join(folder, "env")
    const bin = join(virtualenv, "bin")
    return { program: join(bin, "python"), bin, virtualenv }
  }

  async #identify(request: VirtualenvRequest): Promise<string> {
    const { program, commands, signal } = request
    const key = [program, statSync(realpathSync(program)).mtimeMs, commands.user?.name].join("\0")
    const known = this.#versions.get(key)
    if (known !== undefined) return known
    const version = await this.#identifying.run(key, signal, async (stop) => {
      const { error, log } = await this.#run({ argv: [program, "-I", "-c", IDENTIFY] }, { ...request, signal: stop })
      if (error !== null) throw new BuildFailure(`the interpreter ${program} does not start: ${error}: ${messageIn(log)}`, log)
      return log
    })
    this.#versions.set(key, version)
    return version
  }

  async #build(folder: string, request: VirtualenvRequest): Promise<void> {
    const { program, requirements, commands } = request
    const { user } = commands
    await mkdir(folder, { recursive: true, mode: 0o755 })
    if (user !== null) await chown(folder, user.uid, user.gid)
    const input = requirements.lines.map((line) => `${line}\n`).join("")
    const { error, log } = await this.#run({ argv: [program, "-I", BUILD, folder], input }, request)
    if (error !== null) throw new BuildFailure(`its requirements could not be installed: ${messageIn(log) || error}`, log)
    // Tasks of other workflows may use the virtualenv: from now on, no task can change it.
    if (user !== null) await takeBack(folder)
    await removeUnused(this.#folder)
  }

  /** Runs a command for a task. `input`: content of a file whose path is added to the arguments. */
  async #run(
    { argv, input }: Pick<TaskCommand, "argv"> & { input?: string },
    { env, commands, signal }: VirtualenvRequest,
  ): Promise<{ error: string | null; log: string }> {
    await mkdir(this.#folder, { recursive: true, mode: 0o711 })
    const folder = await mkdtemp(join(this.#folder, "build-"))
    const logPath = join(folder, "log")
    const file = join(folder, "requirements.txt")
    try {
      // The user of the task may enter the folder, and read the requirements.
      await chmod(folder, 0o711)
      if (input !== undefined) await writeFile(file, input, { mode: 0o644 })
      const command = { argv: input === undefined ? argv : [...argv, file], cwd: folder, logPath }
      const error = await commands.run({ ...command, env: { ...commands.server, ...variablesOf(env) } }, signal)
      signal.throwIfAborted()
      return { error, log: await readEnd(logPath) }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}

/** Returns the last MAX_LOG_BYTES of a file; empty if there is none. */
const readEnd = async (path: string): Promise<string> => {
  const opened = await openRegularFile(path)
  if (opened === null) return ""
  const { file, size } = opened
  try {
    const length = Math.min(size, MAX_LOG_BYTES)
    const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.toString("utf8", 0, bytesRead)
  } finally {
    await file.close()
  }
}

const isComplete = (folder: string): boolean => existsSync(join(folder, "complete"))

const variablesOf = (env: Environment): Environment =>
  Object.fromEntries(Object.entries(env).filter(([name]) => VARIABLE.test(name)))

/** Workflows share a virtualenv only if nothing but the lines of the requirements decides about its content. */
const keyOf = ({ program, requirements, workflow, env, commands }: VirtualenvRequest, version: string): string => {
  const { identity, isLocal } = requirements
  const variables = Object.entries(variablesOf(env)).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const owner = isLocal || variables.length > 0 ? workflow : null
  const parts = [program, version, identity, variables, owner, commands.user?.name ?? null]
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32)
}

/** Returns the lines of the output that say what is wrong. */
const messageIn = (log: string): string => {
  const lines = log.split("\n").filter((line) => line.trim() !== "")
  const errors = lines.filter((line) => /^\s*(?:error|×)/i.test(line))
  return (errors.length > 0 ? errors.slice(0, MAX_LINES) : lines.slice(-MAX_LINES)).map((line) => line.trim()).join("\n")
}

/** Makes Ork's user the owner of a folder and everything in it. */
const takeBack = async (folder: string): Promise<void> => {
  const [uid, gid] = [process.geteuid!(), process.getegid!()]
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await takeBack(path)
    else await lchown(path, uid, gid)
  }
  await lchown(folder, uid, gid)
}
