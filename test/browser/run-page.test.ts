// What the page of a run tells at a glance, in a real browser: params, starter, cause of a failure, back-off, names; and its views at
// first sight.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Locator, Page } from "playwright-core"
import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const boxOf = async (locator: Locator) => {
  await locator.waitFor()
  return (await locator.boundingBox())!
}

const overlaps = (
  a: { x: number; y: number; width: number; height: number },
  b: { x: number; y: number; width: number; height: number },
): boolean => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height

const node = (page: Page, name: string): Locator => page.locator(`[data-box="${name}"]`)

test("a failed run shows its params, who started it, and the cause: instance, exit code, last lines and their log", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy({
    name: "etl",
    params: { day: { type: "string", default: "2026-11-14" }, limit: 5 },
    tasks: {
      load: {
        foreach: ["oslo.csv", "rome.csv"],
        command: 'if test "${{ item }}" = rome.csv; then echo reading; echo "no such table" >&2; exit 3; fi',
      },
    },
  })
  const id = await server.trigger("etl", { params: { limit: 7 } })
  await server.reaches(id, "failed")
  await go(`/runs/${id}`)
  await page.getByRole("heading", { name: "etl#1" }).waitFor()
  const facts = page.locator(".facts").first()
  await facts.getByText("2026-11-14").waitFor()
  expect(await facts.innerText()).toMatch(/params\.limit\s+7/)
  expect(await facts.innerText()).toMatch(/Started by\s+\S+/)
  const cause = page.getByRole("region", { name: "Cause of the failure" })
  await cause.getByText("no such table").waitFor()
  expect(await cause.innerText()).toMatch(/load\[1\] rome\.csv\s*failed with exit code 3/)
  await cause.getByRole("link", { name: "Open its log" }).click()
  await page.waitForURL(/tab=logs.*task=load.*path=1|task=load.*path=1.*tab=logs/)
  await page
    .getByRole("region", { name: /Log of load\[1\] rome\.csv/ })
    .or(page.getByText("reading").first())
    .first()
    .waitFor()
  await go("/runs/etl%231")
  await page.waitForURL(new RegExp(`/runs/${id}`))
  expect(consoleErrors).toEqual([])
})

test("a task in its back-off is shown as waiting for its retry while the page is open", async () => {
  const { server, page, go } = await openPage()
  const gate = join(temporaryFolder(), "gate")
  await server.deploy({
    name: "flaky",
    tasks: {
      slow: {
        command: `until test -e ${gate}; do sleep 0.05; done; exit 1`,
        retry: { max_attempts: 2, base_delay: 600, max_delay: 600 },
      },
      fast: { command: "exit 1", retry: { max_attempts: 2, base_delay: 600, max_delay: 600 } },
    },
  })
  const id = await server.trigger("flaky")
  await go(`/runs/${id}?tab=timeline`)
  const timeline = page.getByRole("region", { name: "Timeline" })
  await timeline.getByRole("button", { name: /^slow: running/ }).waitFor()
  await timeline.getByRole("button", { name: /^fast: pending.* until retries/ }).waitFor()
  writeFileSync(gate, "")
  await timeline.getByRole("button", { name: /^slow: pending.* until retries/ }).waitFor()
  expect(await timeline.locator(".tl-run.tl-live").count()).toBe(0)
  await page.getByRole("link", { name: "Graph" }).click()
  const graph = page.getByRole("region", { name: "Graph" })
  await graph.getByRole("button", { name: "slow, waits for its retry" }).waitFor()
  const box = graph.locator(".box", { has: node(page, "slow") })
  expect(await box.innerText()).not.toMatch(/\d+(\.\d+)?\s*(ms|s)\b/)
})

