// The shared folder: `NAME/INDEX/` for each task of a submission, and `attempts/ATTEMPT`, a file that points from an attempt to
// its task, and names its run and task for sweeps. Other users have no access, because the files contain secrets while a job waits.

import { mkdir, readdir, readFile, rename, rm, rmdir, stat, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Assignment, LeftoverWork } from "../executor.ts"
import { inputText } from "../input.ts"
import type { JobLocation } from "./poller.ts"
import { FILES, runScript } from "./script.ts"

const PRIVATE = { mode: 0o600 }
/** Suffix of a file that is being written. */
const PART = ".part"

/** An attempt that was prepared, and perhaps submitted. */
export interface SubmittedWork extends LeftoverWork {
  location: JobLocation
}

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

  /** Lists the attempts with files here that do not belong to `except`. */
  async list(except: ReadonlySet<string>): Promise<SubmittedWork[]> {
    const ids = (await readdir(join(this.#root, "attempts")).catch(emptyIfMissing)).filter(
      (id) => !except.has(id) && !id.endsWith(PART),
    )
    const found = ids.toSorted().map(async (attemptId) => {
      const [name = "", index = "", runId = "", taskId = ""] = ((await readText(this.#pointer(attemptId))) ?? "")
        .trim()
        .split(" ")
      return { attemptId, runId, taskId, location: { name, index: Number(index) } }
    })
    return (await Promise.all(found)).filter(({ taskId }) => taskId !== "")
  }

  /** Writes everything that the job needs, before the job exists. */
  async prepare(assignment: Assignment, location: JobLocation): Promise<void> {
    const folder = this.task(location)
    await mkdir(join(this.#root, "attempts"), { recursive: true, mode: 0o700 })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(join(folder, FILES.input), inputText(assignment), PRIVATE)
    await writeFile(join(folder, FILES.run), runScript(assignment, folder), PRIVATE)
    const { attemptId, runId, taskId } = assignment
    const pointer = this.#pointer(attemptId)
    await writeFile(`${pointer}${PART}`, `${location.name} ${location.index} ${runId} ${taskId}\n`, PRIVATE)
    await rename(`${pointer}${PART}`, pointer)
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

const emptyIfMissing = (error: NodeJS.ErrnoException): string[] => {
  if (error.code === "ENOENT") return []
  throw error
}

const readText = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
