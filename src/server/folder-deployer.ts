// `ork serve --dir`: deploys every definition of a folder, with the files that it names, and follows the changes of all of them. A
// file that is broken is told of, and what was deployed from it stays in place; so does the workflow of a file that is removed.

import { type FSWatcher, watch } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Logger } from "pino"
import type { Clock } from "../core/model/ports.ts"
import { type Problem, problemText } from "../core/model/problems.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import { collectBundle, needsFiles, withBundle } from "../engine/services/bundle-files.ts"
import type { WorkflowService } from "../engine/services/workflows.ts"
import type { Bundle } from "../objects/bundles/bundles.ts"
import { parseDefinition, type ParsedDefinition } from "../definition/parse.ts"

/** An editor writes a file in several steps. */
const SETTLE_MS = 100
const RETRY_MS = 1000

export interface FolderDeployerOptions {
  folder: string
  workflows: Pick<WorkflowService, "deploy">
  clock: Clock
  log: Logger
  profiles: WorkerProfiles
}

/** Its definitions, by name. */
export const definitionsIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((file) => /\.(ya?ml|json)$/.test(file) && !file.startsWith(".")).toSorted()

/** What was last seen of a definition. */
interface Seen {
  text: string
  parsed: ParsedDefinition
  /** Of its files, or what was wrong with them; null: not deployed yet. */
  files: string | null
}

export class FolderDeployer {
  readonly #options: FolderDeployerOptions
  readonly #seen = new Map<string, Seen>()
  /** The file that each workflow came from. */
  readonly #sources = new Map<string, string>()
  /** By folder: that of the definitions, and those of the files that they name. */
  readonly #watchers = new Map<string, FSWatcher>()
  #cancel: (() => void) | null = null
  #looking: Promise<void> = Promise.resolve()

  constructor(options: FolderDeployerOptions) {
    this.#options = options
  }

  /** Resolves when the folder is deployed as it stands; rejects when it cannot be read. */
  async start(): Promise<void> {
    this.#watch(this.#options.folder)
    await this.#look()
  }

  async stop(): Promise<void> {
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
    this.#cancel?.()
    await this.#looking
  }

  #watch(folder: string): void {
    if (this.#watchers.has(folder)) return
    const watcher = watch(folder, { persistent: false }, () => this.#lookSoon(SETTLE_MS))
    this.#watchers.set(folder, watcher)
    watcher.on("error", (error) => {
      this.#options.log.warn({ folder, error: String(error) }, "the folder is no longer followed")
      this.#watchers.delete(folder)
    })
  }

  #lookSoon(ms: number): void {
    this.#cancel?.()
    this.#cancel = this.#options.clock.after(ms, () => {
      this.#looking = this.#looking.then(() =>
        this.#look().catch((error: unknown) => {
          this.#options.log.warn({ error: String(error) }, "could not deploy the folder; trying again")
          this.#lookSoon(RETRY_MS)
        }),
      )
    })
  }

  async #look(): Promise<void> {
    const { folder, log } = this.#options
    const files = await definitionsIn(folder)
    for (const file of files) await this.#take(file)
    for (const [workflow, file] of this.#sources) {
      if (files.includes(file)) continue
      log.info({ file, workflow }, "a file is gone; its workflow stays deployed until it is deleted")
      this.#sources.delete(workflow)
      this.#seen.delete(file)
    }
  }

  async #take(file: string): Promise<void> {
    const { folder, log } = this.#options
    const text = await readFile(join(folder, file), "utf8").catch(() => null)
    if (text === null) return
    let seen = this.#seen.get(file)
    if (seen?.text !== text) {
      seen = { text, parsed: parseDefinition(text, { file, profiles: this.#options.profiles }), files: null }
      this.#seen.set(file, seen)
      if (!seen.parsed.ok) tellBroken(log, file, seen.parsed.problems)
    }
    const { parsed } = seen
    if (!parsed.ok || (seen.files !== null && !needsFiles(parsed.workflow))) return
    const collected = await collectBundle(folder, parsed.workflow)
    const files = collected.ok ? (collected.bundle?.hash ?? "") : JSON.stringify(collected.problems)
    if (files === seen.files) return
    if (collected.ok) {
      for (const path of collected.paths) this.#watch(join(folder, dirname(path)))
      await this.#deploy(file, parsed, collected.bundle)
    } else {
      tellBroken(log, file, collected.problems)
    }
    // Only now: had the store been away, the file would be taken again.
    seen.files = files
  }

  async #deploy(file: string, parsed: Extract<ParsedDefinition, { ok: true }>, bundle: Bundle | null): Promise<void> {
    const { log, workflows } = this.#options
    const { name } = parsed.workflow
    const other = this.#sources.get(name)
    if (other !== undefined && other !== file) {
      log.warn({ file, other, workflow: name }, "two files define the same workflow; the later one counts")
    }
    const definition = bundle === null ? parsed : withBundle(parsed, bundle.hash)
    const { version, outcome } = await workflows.deploy(definition, { bundle })
    this.#sources.set(name, file)
    if (outcome !== "same") log.info({ file, workflow: name, version }, "deployed")
  }
}

const tellBroken = (log: Logger, file: string, problems: Problem[]): void =>
  log.error(
    { file, problems: problems.map((problem) => problemText(problem, file)) },
    "a definition is broken; what was deployed of it stays",
  )
