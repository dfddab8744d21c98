// Packs Ork's packages and installs them into empty folders, as users do. Needs npm's cache or registry.

import { execFile } from "node:child_process"
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { writePackages } from "../../scripts/pack.ts"

export const run = promisify(execFile)

/** Makes a folder for everything of a test file. The caller removes it. */
export const workFolder = (): string => mkdtempSync(join(tmpdir(), "ork-packages-"))

/** Returns the paths of the tarballs by package name. */
export const packAll = async (folder: string): Promise<{ ork: string; server: string }> => {
  const tarballs = await Promise.all(
    (await writePackages(join(folder, "packages"))).map(async (source) => {
      const { stdout } = await run("npm", ["pack", source, "--json", "--pack-destination", folder])
      const [packed] = JSON.parse(stdout) as [{ filename: string }]
      return join(folder, packed.filename)
    }),
  )
  return { ork: tarballs[0]!, server: tarballs[1]! }
}

/** Installs packages into a new folder without running scripts. */
export const install = async (folder: string, ...packages: string[]): Promise<void> => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }')
  await run("npm", ["install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", ...packages], {
    cwd: folder,
    maxBuffer: 1 << 26,
  })
}

export interface Installed {
  packages: string[]
  megabytes: number
  /** Packages that would run a script when they are installed. */
  scripts: string[]
}

export const measure = (folder: string): Installed => {
  const modules = join(folder, "node_modules")
  const lock = JSON.parse(readFileSync(join(modules, ".package-lock.json"), "utf8")) as {
    packages: { [path: string]: { hasInstallScript?: boolean } }
  }
  const bytes = globSync("**/*", { cwd: modules, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)
  const packages = Object.keys(lock.packages)
  return {
    packages,
    megabytes: bytes / 1e6,
    scripts: packages.filter((path) => lock.packages[path]!.hasInstallScript === true),
  }
}
