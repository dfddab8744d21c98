// The folders of attempts. Upstream files are real files, in a folder of each engine that outlives its processes, as on a server; virtual
// time stands still while they are written or removed.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Output } from "../../../src/core/model/change.ts"
import type { Json } from "../../../src/core/values/json.ts"
import { UpstreamFiles } from "../../../src/engine/attempts/upstream-files.ts"
import type { Folders } from "../../../src/engine/ports.ts"
import type { Claim, TaskClaim } from "../../../src/store/contract/store.ts"
import type { Simulation } from "../simulation.ts"
import { SILENT } from "./silent-log.ts"

export class ProcessFolders implements Folders {
  readonly #simulation: Simulation
  readonly #upstreamFiles: UpstreamFiles

  constructor(simulation: Simulation, dataDir: string) {
    this.#simulation = simulation
    this.#upstreamFiles = new UpstreamFiles({ objects: simulation.objects, dataDir, log: SILENT })
  }

  async workingDir(claim: Claim): Promise<{ baseDir: string; workingDir: string }> {
    const folder = (claim.kind === "job" ? null : claim.run.workingDir) ?? "work"
    return { baseDir: folder, workingDir: folder }
  }

  async code(): Promise<null> {
    return null
  }

  upstream(claim: TaskClaim, outputs: ReadonlyMap<string, Output>): Promise<string> {
    return this.#simulation.trackResult(() => this.#upstreamFiles.write(claim, outputs))
  }

  async artifacts(): Promise<string> {
    return "artifacts"
  }

  /** Removes the files of a closed run. */
  remove(runId: string): void {
    this.#simulation.track(() => this.#upstreamFiles.remove(runId))
  }
}

/** Reads an upstream file; undefined: there is none. */
export const readUpstreamFile = (folder: string | null, name: string): Json | undefined => {
  const file = join(folder ?? "", `${name}.json`)
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Json) : undefined
}
