// The folders of attempts, in memory: a simulation does no work outside its virtual time. All engines share them, as on one machine.

import type { Output } from "../../../src/core/model/change.ts"
import type { Json } from "../../../src/core/values/json.ts"
import type { Folders } from "../../../src/engine/ports.ts"
import { outputsName, upstreamFolder } from "../../../src/engine/attempts/upstream-files.ts"
import type { Claim, TaskClaim } from "../../../src/store/contract/store.ts"
import type { MemoryObjects } from "./memory-objects.ts"

export class MemoryFolders implements Folders {
  readonly #objects: MemoryObjects
  readonly #files = new Map<string, string>()

  constructor(objects: MemoryObjects) {
    this.#objects = objects
  }

  async workingDir(claim: Claim): Promise<{ baseDir: string; workingDir: string }> {
    const folder = (claim.kind === "job" ? null : claim.run.workingDir) ?? "work"
    return { baseDir: folder, workingDir: folder }
  }

  async code(): Promise<null> {
    return null
  }

  async upstream({ runId }: TaskClaim, outputs: ReadonlyMap<string, Output>): Promise<string> {
    const folder = `${upstreamFolder("data", runId)}/${outputsName(outputs)}`
    for (const [name, output] of outputs) {
      const file = `${folder}/${name}.json`
      if (this.#files.has(file)) continue
      this.#files.set(file, "inline" in output ? JSON.stringify(output.inline) : this.#objects.text(output.key))
    }
    return folder
  }

  async artifacts(): Promise<string> {
    return "artifacts"
  }

  /** Reads an upstream file; undefined: there is none. */
  read(folder: string | null, name: string): Json | undefined {
    const text = this.#files.get(`${folder}/${name}.json`)
    return text === undefined ? undefined : (JSON.parse(text) as Json)
  }
}
