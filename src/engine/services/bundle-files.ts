// Collects the files of a workflow into a bundle: those that its tasks name and those that `include` matches. All must be inside the
// folder of the definition. Used by `ork deploy` and by a server that deploys a folder.

import { glob, lstat, readFile, realpath } from "node:fs/promises"
import { join, relative, sep } from "node:path"
import type { Problem } from "../../core/model/problems.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { contentHash } from "../../core/compile/hash.ts"
import { type Bundle, createBundle, MAX_BUNDLE_BYTES } from "../../objects/bundles/bundles.ts"
import { InvalidArchive, isRelativePath, type TarFile } from "../../objects/bundles/tar.ts"

const MAX_FILES = 10_000

export type Collected = { ok: true; bundle: Bundle | null; paths: string[] } | { ok: false; problems: Problem[] }

export const needsFiles = ({ nodes, include }: CompiledWorkflow): boolean =>
  include.length > 0 || nodes.some((node) => node.file !== undefined)

/** Returns the definition with its bundle, which is part of its hash. */
export const withBundle = <T extends { workflow: CompiledWorkflow; hash: string }>(parsed: T, hash: string): T => {
  const workflow = { ...parsed.workflow, bundle: hash }
  return { ...parsed, workflow, hash: contentHash(workflow) }
}

/** Returns a problem for each file that a task names and the bundle does not contain. Python modules are not checked: they have two places. */
export const missingFiles = ({ nodes }: CompiledWorkflow, paths: ReadonlySet<string>): Problem[] =>
  nodes.flatMap(({ name, file, executor }) =>
    file === undefined || paths.has(normalized(file)) || (executor === "python" && isModule(file))
      ? []
      : [{ path: `tasks.${name}.file`, message: `the file ${file} is not in the bundle` }],
  )

const normalized = (path: string): string => (path.startsWith("./") ? path.slice(2) : path)

export const collectBundle = async (folder: string, workflow: CompiledWorkflow): Promise<Collected> => {
  if (!needsFiles(workflow)) return { ok: true, bundle: null, paths: [] }
  const collector = new Collector(await realpath(folder))
  for (const node of workflow.nodes) {
    if (node.file !== undefined) await collector.addNamed(node.file, `tasks.${node.name}.file`, node.executor === "python")
  }
  for (const [i, pattern] of workflow.include.entries()) await collector.addMatches(pattern, `include[${i}]`)
  return collector.collected()
}

class Collector {
  readonly #folder: string
  readonly #files = new Map<string, TarFile>()
  readonly #problems: Problem[] = []
  #bytes = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  async addNamed(file: string, path: string, python: boolean): Promise<void> {
    const candidates = python && isModule(file) ? moduleFiles(file) : [file]
    for (const candidate of candidates) if (await this.#add(candidate, path)) return
    const where = candidates.length > 1 ? ` (neither ${candidates.join(" nor ")})` : ""
    if (!this.#hasProblem(path)) this.#problem(path, `there is no file ${file} beside the definition${where}`)
  }

  async addMatches(pattern: string, path: string): Promise<unknown> {
    let found = 0
    for await (const match of glob(pattern, { cwd: this.#folder })) {
      const name = match.split(sep).join("/")
      const stat = await lstat(join(this.#folder, match)).catch(() => null)
      if (stat === null || stat.isDirectory()) continue
      found += 1
      if (this.#files.size >= MAX_FILES) return this.#problem(path, `matches more than ${MAX_FILES} files`)
      if (!(await this.#add(name, path))) return false
    }
    return found > 0 || this.#problem(path, "matches no file beside the definition")
  }

  collected(): Collected {
    if (this.#problems.length > 0) return { ok: false, problems: this.#problems }
    try {
      return { ok: true, bundle: createBundle([...this.#files.values()]), paths: [...this.#files.keys()] }
    } catch (error) {
      if (!(error instanceof InvalidArchive)) throw error
      return { ok: false, problems: [{ path: "include", message: error.message }] }
    }
  }

  /** Adds a file. Returns false when it does not exist, or when it is not allowed, which adds a problem. */
  async #add(name: string, path: string): Promise<boolean> {
    const file = normalized(name)
    if (this.#files.has(file)) return true
    if (!isRelativePath(file)) return this.#problem(path, `${name} lies outside the definition's own folder`)
    const real = await realpath(join(this.#folder, file)).catch(() => null)
    if (real === null) return false
    if (relative(this.#folder, real).split(sep)[0] === "..") {
      return this.#problem(path, `${name} is a link that leads out of the definition's own folder`)
    }
    const stat = await lstat(real)
    if (!stat.isFile()) return this.#problem(path, `${name} is not a regular file`)
    this.#bytes += stat.size
    if (this.#bytes > MAX_BUNDLE_BYTES) {
      return this.#problem(path, "the files of the workflow are larger than 16 MiB together: keep data elsewhere")
    }
    const bytes = await readFile(real)
    this.#files.set(file, { path: file, bytes, executable: (stat.mode & 0o100) !== 0 })
    return true
  }

  #hasProblem(path: string): boolean {
    return this.#problems.some((problem) => problem.path === path)
  }

  #problem(path: string, message: string): false {
    this.#problems.push({ path, message })
    return false
  }
}

/** Tells a module name (`jobs.load`) from a path (`jobs/load.py`). */
const isModule = (file: string): boolean => !file.endsWith(".py") && !file.includes("/")

const moduleFiles = (name: string): string[] => {
  const path = name.replaceAll(".", "/")
  return [`${path}.py`, `${path}/__init__.py`]
}
