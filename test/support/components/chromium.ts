// A real Chromium for the browser tests: Debian's package, which is installed if it is missing.

import { type Browser, chromium } from "playwright-core"
import { installPackages } from "./packages.ts"

const PROGRAM = "/usr/bin/chromium"

export const launchChromium = async (): Promise<Browser> => {
  await installPackages([PROGRAM], ["chromium"]).catch((error: unknown) => {
    throw new Error(`browser tests need ${PROGRAM}, and apt-get could not install it: ${String(error)}`)
  })
  return await chromium.launch({ executablePath: PROGRAM, args: ["--no-sandbox"] })
}
