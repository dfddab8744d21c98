// The folders that an attempt uses on this machine: its working directory, its code, and upstream outputs.

import { mkdir, rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { EngineOptions, Folders } from "../ports.ts"
import { runOrJobIdOf } from "./claims.ts"
import type { UpstreamFiles } from "./upstream-files.ts"
import type { ArtifactSource } from "../../core/model/artifacts.ts"
import type { Output } from "../../core/model/change.ts"
import type { Assignment } from "../../executors/executor.ts"
import { BundleFolders, bundleKey } from "../../objects/bundles/bundles.ts"
import type { Claim, TaskClaim } from "../../store/contract/store.ts"

type LocalOptions = Pick<EngineOptions, "store" | "objects" | "dataDir">

export class LocalFolders implements Folders {
  readonly #options: LocalOptions
  readonly #upstreamFiles: UpstreamFiles
  readonly #bundles: BundleFolders

  constructor(options: LocalOptions, upstreamFiles: UpstreamFiles) {
    this.#options = options
    this.#upstreamFiles = upstreamFiles
    const { dataDir, objects } = options
    this.#bundles = new BundleFolders({ dataDir, read: (hash) => objects.get(bundleKey(hash)) })
  }

  workingDir(claim: Claim, wanted: string | null): ReturnType<Folders["workingDir"]> {
    const foldersIn = (baseDir: string) => ({ baseDir, workingDir: wanted === null ? baseDir : resolve(baseDir, wanted) })
    const given = claim.kind === "job" ? null : claim.run.workingDir
    return given === null ? this.#ownFolder(claim).then(foldersIn) : foldersIn(given)
  }

  async code(claim: TaskClaim, bundle: string | null): Promise<NonNullable<Assignment["code"]> | null> {
    if (bundle !== null) return { folder: await this.#bundles.folder(bundle), bundle }
    return claim.run.workingDir === null ? null : { folder: claim.run.workingDir, bundle: null }
  }

  upstream(claim: TaskClaim, outputs: ReadonlyMap<string, Output>): Promise<string> {
    return this.#upstreamFiles.write(claim, outputs)
  }

  artifacts(claim: TaskClaim, sources: readonly ArtifactSource[]): Promise<string> {
    return this.#upstreamFiles.writeArtifacts(claim, sources)
  }

  /** Creates the folder of the run or job, with the files of the workflow's version. */
  async #ownFolder(claim: Claim): Promise<string> {
    const folder = runFolder(this.#options.dataDir, runOrJobIdOf(claim))
    const bundle = claim.kind === "job" ? undefined : this.#options.store.getLoadedVersion(claim.versionId).bundle
    await (bundle === undefined ? mkdir(folder, { recursive: true }) : this.#bundles.copyTo(folder, bundle))
    return folder
  }
}

export const runFolder = (dataDir: string, id: string): string => join(dataDir, "work", id)

export const removeJobFolder = async ({ dataDir, log }: Pick<EngineOptions, "dataDir" | "log">, id: string): Promise<void> => {
  await rm(runFolder(dataDir, id), { recursive: true, force: true }).catch((error: unknown) =>
    log.warn({ job: id, error: String(error) }, "failed to remove the folder of a job"),
  )
}
