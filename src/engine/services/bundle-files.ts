// Collects the files of a workflow into a bundle: those that tasks name in fields (named-files.ts), those that `include` matches, those in
// `script_dir`, and those that commands name and that exist. All must be inside the folder of the definition. Used by `ork deploy`,
// `ork validate` and a server that deploys a folder.

import { lstat, readFile, realpath, stat } from "node:fs/promises"
import { join, relative, sep } from "node:path"
import { type NamedFile, namedFiles } from "../../core/model/named-files.ts"
import { nodePath } from "../../core/model/node-path.ts"
import { type DefinitionProblem, type Path, type Problem, pathText } from "../../core/model/problems.ts"
import { type LocatedFile, locateProblems, type ParsedDefinition } from "../../definition/parse.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import { contentHash } from "../../core/compile/hash.ts"
import { type Bundle, createBundle, MAX_BUNDLE_BYTES } from "../../objects/bundles/bundles.ts"
import { globFiles, InvalidGlob } from "../../objects/matches/glob-files.ts"
import { InvalidArchive, isRelativePath, type TarFile } from "../../objects/bundles/tar.ts"

const MAX_FILES = 10_000

/** `warnings`: files that commands name and that the bundle does not contain. */
export type Collected =
  | { ok: true; bundle: Bundle | null; paths: string[]; warnings: Problem[] }
  | { ok: false; problems: Problem[] }

export type FilesSource = Pick<Extract<ParsedDefinition, { ok: true }>, "workflow" | "files" | "source">

export const needsFiles = ({ workflow: { nodes, include }, files }: Omit<FilesSource, "source">): boolean =>
  include.length > 0 || files.length > 0 || nodes.some(namesFiles)

const namesFiles = (node: Node): boolean =>
  namedFiles(node).length > 0 || node.scriptDir !== undefined || isBesideDefinition(node.interpreter)

/** Returns whether an interpreter is given by a path in the folder of the definition, instead of an absolute one or a program in PATH. */
const isBesideDefinition = (interpreter: string | undefined): boolean =>
  interpreter !== undefined && !interpreter.startsWith("/") && /^\.|\//.test(interpreter)

/** Returns the definition with its bundle, which is part of its hash. */
export const withBundle = <T extends { workflow: CompiledWorkflow; hash: string }>(parsed: T, hash: string): T => {
  const workflow = { ...parsed.workflow, bundle: hash }
  return { ...parsed, workflow, hash: contentHash(workflow) }
}

/**
 * Returns a problem for each file that a task names and the bundle does not contain. Python modules are not checked: they have two
 * places.
 */
export const missingFiles = ({ nodes }: CompiledWorkflow, paths: ReadonlySet<string>): Problem[] =>
  nodes.flatMap((node) =>
    namedFiles(node).flatMap((named) => {
      const { field, file } = named
      if (paths.has(normalized(file)) || isModule(node, named)) return []
      return [{ path: pathText([...nodePath(node), field]), message: `the file ${file} is not in the bundle` }]
    }),
  )

const normalized = (path: string): string => (path.startsWith("./") ? path.slice(2) : path)

export const collectBundle = async (folder: string, source: FilesSource): Promise<Collected> => {
  if (!needsFiles(source)) return { ok: true, bundle: null, paths: [], warnings: [] }
  const { nodes, include } = source.workflow
  const collector = new Collector(await realpath(folder), source.source)
  for (const node of nodes) {
    for (const named of namedFiles(node)) {
      await collector.addNamed(named.file, [...nodePath(node), named.field], isModule(node, named))
    }
  }
  const relative = new Map(nodes.flatMap((node) => (isBesideDefinition(node.interpreter) ? [[node.interpreter!, node]] : [])))
  for (const [interpreter, node] of relative) collector.warnInterpreter(interpreter, [...nodePath(node), "interpreter"])
  for (const [i, pattern] of include.entries()) await collector.addMatches(pattern, ["include", i])
  for (const scriptDir of new Set(nodes.map((node) => node.scriptDir))) await collector.addScripts(scriptDir ?? "/")
  // Files whose commands run them come first: they matter most when the bundle is full.
  for (const file of source.files.toSorted((a, b) => Number(b.isRun) - Number(a.isRun))) await collector.addMentioned(file)
  return collector.collected()
}

class Collector {
  readonly #folder: string
  readonly #source: string
  readonly #files = new Map<string, TarFile>()
  readonly #problems: DefinitionProblem[] = []
  /** Folders and patterns that commands name; a warning when the bundle has no file of theirs. */
  readonly #partial: { mention: LocatedFile; matches(file: string): boolean; include: string }[] = []
  readonly #warnings: Problem[] = []
  #bytes = 0

  constructor(folder: string, source: string) {
    this.#folder = folder
    this.#source = source
  }

  /** Adds a file that a task names. `module`: by the name of a Python module. */
  async addNamed(file: string, path: Path, module: boolean): Promise<void> {
    const candidates = module ? moduleFiles(file) : [file]
    for (const candidate of candidates) {
      const added = await this.#add(candidate)
      if (added === null) return
      if (added !== MISSING) return this.#problem(path, added)
    }
    const where = candidates.length > 1 ? ` (neither ${candidates.join(" nor ")})` : ""
    this.#problem(path, `there is no file ${file} beside the definition${where}`)
  }

