// `ork serve --dir`: deploys every definition of a folder and follows its changes. A file that is broken is told of, and what was
// deployed from it stays in place; so does the workflow of a file that is removed.

import { type FSWatcher, watch } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import type { Logger } from "pino"
import type { Clock } from "../core/ports.ts"
import { problemText } from "../core/problems.ts"
import { deploy } from "../engine/deploy.ts"
import { parseDefinition } from "../protocol/parse.ts"
import type { Store } from "../store/store.ts"

const DEFINITION = /\.(ya?ml|json)$/
/** An editor writes a file in several steps. */
const SETTLE_MS = 100
const RETRY_MS = 1000

export interface FolderDeploysOptions {
  folder: string
  store: Pick<Store, "putWorkflow">
  clock: Clock
  log: Logger
  /** Something was deployed: schedules may have changed. */
  wake(): void
}

export class FolderDeploys {
  readonly #options: FolderDeploysOptions
  /** What was last seen of each file. */
  readonly #seen = new Map<string, string>()
  /** The file that each workflow came from. */
  readonly #sources = new Map<string, string>()
  #watcher: FSWatcher | null = null
  #cancel: (() => void) | null = null
  #looking: Promise<void> = Promise.resolve()

  constructor(options: FolderDeploysOptions) {
    this.#options = options
  }

  /** Resolves when the folder is deployed as it stands; rejects when it cannot be read. */
  async start(): Promise<void> {
    this.#watcher = watch(this.#options.folder, { persistent: false }, () => this.#lookSoon(SETTLE_MS))
    this.#watcher.on("error", (error) => this.#options.log.warn({ error: String(error) }, "the folder is no longer followed"))
    await this.#look()
  }

  async stop(): Promise<void> {
    this.#watcher?.close()
    this.#cancel?.()
    await this.#looking
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
    const files = (await readdir(folder)).filter((file) => DEFINITION.test(file) && !file.startsWith(".")).toSorted()
    for (const file of files) await this.#take(file)
    for (const [workflow, file] of this.#sources) {
      if (files.includes(file)) continue
      log.info({ file, workflow }, "a file is gone; its workflow stays deployed until it is deleted")
      this.#sources.delete(workflow)
      this.#seen.delete(file)
    }
  }

  async #take(file: string): Promise<void> {
    const { folder, log, wake } = this.#options
    const text = await readFile(join(folder, file), "utf8").catch(() => null)
    if (text === null || text === this.#seen.get(file)) return
    const parsed = parseDefinition(text, { file })
    if (!parsed.ok) {
      this.#seen.set(file, text)
      const problems = parsed.problems.map((problem) => problemText(problem, file))
      log.error({ file, problems }, "a definition is broken; what was deployed of it stays")
      return
    }
    const { name } = parsed.workflow
    const other = this.#sources.get(name)
    if (other !== undefined && other !== file) {
      log.warn({ file, other, workflow: name }, "two files define the same workflow; the later one counts")
    }
    const { version, outcome } = await deploy(this.#options, parsed)
    // Only now: had the store been away, the file would be taken again.
    this.#seen.set(file, text)
    this.#sources.set(name, file)
    if (outcome !== "same") log.info({ file, workflow: name, version }, "deployed")
    wake()
  }
}
