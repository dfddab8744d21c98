// Takes screenshots of every page of the web UI, light and dark, from a real server with demo data, into docs/images/.
// `npm run screenshots [NAME…]` takes only those pages. Needs the build.

import type { ChildProcess } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { launchChromium } from "../test/support/components/chromium.ts"
import { demoPages, fillDemo } from "../test/support/demo-server.ts"
import { startOrderProgram } from "../test/support/order-program.ts"
import { serve } from "../test/support/serve.ts"
import { packPng } from "./png.ts"

const ROOT = join(import.meta.dirname, "..")
const IMAGES = join(ROOT, "docs/images")
const SIZE = { width: 1280, height: 800 }
/** The time for charts and live values to settle. */
const SETTLE_MS = 1200

const cwd = mkdtempSync(join(tmpdir(), "ork-pictures-"))
const server = await serve(cwd)
const { child, url, key } = server
const browser = await launchChromium()
let program: ChildProcess | null = null
try {
  mkdirSync(IMAGES, { recursive: true })
  const pages = demoPages(await fillDemo(server, 18))
  const order = await startOrderProgram(cwd)
  program = order.child
  pages.push({ name: "steps", path: `/runs/${order.runId}` })
  const wanted = process.argv.slice(2)
  for (const scheme of ["light", "dark"] as const) {
    const context = await browser.newContext({ viewport: SIZE, colorScheme: scheme, reducedMotion: "reduce" })
    await context.request.post(`${url}/ui/sign-in`, { data: { key } })
    const page = await context.newPage()
    for (const { name, path, press } of pages.filter((each) => wanted.length === 0 || wanted.includes(each.name))) {
      await page.goto(`${url}/ui${path}`)
      if (press !== undefined) await page.getByRole("button", { name: press, exact: true }).click()
      await page.waitForTimeout(SETTLE_MS)
      const file = join(IMAGES, `${name}-${scheme}.png`)
      writeFileSync(file, packPng(await page.screenshot()))
      console.log(`${file.slice(ROOT.length + 1)} ${Math.ceil(statSync(file).size / 1024)} KiB`)
    }
    await context.close()
  }
} finally {
  await browser.close()
  program?.kill("SIGKILL")
  child.kill("SIGTERM")
  await new Promise((resolve) => child.once("exit", resolve))
  rmSync(cwd, { recursive: true, force: true })
}