test("a graph that is opened with a task shows its first and last boxes beside the zoom buttons", async () => {
  const { server, page, go } = await openPage()
  const tasks = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`t${i}`, { command: "true" }]))
  await server.deploy({ name: "rows", tasks })
  const id = await server.trigger("rows")
  await server.reaches(id, "success")
  await go(`/runs/${id}?task=t0`)
  await page.getByRole("complementary", { name: "Task t0" }).waitFor()
  await expect
    .poll(async () => {
      const tools = await boxOf(page.getByRole("toolbar", { name: "Zoom" }))
      const frame = await boxOf(page.locator(".graph-frame"))
      const last = await boxOf(node(page, "t6"))
      return {
        isCovered: overlaps(await boxOf(node(page, "t0")), tools),
        isCutOff: last.y + last.height > frame.y + frame.height,
      }
    })
    .toEqual({ isCovered: false, isCutOff: false })
})

test("a large graph begins with its first box, before and after the better layout arrives", { timeout: 90_000 }, async () => {
  const { server, page, go } = await openPage()
  const layer = (n: number, up: (i: number) => string) =>
    Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`l${n}-${i}`, { depends_on: [up(i)], command: "true" }]))
  await server.deploy({
    name: "large",
    tasks: {
      first: { command: "true" },
      ...layer(1, () => "first"),
      ...layer(2, (i) => `l1-${i}`),
    },
  })
  let layOut = (): void => undefined
  const held = new Promise<void>((resolve) => (layOut = resolve))
  await page.route("**/elk-worker*", async (route) => {
    await held
    await route.continue()
  })
  await go("/workflows/large")
  const frame = await boxOf(page.locator(".graph-frame"))
  const inFrame = async (): Promise<boolean> => {
    const box = await node(page, "first").boundingBox()
    return box !== null && overlaps(box, frame)
  }
  await expect.poll(inFrame).toBe(true)
  const place = (): Promise<string> =>
    page.evaluate(`document.querySelector('.react-flow__node[data-id="first"]')?.style.transform ?? "gone"`)
  const before = await place()
  layOut()
  await expect.poll(place, { timeout: 20_000 }).not.toBe(before)
  await expect.poll(inFrame).toBe(true)
})

test("a task of a group whose items ended differently is not called successful", async () => {
  const { server, page, go } = await openPage()
  await server.deploy({
    name: "regions",
    tasks: { region: { foreach: ["eu", "us"], tasks: { load: { command: "test ${{ parent.item }} = eu" } } } },
  })
  const id = await server.trigger("regions")
  await server.reaches(id, "failed")
  await go(`/runs/${id}?task=region.load`)
  const panel = page.getByRole("complementary", { name: "Task region.load" })
  await panel
    .getByText("region.load[1]")
    .first()
    .waitFor()
    .catch(() => undefined)
  const standing = panel.locator(".task-standing")
  await standing.locator(".explained").waitFor()
  expect(await standing.innerText()).not.toMatch(/succe/)
  await panel.getByRole("button", { name: "load[1] us" }).waitFor()
  await go(`/runs/${id}?tab=timeline`)
  const row = page.locator(".tl-row", { has: page.locator('[data-row-id="region.load[1]"]') })
  await row.locator(".tl-failed").waitFor()
  expect(await row.locator(".tl-success").count()).toBe(0)
})

test(
  "a view whose code is missing, or cannot be loaded because the server is down, comes back by itself",
  { timeout: 90_000 },
  async () => {
    const { server, page, go } = await openPage()
    await server.deploy({ name: "quick", tasks: { a: { command: "true" } } })
    await go("/workflows")
    await page.getByRole("link", { name: "quick" }).first().waitFor()
    await page.route("**/assets/jobs-page*", (route) => route.fulfill({ status: 404 }), { times: 1 })
    await page.getByRole("link", { name: "Jobs" }).click()
    await page.getByRole("heading", { name: "Jobs" }).waitFor()

    await go("/workflows")
    await page.evaluate("sessionStorage.clear()")
    await page.route("**/assets/schedules-page*", (route) => route.abort())
    await page.route("**/health", (route) => route.abort())
    await page.getByRole("link", { name: "Schedules" }).click()
    await page.getByText("This part of the web UI could not be loaded").waitFor()
    await page.unroute("**/assets/schedules-page*")
    await page.unroute("**/health")
    await page.getByRole("heading", { name: "Schedules" }).waitFor()
  },
)
