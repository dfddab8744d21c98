// The time between a commit and its appearance in the web UI.

import { expect, test } from "vitest"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()
const RUNS = 7
const MOST_MS = 200

/** Resolves with the time at which the row of a run shows its end; the browser and the server share a clock. */
const SEEN = (id: string): string => `new Promise((resolve) => {
  const look = () => {
    const row = document.querySelector('a[href$="/runs/${id}"]')?.closest("tr")
    if (row?.textContent.includes("success")) { observer.disconnect(); requestAnimationFrame(() => resolve(Date.now())) }
  }
  const observer = new MutationObserver(look)
  observer.observe(document.body, { subtree: true, childList: true, characterData: true })
  look()
})`

test("the end of a run is visible within 200 ms of its commit", { timeout: 120_000 }, async () => {
  const { server, page, go } = await openPage()
  await server.deploy({ name: "short", tasks: { a: { command: "sleep 2" } } })
  await go("/runs")
  await page.getByText("Nothing has run yet").waitFor()
  const late: number[] = []
  for (let i = 0; i < RUNS; i++) {
    const id = await server.trigger("short")
    await page.locator(`a[href$="/runs/${id}"]`).waitFor()
    const seenAt = await page.evaluate<number>(SEEN(id))
    const run = await server.reaches(id, "success")
    late.push(seenAt - Date.parse(run["finished_at"] as string))
  }
  const median = late.toSorted((a, b) => a - b)[Math.floor(RUNS / 2)]!
  expect({ median, within: median < MOST_MS, late }).toMatchObject({ within: true })
})
