// Provides the Python of each task on this machine. Used by the executors that start Python: `process` and `python`.

import { createHash } from "node:crypto"
import { mkdir, symlink } from "node:fs/promises"
import { join, resolve } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import type { Node } from "../../core/model/workflow.ts"
import { openLog } from "../../objects/logs/log-sink.ts"
import { maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { findInterpreter } from "./find-interpreter.ts"
import type { Python } from "./python.ts"
import { readRequirements } from "./requirements.ts"
import type { TaskCommands } from "./task-commands.ts"
import { BuildFailure, Virtualenvs } from "./virtualenvs.ts"

/** Returns whether a task selects its Python. All others find `python3` in PATH themselves. */
export const selectsPython = ({ interpreter, requirements }: Node): boolean =>
  interpreter !== undefined || requirements !== undefined

export class Pythons {
  readonly #objects: ObjectStore
  readonly #links: string
  readonly #virtualenvs: Virtualenvs

  constructor(dataDir: string, objects: ObjectStore) {
    this.#objects = objects
    this.#links = resolve(dataDir, "python/links")
    this.#virtualenvs = new Virtualenvs(resolve(dataDir, "python/virtualenvs"))
  }

  /** Returns the Python of a task that selects it. Rejects with what is missing; the log of a failed installation is that of the task. */
  async find(assignment: Assignment, commands: TaskCommands, signal: AbortSignal): Promise<Python> {
    const { node, baseDir, workflow, env } = assignment
    const path = env["PATH"] ?? commands.server["PATH"] ?? ""
    const { program, bin, virtualenv } = findInterpreter(node.interpreter ?? "python3", { folder: baseDir, path })
    if (node.requirements === undefined) return { program, bin: bin ?? (await this.#linkFolder(program)), virtualenv }
    const requirements = await readRequirements(node.requirements, baseDir)
    try {
      return await this.#virtualenvs.find({ program, requirements, workflow, env, commands, signal })
    } catch (error) {
      if (error instanceof BuildFailure) await this.#storeLog(assignment, error.log)
      throw new Error(maskText(messageOf(error), assignment.secrets), { cause: error })
    }
  }

  /** Returns a folder that contains the program alone, as `python` and `python3`: the program's own may have others of that name. */
  async #linkFolder(program: string): Promise<string> {
    const folder = join(this.#links, createHash("sha256").update(program).digest("hex").slice(0, 32))
    await mkdir(folder, { recursive: true })
    for (const name of ["python", "python3"]) await symlink(program, join(folder, name)).catch(ignoreExisting)
    return folder
  }

  async #storeLog({ prefix, secrets }: Assignment, text: string): Promise<void> {
    const log = openLog(this.#objects, prefix, { secrets })
    await log.write("stderr", text)
    await log.close()
  }
}

const ignoreExisting = (error: unknown): void => {
  if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error
}