  async addMatches(pattern: string, path: Path): Promise<void> {
    const found = await this.#match(pattern).catch((error: unknown) => {
      if (error instanceof InvalidGlob) return error.message
      throw error
    })
    if (typeof found === "string") return this.#problem(path, found)
    if (found.length === 0) return this.#problem(path, "matches no file beside the definition")
    if (found.length > MAX_FILES) return this.#problem(path, `matches more than ${MAX_FILES} files`)
    for (const file of found) {
      const added = await this.#add(file)
      if (added !== null) return this.#problem(path, added)
    }
  }

  /** Adds the files of a folder that is added to PATH, unless it is elsewhere. */
  async addScripts(folder: string): Promise<void> {
    if (!isRelativePath(normalized(folder))) return
    for (const file of await this.#match(`${normalized(folder)}/**`)) await this.#add(file)
  }

  /** Adds a file that a command names. A file that cannot be added is a warning, if the command needs it for sure or it exists. */
  async addMentioned(mention: LocatedFile): Promise<void> {
    const { file, isRun, isPath } = mention
    if (file.split("/")[0] === DATA_FOLDER) return
    if (/[*?[]/.test(file)) return this.#addPattern(mention)
    const added = await this.#add(file)
    if (added === null) return
    const found = added === MISSING ? null : await stat(join(this.#folder, file)).catch(() => null)
    if (found?.isDirectory() === true) {
      if (isPath) this.#partial.push({ mention, matches: (path) => path.startsWith(`${file}/`), include: `${file}/**` })
    } else if (added !== MISSING) this.#warn(mention, `${added}, so it will not be there on a server`)
    else if (isRun)
      this.#warn(mention, `there is no file ${file} beside the definition; on a server, the task will not find it`)
  }

  async #addPattern(mention: LocatedFile): Promise<void> {
    const { file, isRun } = mention
    // Commands may contain words that look like a pattern of files and are none.
    const found = isRelativePath(file.replaceAll("*", "x")) ? await this.#match(file).catch(() => []) : []
    if (isRun && found.length <= MAX_FILES) for (const match of found) await this.#add(match)
    if (found.length > 0) this.#partial.push({ mention, matches: (path) => found.includes(path), include: file })
  }

  warnInterpreter(interpreter: string, path: Path): void {
    const message = `the interpreter ${interpreter} will not be there on a server, unless a task creates it; use an absolute path, or a program in PATH`
    this.#warnings.push(...locateProblems(this.#source, [{ path, message }]))
  }

  collected(): Collected {
    for (const { mention, matches, include } of this.#partial) {
      if ([...this.#files.keys()].some(matches)) continue
      this.#warn(
        mention,
        `the files of ${mention.file} will not be there on a server; add include: [${JSON.stringify(include)}]`,
      )
    }
    if (this.#problems.length > 0) return { ok: false, problems: locateProblems(this.#source, this.#problems) }
    const paths = [...this.#files.keys()].toSorted()
    if (paths.length === 0) return { ok: true, bundle: null, paths, warnings: this.#warnings }
    try {
      return { ok: true, bundle: createBundle([...this.#files.values()]), paths, warnings: this.#warnings }
    } catch (error) {
      if (!(error instanceof InvalidArchive)) throw error
      return { ok: false, problems: locateProblems(this.#source, [{ path: ["include"], message: error.message }]) }
    }
  }

  /** Returns the files that match, at most one more than MAX_FILES. Throws InvalidGlob. */
  async #match(pattern: string): Promise<string[]> {
    const found: string[] = []
    for await (const match of globFiles(this.#folder, pattern, (name) => name === DATA_FOLDER)) {
      const entry = await lstat(join(this.#folder, match)).catch(() => null)
      if (entry === null || entry.isDirectory()) continue
      found.push(match)
      if (found.length > MAX_FILES) break
    }
    return found
  }

  /** Adds a file. Returns why it cannot be added, or null. */
  async #add(name: string): Promise<string | null> {
    const file = normalized(name)
    if (this.#files.has(file)) return null
    const real = await realpath(join(this.#folder, file)).catch(() => null)
    if (real === null) return MISSING
    if (!isRelativePath(file)) return `${name} lies outside the definition's own folder`
    if (relative(this.#folder, real).split(sep)[0] === "..") {
      return `${name} is a link that leads out of the definition's own folder`
    }
    const entry = await lstat(real)
    if (!entry.isFile()) return `${name} is not a regular file`
    if (this.#bytes + entry.size > MAX_BUNDLE_BYTES) {
      return `${name} makes the files of the workflow larger than 16 MiB together: keep data elsewhere`
    }
    this.#bytes += entry.size
    this.#files.set(file, { path: file, bytes: await readFile(real), executable: (entry.mode & 0o100) !== 0 })
    return null
  }

  #problem(path: Path, message: string): void {
    this.#problems.push({ path, message })
  }

  #warn({ path, line, column }: LocatedFile, message: string): void {
    this.#warnings.push({ path, message, ...(line !== undefined && { line }), ...(column !== undefined && { column }) })
  }
}

const MISSING = "missing"
const DATA_FOLDER = ".ork"

/** Returns whether a text is a module name (`jobs.load`) and no path (`jobs/load.py`). */
const isModule = ({ executor }: Node, { field, file }: NamedFile): boolean =>
  field === "file" && executor === "python" && !file.endsWith(".py") && !file.includes("/")

const moduleFiles = (name: string): string[] => {
  const path = name.replaceAll(".", "/")
  return [`${path}.py`, `${path}/__init__.py`]
}
