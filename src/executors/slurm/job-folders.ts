// The shared folder: `NAME/INDEX/` for each task of a submission, and `attempts/ATTEMPT`, which says which of them an attempt has. All of it
// is closed to other users: variables with secrets lie there while a job waits.

import { mkdir, readFile, rename, rm, rmdir, stat, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Assignment } from "../executor.ts"
import type { JobPlace } from "./poller.ts"
import { FILES, runScript } from "./script.ts"

const PRIVATE = { mode: 0o600 }

export class JobFolders {
  readonly #root: string

  constructor(root: string) {
    this.#root = resolve(root)
  }

  of({ name }: Pick<JobPlace, "name">): string {
    return join(this.#root, name)
  }

  task(place: JobPlace): string {
    return join(this.of(place), String(place.index))
  }

  /** Where an attempt was put before; null: nowhere. */
  async find(attemptId: string): Promise<JobPlace | null> {
    const text = await readText(this.#pointer(attemptId))
    if (text === null) return null
    const [name = "", index = ""] = text.trim().split(" ")
    return name === "" ? null : { name, index: Number(index) }
  }

  /** Everything that its job needs, before the job exists. */
  async prepare(assignment: Assignment, place: JobPlace): Promise<void> {
    const folder = this.task(place)
    await mkdir(join(this.#root, "attempts"), { recursive: true, mode: 0o700 })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(join(folder, FILES.input), JSON.stringify(assignment.input), PRIVATE)
    await writeFile(join(folder, FILES.run), runScript(assignment, folder), PRIVATE)
    const { command } = assignment
    if (command !== null && "shell" in command) await writeFile(join(folder, FILES.command), command.shell, PRIVATE)
    const pointer = this.#pointer(assignment.attemptId)
    await writeFile(`${pointer}.part`, `${place.name} ${place.index}\n`, PRIVATE)
    await rename(`${pointer}.part`, pointer)
  }

  async hasBegun(place: JobPlace): Promise<boolean> {
    return (await stat(join(this.task(place), FILES.begun)).catch(() => null)) !== null
  }

  /** null: its command has not ended. */
  async exitCode(place: JobPlace): Promise<number | null> {
    const text = await readText(join(this.task(place), FILES.exit))
    return text === null || !/^\d+\s*$/.test(text) ? null : Number(text)
  }

  async remove(attemptId: string, place: JobPlace): Promise<void> {
    await rm(this.task(place), { recursive: true, force: true }).catch(() => {})
    // Only the last of an array finds it empty.
    await rmdir(this.of(place)).catch(() => {})
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
