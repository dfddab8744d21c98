// The files of tasks on the worker's machine: a folder for each run, shared by its tasks, and upstream outputs that are too large for
// an input. They go when the server says that their run is over, or after a week.

import { mkdir, readdir, rename, rm, stat } from "node:fs/promises"
import { isAbsolute, join, resolve } from "node:path"
import type { Link } from "./link.ts"
import type { LinkError } from "./link-error.ts"
import type { Session } from "./session.ts"
import type { Task } from "./task.ts"
import { isUuid } from "../core/ids.ts"
import type { Assignment } from "../executors/executor.ts"
import { BundleFolders } from "../objects/bundles.ts"
import { ATTEMPT_TOKEN_HEADER, MAX_RUNS_ASKED } from "../protocol/api/workers.ts"

const KEPT_MS = 7 * 86_400_000

export class RunFolders {
  readonly #dataDir: string
  readonly #link: Link
  readonly #trouble: (error: LinkError) => void
  readonly #runs = new Set<string>()
  #bundles: BundleFolders | null = null
  readonly #fetching = new Map<string, Promise<void>>()

  /** `trouble` is told when a server does not send a file; it is asked for again. */
  constructor(dataDir: string, link: Link, trouble: (error: LinkError) => void) {
    this.#dataDir = dataDir
    this.#link = link
    this.#trouble = trouble
  }

  /** Folders that an earlier process left are asked about too; very old ones go at once. */
  async start(now: number): Promise<void> {
    for (const kind of ["work", "upstream"]) {
      const parent = join(this.#dataDir, kind)
      for (const name of await readdir(parent).catch(() => [])) {
        if (!isUuid(name)) continue
        const made = await stat(join(parent, name)).catch(() => null)
        if (made !== null && now - made.mtimeMs > KEPT_MS) await this.remove(name)
        else this.#runs.add(name)
      }
    }
  }

  /** A new registration has another token. */
  begin(): void {
    this.#bundles = null
  }

  /** Runs to ask the server about, other ones each time. */
  some(): string[] {
    const asked = [...this.#runs].slice(0, MAX_RUNS_ASKED)
    for (const runId of asked) {
      this.#runs.delete(runId)
      this.#runs.add(runId)
    }
    return asked
  }

  async remove(runId: string): Promise<void> {
    this.#runs.delete(runId)
    // It remembers which folders it has made.
    this.#bundles = null
    for (const kind of ["work", "upstream"]) await rm(join(this.#dataDir, kind, runId), { recursive: true, force: true })
  }

  /** The assignment as executors take it, with its folders made. */
  async prepare(task: Task, session: Session): Promise<Assignment> {
    const { work, wire } = task
    const own = wire.base_dir ?? join(this.#dataDir, "work", work.runId)
    if (wire.base_dir === null) {
      this.#runs.add(work.runId)
      if (wire.bundle === null) await mkdir(own, { recursive: true })
      else await this.#bundlesOf(session).copyTo(own, wire.bundle)
    }
    const { working_dir: wanted } = wire
    const workingDir = wanted === null ? own : isAbsolute(wanted) ? wanted : resolve(own, wanted)
    const upstreamDir = wire.upstream.length === 0 ? null : join(this.#dataDir, "upstream", work.runId)
    for (const name of wire.upstream) await this.#upstream(task, session, join(upstreamDir!, `${name}.json`), name)
    const bundle = work.code?.bundle ?? null
    const code = bundle === null ? undefined : { folder: await this.#bundlesOf(session).folder(bundle), bundle }
    return { ...work, workingDir, upstreamDir, ...(code !== undefined && { code }) }
  }

  /** Fetched and unpacked once per machine. */
  #bundlesOf(session: Session): BundleFolders {
    this.#bundles ??= new BundleFolders({
      dataDir: this.#dataDir,
      read: async (hash) => {
        const request = { method: "GET", path: `/bundles/${hash}`, key: session.token, signal: session.over } as const
        return this.#link.forever(() => this.#link.bytes(request), session.over, this.#trouble)
      },
    })
    return this.#bundles
  }

  /** Fetched once per run, whoever asks first. */
  async #upstream(task: Task, session: Session, file: string, name: string): Promise<void> {
    if ((await stat(file).catch(() => null)) !== null) return
    let fetching = this.#fetching.get(file)
    if (fetching === undefined) {
      fetching = this.#fetch(task, session, file, name).finally(() => this.#fetching.delete(file))
      this.#fetching.set(file, fetching)
    }
    await fetching
  }

  async #fetch({ wire }: Task, session: Session, file: string, name: string): Promise<void> {
    await mkdir(resolve(file, ".."), { recursive: true })
    const query = new URLSearchParams({ row: String(wire.row), attempt_id: wire.attempt_id, task: name })
    const request = {
      method: "GET",
      path: `/workers/${session.id}/upstream?${query.toString()}`,
      key: session.token,
      headers: { [ATTEMPT_TOKEN_HEADER]: wire.token },
      signal: session.over,
    } as const
    await this.#link.forever(() => this.#link.file(request, `${file}.part`), session.over, this.#trouble)
    await rename(`${file}.part`, file)
  }
}
