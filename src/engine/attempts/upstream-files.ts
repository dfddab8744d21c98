// Files of upstream outputs that are too large to merge into an input: `<dataDir>/upstream/<run>/NAME.json`, inside a group one folder
// per item. Each is written once per run and host, and removed when the run closes.

import { mkdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Output } from "../../core/model/change.ts"
import { enclosingPath } from "../../core/model/task-path.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const MAX_CACHED = 1000

export const upstreamFolder = (dataDir: string, runId: string): string => join(dataDir, "upstream", runId)

export class UpstreamFiles {
  readonly #options: Pick<EngineOptions, "store" | "objects" | "dataDir" | "log">
  /** Folder of each file that was written, or is being written, by the file's path. */
  readonly #written = new Map<string, Promise<string>>()
  /** Runs that have files on this host. */
  readonly #runs = new Set<string>()
  /** Folders that are being removed: a retry of the run waits before it writes there again. */
  readonly #removing = new Map<string, Promise<void>>()

  constructor(options: Pick<EngineOptions, "store" | "objects" | "dataDir" | "log">) {
    this.#options = options
  }

  /** Writes NAME.json if it does not exist, and returns its folder. */
  async write(claim: TaskClaim, name: string, output: Output): Promise<string> {
    const { runId } = claim
    const folder = join(upstreamFolder(this.#options.dataDir, runId), this.#subfolder(claim))
    const file = join(folder, `${name}.json`)
    let writing = this.#written.get(file)
    if (writing === undefined) {
      this.#runs.add(runId)
      writing = this.#write(runId, folder, file, output)
      this.#written.set(file, writing)
      writing.catch(() => this.#written.delete(file))
      if (this.#written.size > MAX_CACHED) this.#written.delete(this.#written.keys().next().value!)
    }
    return await writing
  }

  /** Removes the files of a closed run. Files that a crash leaves behind are removed together with the run. */
  remove(runId: string): void {
    if (!this.#runs.delete(runId)) return
    const { dataDir, log } = this.#options
    const folder = upstreamFolder(dataDir, runId)
    for (const file of this.#written.keys()) if (file.startsWith(folder)) this.#written.delete(file)
    const removing = rm(folder, { recursive: true, force: true })
      .catch((error: unknown) => log.warn({ run: runId, error: String(error) }, "failed to remove the upstream files of a run"))
      .finally(() => this.#removing.delete(folder))
    this.#removing.set(folder, removing)
  }

  /** Outputs inside a group differ by item. */
  #subfolder({ versionId, node, path }: TaskClaim): string {
    const workflow = this.#options.store.compiledNow(versionId)
    const { group } = workflow.nodes[node]!
    return group === null ? "" : `${group}@${enclosingPath(workflow, node, path)}`
  }

  async #write(runId: string, folder: string, file: string, output: Output): Promise<string> {
    await this.#removing.get(upstreamFolder(this.#options.dataDir, runId))
    if (await stat(file).catch(() => null)) return folder
    await mkdir(folder, { recursive: true })
    const bytes = "inline" in output ? JSON.stringify(output.inline) : await this.#options.objects.get(output.key)
    if (bytes === null) throw new TaskFailure(`the output for ${file} is gone from the object store`)
    await writeFile(`${file}.part`, bytes)
    await rename(`${file}.part`, file)
    return folder
  }
}
