// The files of tasks on the worker's machine, made before an attempt begins: the folder of its run (run-folders.ts), the files of its version
// (bundle-shelf.ts), and upstream outputs that are too large for an input.

import { mkdir, rename, stat } from "node:fs/promises"
import { isAbsolute, join, resolve } from "node:path"
import { BundleCache } from "./bundle-cache.ts"
import type { ServerClient } from "../connection/server-client.ts"
import type { ServerError } from "../connection/server-error.ts"
import { RunFolders } from "./run-folders.ts"
import type { Registration } from "../connection/session.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { Assignment } from "../../executors/executor.ts"
import type { BundleFolders } from "../../objects/bundles.ts"
import { ATTEMPT_TOKEN_HEADER } from "../../protocol/api/workers.ts"

const SWEEP_MS = 600_000

export interface TaskFoldersOptions {
  dataDir: string
  link: ServerClient
  /** A server does not send a file; it is asked for again. */
  trouble(error: ServerError): void
  /** A folder could not be removed. */
  untidy(error: unknown): void
}

export class TaskFolders {
  readonly #options: TaskFoldersOptions
  readonly #bundles: BundleCache
  readonly #runs: RunFolders
  readonly #fetching = new Map<string, Promise<void>>()
  #sweptAt = 0

  constructor(options: TaskFoldersOptions) {
    this.#options = options
    this.#bundles = new BundleCache(options.dataDir)
    this.#runs = new RunFolders(options.dataDir, () => this.#bundles.forget())
  }

  start(): Promise<void> {
    return this.#runs.start()
  }

  /** A new registration has another token. */
  reset(): void {
    this.#bundles.forget()
  }

  /** Runs to ask the server about. Looks from time to time for what is kept for nobody. */
  runsToCheck(now: number): string[] {
    if (now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now
      void Promise.all([this.#runs.sweep(now), this.#bundles.sweep(now)]).catch(this.#options.untidy)
    }
    return this.#runs.runsToCheck(now)
  }

  /** The server says that these have ended, or are there no more. */
  removeFinished(ended: readonly string[], gone: readonly string[], now: number): void {
    for (const runId of gone) void this.remove(runId)
    for (const runId of ended) if (!gone.includes(runId)) void this.#runs.ended(runId, now).catch(this.#options.untidy)
  }

  /** Nothing of it is needed any more, unless an attempt is at work in it. */
  async remove(runId: string): Promise<void> {
    await this.#runs.remove(runId).catch(this.#options.untidy)
  }

  /** The assignment as executors take it, with its folders made. They stay until it is released. */
  async prepare(task: AssignedTask, session: Registration, now: number): Promise<Assignment> {
    const { work, wire } = task
    const { runId } = work
    const ready = this.#runs.use(runId)
    const bundles = this.#bundlesOf(task, session, now)
    await ready
    const own = wire.base_dir ?? this.#runs.folder(runId)
    if (wire.base_dir === null) {
      if (wire.bundle === null) await mkdir(own, { recursive: true })
      else await bundles!.copyTo(own, wire.bundle)
    }
    const { working_dir: wanted } = wire
    const workingDir = wanted === null ? own : isAbsolute(wanted) ? wanted : resolve(own, wanted)
    const upstreamDir = wire.upstream.length === 0 ? null : this.#runs.upstream(runId)
    for (const name of wire.upstream) await this.#upstream(task, session, join(upstreamDir!, `${name}.json`), name)
    const bundle = work.code?.bundle ?? null
    const code = bundle === null ? undefined : { folder: await bundles!.folder(bundle), bundle }
    return { ...work, workingDir, upstreamDir, ...(code !== undefined && { code }) }
  }

  /** The end of an attempt that was prepared, or was to be. */
  release(task: AssignedTask): void {
    this.#runs.release(task.work.runId)
    const hash = bundleOf(task)
    if (hash !== null) this.#bundles.release(hash)
  }

  #bundlesOf(task: AssignedTask, session: Registration, now: number): BundleFolders | null {
    const hash = bundleOf(task)
    if (hash === null) return null
    const { link, trouble } = this.#options
    return this.#bundles.use(hash, now, (wanted) => {
      const request = { method: "GET", path: `/bundles/${wanted}`, key: session.token, signal: session.ended } as const
      return link.withRetries(() => link.bytes(request), session.ended, trouble)
    })
  }

  /** Fetched once per run, whoever asks first. */
  async #upstream(task: AssignedTask, session: Registration, file: string, name: string): Promise<void> {
    if ((await stat(file).catch(() => null)) !== null) return
    let fetching = this.#fetching.get(file)
    if (fetching === undefined) {
      fetching = this.#fetch(task, session, file, name).finally(() => this.#fetching.delete(file))
      this.#fetching.set(file, fetching)
    }
    await fetching
  }

  async #fetch({ wire }: AssignedTask, session: Registration, file: string, name: string): Promise<void> {
    await mkdir(resolve(file, ".."), { recursive: true })
    const query = new URLSearchParams({ row: String(wire.row), attempt_id: wire.attempt_id, task: name })
    const request = {
      method: "GET",
      path: `/workers/${session.id}/upstream?${query.toString()}`,
      key: session.token,
      headers: { [ATTEMPT_TOKEN_HEADER]: wire.token },
      signal: session.ended,
    } as const
    const { link, trouble } = this.#options
    await link.withRetries(() => link.download(request, `${file}.part`), session.ended, trouble)
    await rename(`${file}.part`, file)
  }
}

/** The files of its version: of its code, of its run's folder, or of both. */
const bundleOf = ({ work, wire }: AssignedTask): string | null => work.code?.bundle ?? wire.bundle
