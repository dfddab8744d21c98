// A log of 1,000,000 lines in Chromium with a real server: the time until its end is visible, the time of a search through all of it, and
// the memory of the tab. `node bench/web-ui-log.ts`; needs the build. Prints JSON lines.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { launchChromium } from "../test/support/components/chromium.ts"
import { serve } from "../test/support/serve.ts"

const LINES = 1_000_000
const SETTLE_MS = 2000
const WRITER = {
  name: "writer",
  tasks: { write: { command: `seq -f 'line %.0f of a log that somebody will want to read to its end' 1 ${LINES}` } },
}

const cwd = mkdtempSync(join(tmpdir(), "ork-page-log-"))
const server = await serve(cwd)
const { child, url } = server
const browser = await launchChromium()
try {
  await server.deploy(WRITER)
  const id = await server.trigger("writer")
  await server.reaches(id, "success")
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  await context.request.post(`${url}/ui/sign-in`, { data: { key: server.key } })
  const page = await context.newPage()
  const tell = (what: string, figures: object): void =>
    console.log(JSON.stringify({ bench: "page-log", lines: LINES, what, ...figures }))
  const timed = async (what: string, act: () => Promise<void>): Promise<void> => {
    const from = performance.now()
    await act()
    tell(what, { ms: Math.round(performance.now() - from) })
  }
  const line = (number: number) => page.locator(".log-text", { hasText: new RegExp(`^line ${number} of`) })
  await page.goto(`${url}/ui/runs/${id}`)
  await page.getByRole("link", { name: "Logs" }).waitFor()
  // The layout of the graph is computed in the meantime.
  await page.waitForTimeout(SETTLE_MS)
  await timed("end, from the run's page", async () => {
    await page.getByRole("link", { name: "Logs" }).click()
    await line(LINES).waitFor()
  })
  await timed("end, by its address", async () => {
    await page.goto(`${url}/ui/runs/${id}?tab=logs`)
    await line(LINES).waitFor()
  })
  await timed("start", async () => {
    await page.getByRole("button", { name: "Start" }).click()
    await line(1).waitFor()
  })
  await timed("search through all of it", async () => {
    await page.getByRole("searchbox", { name: "Search the log" }).fill("line 999999 ")
    await line(999_999).waitFor()
    await page.getByText("1 of 1", { exact: true }).waitFor()
  })
  const heap = await page.evaluate<number>("(globalThis.gc?.(), performance.memory.usedJSHeapSize)")
  tell("memory of the tab", { mib: Math.round(heap / 1_048_576) })
} finally {
  await browser.close()
  child.kill("SIGTERM")
  await new Promise((resolve) => child.once("exit", resolve))
  rmSync(cwd, { recursive: true, force: true })
}
