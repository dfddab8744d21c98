// Finds the compiled spawn helper (beside its source, as in an image without a compiler, or in the user's cache folder), or
// compiles it into the cache folder on first use, under a name with the hash of its source. Concurrent processes end up with
// the same file, by rename. `node dist/executors/process/native.js FOLDER` compiles it into FOLDER, for packages.

import { execFile } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { messageOf } from "../../core/model/error-message.ts"

const run = promisify(execFile)

const SOURCE_FOLDER = fileURLToPath(new URL("../../../native/", import.meta.url))
const COMPILERS = ["cc", "gcc", "clang"] as const

/** `temporary`: a private folder that the caller must remove; null when the helper is cached. */
export type NativeHelper = { path: string; temporary: string | null } | { unavailable: string }

export const nativeHelper = async (cacheFolder = defaultCacheFolder()): Promise<NativeHelper> => {
  if (process.platform !== "linux") return { unavailable: `it requires Linux, this is ${process.platform}` }
  const { name, files } = readSources()
  const cached = join(cacheFolder, name)
  const found = [join(SOURCE_FOLDER, name), cached].find(isTrusted)
  if (found !== undefined) return { path: found, temporary: null }
  let temporary: string | null = null
  let path = cached
  if (!isWritable(cacheFolder)) {
    temporary = mkdtempSync(join(tmpdir(), "ork-spawn-"))
    path = join(temporary, name)
  }
  const problem = await compile(files, path)
  if (problem === null) return { path, temporary }
  if (temporary !== null) rmSync(temporary, { recursive: true, force: true })
  return { unavailable: problem }
}

/** Returns the files to compile, and the name of the program: it contains the hash of the source. */
const readSources = (): { name: string; files: string[] } => {
  const sources = readdirSync(SOURCE_FOLDER).filter((name) => name.endsWith(".c") || name.endsWith(".h"))
  const hash = createHash("sha256")
  for (const name of sources.toSorted())
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(join(SOURCE_FOLDER, name)))
  const files = sources.filter((source) => source.endsWith(".c")).map((source) => join(SOURCE_FOLDER, source))
  return { name: `ork-spawn-${process.arch}-${hash.digest("hex").slice(0, 16)}`, files }
}

const defaultCacheFolder = (): string => join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ork")

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
const compile = async (files: string[], path: string): Promise<string | null> => {
  const draft = `${path}.${randomBytes(8).toString("hex")}`
  for (const compiler of COMPILERS) {
    try {
      await run(compiler, ["-O2", "-o", draft, ...files])
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

/** Compiles the helper into a folder of a package or an image. Returns its path. */
const compileInto = async (folder: string): Promise<string> => {
  const { name, files } = readSources()
  const path = join(folder, name)
  const problem = await compile(files, path)
  if (problem !== null) throw new Error(`the helper could not be compiled: ${problem}`)
  return path
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2]
  if (folder === undefined) throw new Error("name the folder: node native.js FOLDER")
  process.stdout.write(`${await compileInto(folder)}\n`)
}
