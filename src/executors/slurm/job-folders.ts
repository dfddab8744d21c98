// The shared folder: `NAME/INDEX/` for each task of a submission, and `attempts/ATTEMPT`, a file that points from an attempt to
// its task. Other users have no access, because the files contain secrets while a job waits.

import { mkdir, readFile, rename, rm, rmdir, stat, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Assignment } from "../executor.ts"
import type { JobLocation } from "./poller.ts"
import { FILES, runScript } from "./script.ts"

const PRIVATE = { mode: 0o600 }

export class JobFolders {
  readonly #root: string

  constructor(root: string) {
    this.#root = resolve(root)
  }

  submission(name: string): string {
    return join(this.#root, name)
  }

  task({ name, index }: JobLocation): string {
    return join(this.submission(name), String(index))
  }

  /** Finds where an earlier launch put the attempt; null when there was none. */
  async find(attemptId: string): Promise<JobLocation | null> {
    const text = await readText(this.#pointer(attemptId))
    if (text === null) return null
    const [name = "", index = ""] = text.trim().split(" ")
    return name === "" ? null : { name, index: Number(index) }
  }

  /** Writes everything that the job needs, before the job exists. */
  async prepare(assignment: Assignment, location: JobLocation): Promise<void> {
    const folder = this.task(location)
    await mkdir(join(this.#root, "attempts"), { recursive: true, mode: 0o700 })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(join(folder, FILES.input), JSON.stringify(assignment.input), PRIVATE)
    await writeFile(join(folder, FILES.run), runScript(assignment, folder), PRIVATE)
    const { command } = assignment
    if (command !== null && "shell" in command) await writeFile(join(folder, FILES.command), command.shell, PRIVATE)
    const pointer = this.#pointer(assignment.attemptId)
    await writeFile(`${pointer}.part`, `${location.name} ${location.index}\n`, PRIVATE)
    await rename(`${pointer}.part`, pointer)
  }

  async hasStarted(location: JobLocation): Promise<boolean> {
    return (await stat(join(this.task(location), FILES.started)).catch(() => null)) !== null
  }

  /** Returns true when the cluster has started the job at some time, whatever its queue lists. */
  async wasStarted(location: JobLocation): Promise<boolean> {
    return (await this.hasStarted(location)) || (await this.exitCode(location)) !== null
  }

  /** Returns the command's exit code; null while it has not ended. */
  async exitCode(location: JobLocation): Promise<number | null> {
    const text = await readText(join(this.task(location), FILES.exit))
    return text === null || !/^\d+\s*$/.test(text) ? null : Number(text)
  }

  async remove(attemptId: string, location: JobLocation): Promise<void> {
    await rm(this.task(location), { recursive: true, force: true }).catch(() => {})
    // Fails until the last task of the array is removed.
    await rmdir(this.submission(location.name)).catch(() => {})
    await rm(this.#pointer(attemptId), { force: true }).catch(() => {})
  }

  #pointer(attemptId: string): string {
    return join(this.#root, "attempts", attemptId)
  }
}

const readText = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
