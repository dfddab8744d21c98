// Starts worker processes by the spawn helper: a folder with the four pipes, a minimal environment, the runtime's program.

import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, mkdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { messageOf } from "../../core/values/error-message.ts"
import { ownedPrefix, removeStaleFolders } from "../../objects/owned-folder.ts"
import { ATTEMPT_VARIABLE, type Environment } from "../environment.ts"
import { OWNER_VARIABLE, serverEnvironment } from "../process/environment.ts"
import type { Python } from "../interpreter/python.ts"
import type { HelperSupply } from "../process/helper-supply.ts"
import { pipePaths } from "./pipes.ts"
import type { Runtime } from "./runtime.ts"
import { PoolWorker, WorkerNotStarted, type WorkerSpec } from "./worker.ts"

const MEMORY = "/dev/shm"

export interface WorkerRequest extends Pick<WorkerSpec, "runAs" | "notRoot" | "memoryBytes" | "cpuMillis" | "maxOutputBytes"> {
  runtime: Runtime
  python: Python | null
  cwd: string
  supply: HelperSupply
}

export class WorkerStarter {
  readonly #owner: string
  readonly #folder: string
  readonly server: Environment = serverEnvironment(process.env)
  #last = 0

  constructor(owner: string) {
    this.#owner = owner
    this.#folder = join(existsSync(MEMORY) ? MEMORY : tmpdir(), ownedPrefix("io") + randomBytes(4).toString("hex"))
  }

  start(): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    removeStaleFolders(join(this.#folder, ".."))
  }

  stop(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async startWorker({ runtime, python, supply, ...request }: WorkerRequest): Promise<PoolWorker> {
    const helper = await supply.get()
    const name = `worker-${(this.#last += 1)}-${randomBytes(8).toString("hex")}`
    const folder = join(this.#folder, name)
    mkdirSync(folder, { mode: 0o700 })
    try {
      await createPipes(folder)
      // The worker has its own name in the variable by which processes are found; its children have that of the attempt.
      const env = { ...this.server, [OWNER_VARIABLE]: this.#owner, [ATTEMPT_VARIABLE]: name }
      return await PoolWorker.start(helper, {
        ...request,
        folder,
        taskUser: supply.taskUser,
        argv: runtime.argv(python),
        env: Object.entries(env).map(([key, value]) => `${key}=${value}`),
        homeOfUser: true,
      })
    } finally {
      // Both sides have the pipes open; without names, no task can open those of another.
      remove(folder)
    }
  }
}

/**
 * Creates the pipes by `mkfifo`, because Node.js cannot. Not through the helper: its processes share the tasks' pid namespace, and a task
 * could enter the root folder of one that is not confined.
 */
const createPipes = async (folder: string): Promise<void> => {
  try {
    await promisify(execFile)("mkfifo", ["-m", "600", ...pipePaths(folder)])
  } catch (error) {
    throw new WorkerNotStarted(`its pipes could not be created: ${messageOf(error)}`)
  }
}

const remove = (folder: string): void => rmSync(folder, { recursive: true, force: true })
