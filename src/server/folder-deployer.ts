// `ork serve --dir`: deploys every definition of a folder with the files that it names, and watches all of them for changes. An invalid
// file is logged, and its deployed version stays; so does the workflow of a removed file.

import { type FSWatcher, watch } from "node:fs"
import { readdir, readFile, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Logger } from "pino"
import type { Clock } from "../core/model/ports.ts"
import { type Problem, problemText } from "../core/model/problems.ts"
import { contentHash } from "../core/compile/hash.ts"
import { policyProblems } from "../core/rules/access/policy.ts"
import type { Policy } from "../core/settings/policy.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import { type Collected, collectBundle, needsFiles, withBundle } from "../engine/services/bundle-files.ts"
import type { WorkflowService } from "../engine/services/workflows.ts"
import type { ParsedDefinition } from "../definition/parse.ts"

/** Editors write a file in several steps. */
const DEBOUNCE_MS = 100
const RETRY_MS = 1000
/** A watcher follows a folder that is renamed, and not its path: git-sync, for example, replaces a symbolic link. */
const CHECK_PATHS_MS = 2000

export interface FolderDeployerOptions {
  folder: string
  workflows: Pick<WorkflowService, "deploy" | "parse">
  clock: Clock
  log: Logger
  profiles: WorkerProfiles
  policy: Policy
}

/** Files of a folder that have the name of a definition and are none. */
const OTHER_FILES = new Set(["ork.yaml", "package.json", "package-lock.json", "tsconfig.json"])

export const definitionsIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder))
    .filter((file) => /(?<!\.ork-test)\.(ya?ml|json)$/.test(file) && !file.startsWith(".") && !OTHER_FILES.has(file))
    .toSorted()

interface Definition {
  text: string
  parsed: ParsedDefinition
  /** Hash of the deployed bundle and its warnings, or the problems of its files, as JSON; null: not handled yet. */
  deployed: string | null
}

