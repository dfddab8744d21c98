// Finds the compiled spawn helper (beside its source, as in an image without a compiler, or in the user's cache folder), or compiles it on
// first use with the machine's `cc`, into that folder, under a name that holds the hash of its source. Two processes that do so at once
// end up with the same file, by rename. `node dist/executors/process/native.js FOLDER` compiles it into FOLDER: what a package is made with.

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

/** `temporary`: a folder of this process alone, to be removed by whoever asked. */
export type NativeHelper = { path: string; temporary: string | null } | { unavailable: string }

export const nativeHelper = async (cacheFolder = defaultCacheFolder()): Promise<NativeHelper> => {
  if (process.platform !== "linux") return { unavailable: `it is for Linux, this is ${process.platform}` }
  const sources = readdirSync(SOURCE_FOLDER).filter((name) => name.endsWith(".c") || name.endsWith(".h"))
  const hash = createHash("sha256")
  for (const name of sources.toSorted())
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(join(SOURCE_FOLDER, name)))
  const name = `ork-spawn-${process.arch}-${hash.digest("hex").slice(0, 16)}`

  const cached = join(cacheFolder, name)
  const found = [join(SOURCE_FOLDER, name), cached].find(isTrusted)
  if (found !== undefined) return { path: found, temporary: null }
  const files = sources.filter((source) => source.endsWith(".c")).map((source) => join(SOURCE_FOLDER, source))
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

const defaultCacheFolder = (): string => join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ork")

/** A program that somebody else than this user or root could have put there is not run. */
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

/** null: done; else why not. */
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

if (import.meta.main) {
  const made = await nativeHelper(process.argv[2])
  if ("unavailable" in made) throw new Error(made.unavailable)
  process.stdout.write(`${made.path}\n`)
}
