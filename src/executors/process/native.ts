// Finds the compiled spawn helper and the library that conceals secrets (beside the source, as in an image without a compiler, or in
// the user's cache folder), or compiles them into the cache folder on first use, under a name with the hash of the source.
// Concurrent processes end up with the same file, by rename. `node dist/executors/process/native.js FOLDER` compiles both into
// FOLDER, for packages.

import { execFile } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { messageOf } from "../../core/values/error-message.ts"

const run = promisify(execFile)

const SOURCE_FOLDER = fileURLToPath(new URL("../../../native/", import.meta.url))
const COMPILERS = ["cc", "gcc", "clang"] as const

interface Program {
  name: string
  /** Folder of its source. */
  folder: string
  flags: readonly string[]
}

const HELPER: Program = { name: "ork-spawn", folder: SOURCE_FOLDER, flags: [] }
const CONCEAL: Program = { name: "ork-conceal", folder: join(SOURCE_FOLDER, "conceal"), flags: ["-shared", "-fPIC"] }

/** `temporary`: a private folder that the caller must remove; null when the program is cached. */
export type NativeHelper = { path: string; temporary: string | null } | { unavailable: string }

export const nativeHelper = (cacheFolder = defaultCacheFolder()): Promise<NativeHelper> => findProgram(HELPER, cacheFolder)

/** Returns the library that conceals the secrets of a process that loads it (native/conceal). */
export const concealLibrary = (cacheFolder = defaultCacheFolder()): Promise<NativeHelper> => findProgram(CONCEAL, cacheFolder)

const findProgram = async (program: Program, cacheFolder: string): Promise<NativeHelper> => {
  if (process.platform !== "linux") return { unavailable: `it requires Linux, this is ${process.platform}` }
  const { name, files } = readSources(program)
  const cached = join(cacheFolder, name)
  const found = [join(SOURCE_FOLDER, name), cached].find(isTrusted)
  if (found !== undefined) return { path: found, temporary: null }
  let temporary: string | null = null
  let path = cached
  if (!isWritable(cacheFolder)) {
    temporary = mkdtempSync(join(tmpdir(), "ork-spawn-"))
    path = join(temporary, name)
  }
  const problem = await compile(program, files, path)
  if (problem === null) return { path, temporary }
  if (temporary !== null) rmSync(temporary, { recursive: true, force: true })
  return { unavailable: problem }
}

/** Returns the files to compile, and the name of the program: it contains the hash of the source. */
const readSources = ({ name: prefix, folder }: Program): { name: string; files: string[] } => {
  const sources = readdirSync(folder).filter((name) => name.endsWith(".c") || name.endsWith(".h"))
  const hash = createHash("sha256")
  for (const name of sources.toSorted())
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(join(folder, name)))
  const files = sources.filter((source) => source.endsWith(".c")).map((source) => join(folder, source))
  return { name: `${prefix}-${process.arch}-${hash.digest("hex").slice(0, 16)}`, files }
}

export const defaultCacheFolder = (): string => join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ork")

/** Returns true when only this user or root can have written the program. */
const isTrusted = (path: string): boolean => {
  const info = statSync(path, { throwIfNoEntry: false })
  return (
    info !== undefined && info.isFile() && (info.uid === 0 || info.uid === process.geteuid?.()) && (info.mode & 0o022) === 0
  )
}

const isWritable = (folder: string): boolean => {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const probe = join(folder, `.probe-${randomBytes(8).toString("hex")}`)
    mkdirSync(probe)
    rmSync(probe, { recursive: true })
    const info = statSync(folder)
    return info.uid === process.geteuid?.() && (info.mode & 0o022) === 0
  } catch {
    return false
  }
}

/** Returns why it cannot be compiled; null on success. */
const compile = async ({ flags }: Program, files: string[], path: string): Promise<string | null> => {
  const draft = `${path}.${randomBytes(8).toString("hex")}`
  for (const compiler of COMPILERS) {
    try {
      await run(compiler, ["-O2", ...flags, "-o", draft, ...files])
      chmodSync(draft, 0o755)
      renameSync(draft, path)
      return null
    } catch (error) {
      rmSync(draft, { force: true })
      if (error instanceof Error && "code" in error && error.code === "ENOENT") continue
      return `${compiler} could not compile it: ${messageOf(error)}`
    }
  }
  return `there is no C compiler (tried ${COMPILERS.join(", ")})`
}

/** Compiles a program into a folder of a package or an image. Returns its path. */
const compileInto = async (program: Program, folder: string): Promise<string> => {
  const { name, files } = readSources(program)
  const path = join(folder, name)
  const problem = await compile(program, files, path)
  if (problem !== null) throw new Error(`${program.name} could not be compiled: ${problem}`)
  return path
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2]
  if (folder === undefined) throw new Error("name the folder: node native.js FOLDER")
  for (const program of [HELPER, CONCEAL]) process.stdout.write(`${await compileInto(program, folder)}\n`)
}