export class FolderDeployer {
  readonly #options: FolderDeployerOptions
  readonly #definitions = new Map<string, Definition>()
  /** File of each deployed workflow. */
  readonly #sources = new Map<string, string>()
  /** Watchers by folder: of the definitions, and of the files that they name. */
  readonly #watchers = new Map<string, { watcher: FSWatcher; identity: string }>()
  #cancelDeploy: (() => void) | null = null
  #cancelCheck: (() => void) | null = null
  #deploying: Promise<void> = Promise.resolve()
  #checking: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(options: FolderDeployerOptions) {
    this.#options = options
  }

  /** Resolves when the folder is deployed. Rejects when it cannot be read. */
  async start(): Promise<void> {
    await this.#watch(this.#options.folder)
    await this.#deployAll()
    this.#checkPathsLater()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelDeploy?.()
    this.#cancelCheck?.()
    await this.#checking
    await this.#deploying
    for (const { watcher } of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
  }

  async #watch(folder: string): Promise<void> {
    if (this.#watchers.has(folder)) return
    const identity = await identityOf(folder)
    const watcher = watch(folder, { persistent: false }, () => this.#deployLater(DEBOUNCE_MS))
    this.#watchers.set(folder, { watcher, identity })
    watcher.on("error", (error) => {
      this.#options.log.warn({ folder, error: String(error) }, "the folder is no longer watched")
      this.#watchers.delete(folder)
    })
  }

  #checkPathsLater(): void {
    if (this.#isStopped) return
    this.#cancelCheck = this.#options.clock.after(CHECK_PATHS_MS, () => {
      this.#checking = this.#checkPaths().finally(() => this.#checkPathsLater())
    })
  }

  /** Watches folders again whose paths lead elsewhere now, and deploys what is there. */
  async #checkPaths(): Promise<void> {
    for (const [folder, { watcher, identity }] of this.#watchers) {
      const current = await identityOf(folder).catch(() => null)
      if (current === null || current === identity) continue
      watcher.close()
      this.#watchers.delete(folder)
      await this.#watch(folder).catch(() => {})
      this.#deployLater(DEBOUNCE_MS)
    }
  }

  #deployLater(ms: number): void {
    if (this.#isStopped) return
    this.#cancelDeploy?.()
    this.#cancelDeploy = this.#options.clock.after(ms, () => {
      this.#deploying = this.#deploying.then(() =>
        this.#deployAll().catch((error: unknown) => {
          this.#options.log.warn({ error: String(error) }, "failed to deploy the folder; trying again")
          this.#deployLater(RETRY_MS)
        }),
      )
    })
  }

  async #deployAll(): Promise<void> {
    const { folder, log } = this.#options
    const files = await definitionsIn(folder)
    for (const file of files) await this.#deployFile(file)
    for (const [workflow, file] of this.#sources) {
      if (files.includes(file)) continue
      log.info({ file, workflow }, "a file was removed; its workflow stays deployed until it is deleted")
      this.#sources.delete(workflow)
      this.#definitions.delete(file)
    }
  }

  /** Deploys a definition if its text or one of its files has changed. */
  async #deployFile(file: string): Promise<void> {
    const { folder, log } = this.#options
    const text = await readFile(join(folder, file), "utf8").catch(() => null)
    if (text === null) return
    let definition = this.#definitions.get(file)
    if (definition?.text !== text) {
      definition = { text, parsed: await this.#parse(text, file), deployed: null }
      this.#definitions.set(file, definition)
      if (!definition.parsed.ok) logProblems(log, file, definition.parsed.problems)
    }
    const { parsed } = definition
    if (!parsed.ok || (definition.deployed !== null && !needsFiles(parsed))) return
    const collected = await collectBundle(folder, parsed)
    const current = JSON.stringify(collected.ok ? [collected.bundle?.hash ?? "", collected.warnings] : collected.problems)
    if (current === definition.deployed) return
    if (collected.ok) {
      for (const path of collected.paths) await this.#watch(join(folder, dirname(path)))
      await this.#deploy(file, parsed, collected)
      logWarnings(log, file, collected.warnings)
    } else {
      logProblems(log, file, collected.problems)
    }
    // Set after the deploy, so that a failed deploy is repeated.
    definition.deployed = current
  }

  /** Parses a definition and checks it against the policy, whose rules may be for the folder. */
  async #parse(text: string, file: string): Promise<ParsedDefinition> {
    const { folder, profiles, policy, workflows } = this.#options
    const parsed = await workflows.parse(text, { file, profiles })
    if (!parsed.ok) return parsed
    const byFolder = policy.rules.some((rule) => rule.folders !== undefined)
    const workflow = byFolder ? { ...parsed.workflow, folder } : parsed.workflow
    const problems = policyProblems(policy, workflow)
    if (problems.length > 0) return { ok: false, problems }
    return byFolder ? { ...parsed, workflow, hash: contentHash(workflow) } : parsed
  }

  async #deploy(
    file: string,
    parsed: Extract<ParsedDefinition, { ok: true }>,
    { bundle, paths }: Extract<Collected, { ok: true }>,
  ): Promise<void> {
    const { log, workflows } = this.#options
    const { name } = parsed.workflow
    const other = this.#sources.get(name)
    if (other !== undefined && other !== file) {
      log.warn({ file, other, workflow: name }, "two files define the same workflow; the later one is deployed")
    }
    const definition = bundle === null ? parsed : withBundle(parsed, bundle.hash)
    const { version, outcome } = await workflows.deploy(definition, { bundle })
    this.#sources.set(name, file)
    if (outcome !== "same") log.info({ file, workflow: name, version, files: paths }, "deployed")
  }
}

const identityOf = async (folder: string): Promise<string> => {
  const { dev, ino } = await stat(folder)
  return `${dev}:${ino}`
}

const logWarnings = (log: Logger, file: string, warnings: Problem[]): void => {
  if (warnings.length === 0) return
  log.warn(
    { file, warnings: warnings.map((warning) => problemText(warning, file)) },
    "commands name files that are not part of the deployed workflow",
  )
}

const logProblems = (log: Logger, file: string, problems: Problem[]): void =>
  log.error(
    { file, problems: problems.map((problem) => problemText(problem, file)) },
    "a definition is invalid; its deployed version stays",
  )
