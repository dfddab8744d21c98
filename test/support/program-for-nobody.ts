// A program of the built command that the user nobody can start, who may not be able to enter the folder of the checkout.

import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, cpSync, mkdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

const ROOT = join(import.meta.dirname, "../..")

export const ORK = join(ROOT, "bin/ork")
export const NOBODY = 65_534

/** Command line that starts a program as the user nobody. */
export const AS_NOBODY = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"]

const nobodyCanRun = (): boolean =>
  spawnSync(AS_NOBODY[0]!, [...AS_NOBODY.slice(1), ORK, "--version"], { cwd: "/", stdio: "ignore" }).status === 0

/** Returns the program of the checkout if nobody can start it, and else a copy of what a user installs, in the given folder. */
export const programForNobody = (newFolder: () => string): string => {
  if (nobodyCanRun()) return ORK
  const folder = newFolder()
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: { [path: string]: { dev?: boolean; link?: boolean } }
  }
  const modules = Object.entries(packages).flatMap(([path, { dev, link }]) =>
    path.startsWith("node_modules/") && dev !== true && link !== true && !path.includes("/node_modules/") ? [path] : [],
  )
  for (const path of ["bin", "dist", "native", "python", "package.json", "node_modules/node", ...modules]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, verbatimSymlinks: true, force: true, errorOnExist: false })
  }
  execFileSync("chmod", ["-R", "a+rX", folder])
  chmodSync(folder, 0o755)
  return join(folder, "bin/ork")
}
