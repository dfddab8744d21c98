// A real Chromium for the browser tests: Debian's package, which is installed if it is missing.

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { promisify } from "node:util"
import { type Browser, chromium } from "playwright-core"

const run = promisify(execFile)
const PROGRAM = "/usr/bin/chromium"
/** Two test files may install at once: apt makes the second one wait. */
const INSTALL = ["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", "chromium"]

const install = async (): Promise<void> => {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  await run("apt-get", INSTALL, { env, maxBuffer: 1 << 26 }).catch(async () => {
    // The package lists may be missing or old.
    await run("apt-get", ["-o", "DPkg::Lock::Timeout=300", "update"], { env, maxBuffer: 1 << 26 })
    await run("apt-get", INSTALL, { env, maxBuffer: 1 << 26 })
  })
}

export const launchChromium = async (): Promise<Browser> => {
  if (!existsSync(PROGRAM)) {
    await install().catch((error: unknown) => {
      throw new Error(`browser tests need ${PROGRAM}, and apt-get could not install it: ${String(error)}`)
    })
  }
  return await chromium.launch({ executablePath: PROGRAM, args: ["--no-sandbox"] })
}
