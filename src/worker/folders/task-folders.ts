// Prepares the files of a task on the worker's machine: the folders of its run (run-folders.ts), the files of its workflow version
// (bundle-cache.ts), and upstream outputs that are too large for the input.

import { mkdir, rename, stat } from "node:fs/promises"
import { isAbsolute, join, resolve } from "node:path"
import { BundleCache } from "./bundle-cache.ts"
import { RunFolders } from "./run-folders.ts"
import type { Registration } from "../connection/registration.ts"
import type { ServerClient } from "../connection/server-client.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { artifactsName } from "../../engine/attempts/upstream-artifacts.ts"
import type { Logger } from "../../engine/ports.ts"
import type { Assignment } from "../../executors/executor.ts"
import { writeArtifactFiles } from "../../objects/artifacts/artifact-files.ts"
import type { BundleFolders } from "../../objects/bundles/bundles.ts"
import { ATTEMPT_TOKEN_HEADER } from "../../protocol/api/workers.ts"

const SWEEP_MS = 600_000
const DOWNLOAD_MS = 600_000

export interface TaskFoldersOptions {
  dataDir: string
  client: ServerClient
  log: Logger
}

export class TaskFolders {
  readonly #options: TaskFoldersOptions
  readonly #bundles: BundleCache
  readonly #runs: RunFolders
  readonly #logCleanupError = (error: unknown): void =>
    this.#options.log.warn({ error: messageOf(error) }, "failed to remove files of a run")
  readonly #downloads = new Map<string, Promise<void>>()
  #sweptAt = 0

  constructor(options: TaskFoldersOptions) {
    this.#options = options
    this.#bundles = new BundleCache(options.dataDir)
    this.#runs = new RunFolders(options.dataDir, () => this.#bundles.invalidate())
  }

  start(): Promise<void> {
    return this.#runs.start()
  }

  /** Makes later downloads use the token of the new registration. */
  registrationChanged(): void {
    this.#bundles.invalidate()
  }

  /** Returns runs to ask the server about. Sweeps unused folders from time to time. */
  runsToCheck(now: number): string[] {
    if (now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now
      void Promise.all([this.#runs.sweep(now), this.#bundles.sweep(now)]).catch(this.#logCleanupError)
    }
    return this.#runs.runsToCheck(now)
  }

  /** Removes folders of runs that have ended, or that the server has removed. */
  runsEnded(ended: readonly string[], removed: readonly string[], now: number): void {
    for (const runId of removed) void this.remove(runId)
    for (const runId of ended) {
      if (!removed.includes(runId)) void this.#runs.runEnded(runId, now).catch(this.#logCleanupError)
    }
  }

  /** Removes all folders of a run, unless an attempt uses them. */
  async remove(runId: string): Promise<void> {
    await this.#runs.remove(runId).catch(this.#logCleanupError)
  }

  /** Creates the folders of a task and returns the assignment for its executor. The folders are protected until `release`. */
  async prepare(task: AssignedTask, registration: Registration, now: number): Promise<Assignment> {
    const { work, wire } = task
    const { runId } = work
    const runReady = this.#runs.use(runId)
    const bundles = this.#useBundle(task, registration, now)
    await runReady
    const baseDir = wire.base_dir ?? this.#runs.workFolder(runId)
    if (wire.base_dir === null) {
      if (wire.bundle === null) await mkdir(baseDir, { recursive: true })
      else await bundles!.copyTo(baseDir, wire.bundle)
    }
    const { working_dir: requested } = wire
    const workingDir = requested === null ? baseDir : isAbsolute(requested) ? requested : resolve(baseDir, requested)
    const upstreamDir = wire.upstream === null ? null : join(this.#runs.upstreamFolder(runId), wire.upstream.folder)
    for (const name of wire.upstream?.tasks ?? []) {
      await this.#ensureUpstream(task, registration, join(upstreamDir!, `${name}.json`), name)
    }
    const bundle = work.code?.bundle ?? null
    const code = bundle === null ? undefined : { folder: await bundles!.folder(bundle), bundle }
    const artifacts = work.upstreamArtifacts
    const artifactsDir = artifacts === undefined ? undefined : join(this.#runs.upstreamFolder(runId), artifactsName(artifacts))
    if (artifactsDir !== undefined)
      await this.#once(artifactsDir, () => this.#downloadArtifacts(task, registration, artifactsDir))
    return {
      ...work,
      baseDir,
      workingDir,
      upstreamDir,
      ...(artifactsDir !== undefined && { artifactsDir }),
      ...(code !== undefined && { code }),
    }
  }

  /** Ends the protection of the folders of a task; also called if `prepare` failed. */
  release(task: AssignedTask): void {
    this.#runs.release(task.work.runId)
    const hash = bundleOf(task)
    if (hash !== null) this.#bundles.release(hash)
  }

  /** Returns null if the task has no bundle. */
  #useBundle(task: AssignedTask, registration: Registration, now: number): BundleFolders | null {
    const hash = bundleOf(task)
    if (hash === null) return null
    const { client } = this.#options
    const { token: key, ended: signal } = registration
    return this.#bundles.use(hash, now, (bundle) =>
      client.withRetries("download a bundle", signal, () =>
        client.bytes({ method: "GET", path: `/bundles/${bundle}`, key, signal }),
      ),
    )
  }

  /** Downloads an upstream output, unless it is there. */
  async #ensureUpstream(task: AssignedTask, registration: Registration, file: string, name: string): Promise<void> {
    if ((await stat(file).catch(() => null)) !== null) return
    await this.#once(file, async () => {
      await mkdir(resolve(file, ".."), { recursive: true })
      // Another worker on this machine may be writing the same file.
      const draft = `${file}.${task.id}.part`
      await this.#download(task, registration, "upstream", { task: name }, draft)
      await rename(draft, file)
    })
  }

  async #downloadArtifacts(task: AssignedTask, registration: Registration, folder: string): Promise<void> {
    for (const { folder: name, prefix, files } of task.work.upstreamArtifacts ?? []) {
      await writeArtifactFiles(join(folder, name), files, task.id, ({ path }, draft) =>
        this.#download(task, registration, "artifacts", { prefix, file: path }, draft),
      )
    }
  }

  /** Shares a download among the tasks that need it at the same time. */
  async #once(path: string, start: () => Promise<void>): Promise<void> {
    let download = this.#downloads.get(path)
    if (download === undefined) {
      download = start().finally(() => this.#downloads.delete(path))
      this.#downloads.set(path, download)
    }
    await download
  }

  async #download(
    { wire }: AssignedTask,
    registration: Registration,
    route: "upstream" | "artifacts",
    selector: { [name: string]: string },
    path: string,
  ): Promise<void> {
    const query = new URLSearchParams({ row: String(wire.row), attempt_id: wire.attempt_id, ...selector })
    const request = {
      method: "GET",
      path: `/workers/${registration.id}/${route}?${query.toString()}`,
      key: registration.token,
      headers: { [ATTEMPT_TOKEN_HEADER]: wire.token },
      signal: registration.ended,
      timeoutMs: DOWNLOAD_MS,
    } as const
    const { client } = this.#options
    await client.withRetries("download a file", registration.ended, () => client.download(request, path))
  }
}

/** Returns the bundle of the task's code or of its run's folder; null if it has neither. */
const bundleOf = ({ work, wire }: AssignedTask): string | null => work.code?.bundle ?? wire.bundle
