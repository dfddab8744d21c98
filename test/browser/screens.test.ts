// Narrow screens and forced colours in a real browser.

import type { Locator, Page } from "playwright-core"
import { expect, test } from "vitest"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const FAILING = {
  name: "nightly-sales-of-all-regions",
  description: "Loads the sales of a day and writes the report",
  tags: ["sales", "nightly"],
  schedule: "0 2 * * *",
  tasks: {
    load: { parallel: 4, command: "test $ORK_PARALLEL_INDEX -ne 3" },
    report: { depends_on: ["load"], command: "true" },
  },
}

/** The element is inside the window without scrolling sideways. */
const isReachable = async (page: Page, element: Locator): Promise<boolean> => {
  await element.waitFor()
  const box = (await element.boundingBox())!
  return box.x >= 0 && box.x + box.width <= page.viewportSize()!.width
}

test.each([390, 599, 1024])("at %i px every page fits, and Run and the status are within reach", async (width) => {
  const { server, page, go } = await openPage({ width })
  await server.deploy(FAILING)
  const id = await server.trigger(FAILING.name)
  await server.reaches(id, "failed")
  const fits = () => page.evaluate<boolean>("document.documentElement.scrollWidth <= window.innerWidth")
  await go("/workflows")
  const row = page.getByRole("row", { name: new RegExp(FAILING.name) })
  expect(await isReachable(page, row.getByText("failed").first())).toBe(true)
  expect(await isReachable(page, row.getByRole("link", { name: `Run ${FAILING.name}` }))).toBe(true)
  expect(await fits()).toBe(true)
  await go(`/workflows/${FAILING.name}`)
  expect(await isReachable(page, page.getByRole("link", { name: "Run", exact: true }))).toBe(true)
  expect(await fits()).toBe(true)
  await go("/runs")
  expect(await isReachable(page, page.getByRole("row", { name: /#1/ }).getByText("failed").first())).toBe(true)
  expect(await isReachable(page, page.getByRole("row", { name: /#1/ }).locator("td.end").last())).toBe(true)
  expect(await fits()).toBe(true)
  for (const tab of ["graph", "timeline", "grid", "logs", "compare"]) {
    await go(`/runs/${id}?tab=${tab}`)
    expect(await isReachable(page, page.locator(".page-head .badge"))).toBe(true)
    expect(await isReachable(page, page.getByRole("button", { name: "Retry" }))).toBe(true)
    expect(await fits(), tab).toBe(true)
  }
  await go(`/runs/${id}?tab=timeline&task=load`)
  await page.locator(".tl-row").first().waitFor()
  const clipped =
    "[...document.querySelectorAll('.tl-row .clip')].filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent)"
  expect(await page.evaluate(clipped)).toEqual([])
  await server.call("POST", "/keys", { name: "ci", scopes: ["trigger"] })
  await go("/system?tab=keys")
  expect(await isReachable(page, page.getByRole("button", { name: "Remove key ci" }))).toBe(true)
  await server.call("PUT", "/queues/mail", { concurrency: 2 })
  await go("/jobs")
  expect(await isReachable(page, page.getByRole("switch").first())).toBe(true)
  await go("/schedules")
  expect(await isReachable(page, page.getByRole("table").getByRole("switch").first())).toBe(true)
  for (const path of [
    "/jobs",
    "/schedules",
    "/workers",
    "/system",
    "/system?tab=keys",
    "/system?tab=audit",
    "/welcome?problem=link",
  ]) {
    await go(path)
    await page.getByRole("heading", { level: 1 }).waitFor()
    expect(await fits(), path).toBe(true)
  }
})

/** An element is visible if the picture changes without it. */
const isVisible = async (element: Locator): Promise<boolean> => {
  await element.waitFor({ state: "attached" })
  const around = element.locator("..")
  const before = await around.screenshot({ animations: "disabled" })
  await element.evaluate((it: { style: { visibility: string } }) => (it.style.visibility = "hidden"))
  return !before.equals(await around.screenshot({ animations: "disabled" }))
}

test("forced colours hide no bar", async () => {
  const { server, page, go } = await openPage()
  await page.emulateMedia({ forcedColors: "active" })
  await server.deploy(FAILING)
  const id = await server.trigger(FAILING.name)
  await server.reaches(id, "failed")
  await go("/workflows")
  expect(await isVisible(page.locator(".tick span").last())).toBe(true)
  await go("/runs")
  for (const status of ["success", "failed"]) {
    expect(await isVisible(page.locator(`.progress-${status}`).first()), status).toBe(true)
  }
  await go(`/runs/${id}?tab=timeline`)
  for (const instance of ["load[0]", "load[3]"]) {
    const row = page.locator(".tl-row", { has: page.locator(`[data-row-id="${instance}"]`) })
    expect(await isVisible(row.locator(".tl-run")), instance).toBe(true)
  }
  await go(`/runs/${id}`)
  expect(await isVisible(page.locator(".count-bar .progress-failed").first())).toBe(true)
})
