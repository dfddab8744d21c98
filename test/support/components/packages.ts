// Debian packages that tests need. Several test files may install at once: a lock makes the second one wait, because apt-get fails
// when another apt-get runs.

import { execFile } from "node:child_process"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)
/** Another Python in the path does not see the packages of Debian. */
export const DEBIAN_PYTHON = "/usr/bin/python3"
const LOCK = join(tmpdir(), "ork-test-apt.lock")

const aptGet = async (...args: string[]): Promise<void> => {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  await run("flock", [LOCK, "apt-get", "-o", "DPkg::Lock::Timeout=300", ...args], { env, maxBuffer: 1 << 26 })
}

/** Installs the packages if one of the programs is missing. */
export const installPackages = async (programs: string[], packages: string[]): Promise<void> => {
  try {
    for (const program of programs) await run("which", [program])
  } catch {
    await install(packages)
  }
}

/** Installs what `python3 -m venv` needs, if it is missing. */
export const installVenv = async (): Promise<void> => {
  await run("python3", ["-c", "import ensurepip"]).catch(() => install(["python3-venv"]))
}

/** Installs psycopg 3 for the Python of Debian, if it is missing. */
export const installPsycopg = async (): Promise<void> => {
  await run(DEBIAN_PYTHON, ["-c", "import psycopg"]).catch(() => install(["python3-psycopg"]))
}

const install = async (packages: string[]): Promise<void> => {
  const args = ["install", "-y", "--no-install-recommends", ...packages]
  await aptGet(...args).catch(async () => {
    // The package lists may be missing or old.
    await aptGet("update")
    await aptGet(...args)
  })
}
