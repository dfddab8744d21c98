// Files that tasks get from upstream tasks: artifacts, and outputs that are too large to be parsed or to be copied into every instance of
// a fan-out (`<dataDir>/upstream/<run>/<set>/NAME.json`, one folder per set). Each is written once per host, and removed when the run
// closes.

import { createHash } from "node:crypto"
import { mkdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { artifactBytes, artifactsName } from "./upstream-artifacts.ts"
import type { EngineOptions } from "../ports.ts"
import { outputBytes } from "./outputs.ts"
import type { ArtifactSource } from "../../core/model/artifacts.ts"
import type { Output } from "../../core/model/change.ts"
import { writeArtifactFiles } from "../../objects/artifacts/artifact-files.ts"
import type { TaskClaim } from "../../store/contract/store.ts"
import { BoundedMap } from "../../core/values/bounded-map.ts"

const MAX_CACHED = 1000

type Options = Pick<EngineOptions, "objects" | "dataDir" | "log">
type Outputs = ReadonlyMap<string, Output>

export const upstreamFolder = (dataDir: string, runId: string): string => join(dataDir, "upstream", runId)

/**
 * Returns the name of the folder of these outputs. The key of an output contains its attempt: outputs of another attempt, or of another
 * item of a group, have another folder.
 */
export const outputsName = (outputs: Outputs): string =>
  createHash("sha256")
    .update(JSON.stringify([...outputs]))
    .digest("hex")
    .slice(0, 32)

export class UpstreamFiles {
  readonly #options: Options
  /** Folders that were written, or are being written. */
  readonly #written = new BoundedMap<string, Promise<void>>(MAX_CACHED)
  /** Runs that have files on this host. */
  readonly #runs = new Set<string>()
  /** Folders that are being removed: a retry of the run waits before it writes there again. */
  readonly #removing = new Map<string, Promise<void>>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Writes NAME.json for each output, unless it exists, and returns their folder. */
  write(claim: TaskClaim, outputs: Outputs): Promise<string> {
    return this.#ensure(claim, outputsName(outputs), (folder) => this.#writeOutputs(claim, folder, outputs))
  }

  /** Writes the artifacts of upstream tasks, unless they exist, and returns their folder. */
  writeArtifacts(claim: TaskClaim, sources: readonly ArtifactSource[]): Promise<string> {
    const { objects } = this.#options
    return this.#ensure(claim, artifactsName(sources), async (folder) => {
      for (const source of sources) {
        await writeArtifactFiles(join(folder, source.folder), source.files, claim.attemptId, (file, draft) =>
          writeFile(draft, artifactBytes(objects, source, file.path)),
        )
      }
    })
  }

  /** Writes a folder once. */
  async #ensure(claim: TaskClaim, name: string, write: (folder: string) => Promise<void>): Promise<string> {
    const runFolder = upstreamFolder(this.#options.dataDir, claim.runId)
    const folder = join(runFolder, name)
    let writing = this.#written.get(folder)
    if (writing === undefined) {
      this.#runs.add(claim.runId)
      writing = (async () => {
        await this.#removing.get(runFolder)
        await mkdir(folder, { recursive: true })
        await write(folder)
      })()
      this.#written.set(folder, writing)
      writing.catch(() => this.#written.delete(folder))
    }
    await writing
    return folder
  }

  /**
   * Removes the files of a closed run. Files that a crash leaves behind are removed together with the run. Resolves when the files are
   * gone, or the failure was logged.
   */
  async remove(runId: string): Promise<void> {
    if (!this.#runs.delete(runId)) return
    const { dataDir, log } = this.#options
    const runFolder = upstreamFolder(dataDir, runId)
    for (const folder of this.#written.keys()) if (folder.startsWith(runFolder)) this.#written.delete(folder)
    const removing = rm(runFolder, { recursive: true, force: true })
      .catch((error: unknown) => log.warn({ run: runId, error: String(error) }, "failed to remove the upstream files of a run"))
      .finally(() => this.#removing.delete(runFolder))
    this.#removing.set(runFolder, removing)
    await removing
  }

  async #writeOutputs({ attemptId }: TaskClaim, folder: string, outputs: Outputs): Promise<void> {
    for (const [name, output] of outputs) {
      const file = join(folder, `${name}.json`)
      if (await stat(file).catch(() => null)) continue
      const text = "inline" in output ? JSON.stringify(output.inline) : outputBytes(this.#options.objects, output)
      // Another server on this machine may be writing the same file.
      const draft = `${file}.${attemptId}.part`
      await writeFile(draft, text)
      await rename(draft, file)
    }
  }
}
