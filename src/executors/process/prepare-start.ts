// Prepares the start of a task for the spawn helper in JavaScript: its user, folder, program and files. Nothing here blocks the event loop
// for longer than a local file takes.

import { execFile } from "node:child_process"
import { chownSync, closeSync, openSync, writeFileSync } from "node:fs"
import { type FileHandle, open, stat } from "node:fs/promises"
import { constants } from "node:os"
import { join, resolve } from "node:path"
import { promisify } from "node:util"
import { messageOf } from "../../core/values/error-message.ts"
import type { Failed, Stage, StartRequest } from "./protocol.ts"

export const errnoOf = (error: unknown): number => {
  const code = error instanceof Error && "code" in error ? String(error.code) : "EIO"
  return (constants.errno as { [name: string]: number })[code] ?? constants.errno.EIO
}

export class StartFailure extends Error {
  readonly failed: Failed
  constructor(stage: Stage, error: unknown) {
    const text = messageOf(error)
    super(text)
    this.failed = { stage, errno: errnoOf(error), text }
  }
}

const atStage = async <T>(stage: Stage, step: () => T | Promise<T>): Promise<T> => {
  try {
    return await step()
  } catch (error) {
    throw new StartFailure(stage, error)
  }
}

export const errorWithCode = (code: string, text: string): Error => Object.assign(new Error(text), { code })

interface User {
  uid: number
  gid: number
  home: string
}

/** Finds a user in the system's databases. Supplementary groups are ignored. */
const findUser = async ({ runAs: name, notRoot }: StartRequest): Promise<User> => {
  // `getent` accepts numbers with a sign.
  if (!/^\w/.test(name)) throw errorWithCode("ENOENT", `no user ${name}`)
  const { stdout } = await promisify(execFile)("getent", ["passwd", "--", name]).catch(() => {
    throw errorWithCode("ENOENT", `no user ${name}`)
  })
  const fields = stdout.trim().split(":")
  const user = { uid: Number(fields[2]), gid: Number(fields[3]), home: fields[5] ?? "/" }
  if (notRoot && user.uid === 0) throw errorWithCode("EACCES", "not allowed")
  if (process.geteuid?.() !== 0 && process.geteuid?.() !== user.uid) throw errorWithCode("EPERM", "not root")
  return user
}

const createFile = (path: string, data: Uint8Array, user: User | null): void => {
  writeFileSync(path, data, { mode: 0o600 })
  if (user !== null) chownSync(path, user.uid, user.gid)
}

/** Opens the named pipes in a folder, whose other ends Ork has open already; without a folder, stdout and stderr are logged. */
const openOutputs = (folder: string): ("pipe" | number)[] =>
  folder === ""
    ? ["pipe", "pipe"]
    : ["out", "err", "up", "down"].map((name) => openSync(join(folder, name), name === "down" ? "r" : "w"))

export interface Prepared {
  user: User | null
  stdin: FileHandle
  outputs: ("pipe" | number)[]
}

export const prepare = async (start: StartRequest): Promise<Prepared> => {
  const user = start.runAs === "" ? null : await atStage("user", () => findUser(start))
  await atStage("cwd", async () => {
    if (!(await stat(start.cwd)).isDirectory()) throw errorWithCode("ENOTDIR", "not a folder")
  })
  await findProgram(start)
  const stdin = await atStage("files", () => {
    if (start.input !== null) createFile(start.stdinPath, Buffer.from(start.input), user)
    else if (user !== null && start.stdinPath !== "") chownSync(start.stdinPath, user.uid, user.gid)
    if (user !== null && start.outputPath !== "") createFile(start.outputPath, Buffer.alloc(0), user)
    return open(start.stdinPath === "" ? "/dev/null" : start.stdinPath, "r")
  })
  return { user, stdin, outputs: await atStage("files", () => openOutputs(start.pipes)) }
}

/** Waits until the program's file system responds: `spawn` blocks this process until the program is loaded. */
const findProgram = async ({ argv, cwd, env }: StartRequest): Promise<void> => {
  const [program = ""] = argv
  const path = env.find((entry) => entry.startsWith("PATH="))?.slice("PATH=".length) ?? ""
  for (const folder of program.includes("/") ? [cwd] : path.split(":")) {
    if (await stat(resolve(folder, program)).catch(() => null)) return
  }
}

export const closeFiles = ({ stdin, outputs }: Prepared): void => {
  stdin.close().catch(() => {})
  for (const fd of outputs) if (fd !== "pipe") closeSync(fd)
}
