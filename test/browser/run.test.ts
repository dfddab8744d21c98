// The page of a run in a real browser: its graph, timeline and grid, while it runs and afterwards.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

/** Tasks that wait for a file that the test creates. */
const gated = () => {
  const folder = temporaryFolder()
  const wait = (name: string): string => `until test -e ${join(folder, name)}; do sleep 0.05; done`
  return { wait, open: (name: string): void => writeFileSync(join(folder, name), "") }
}

test("the graph and the timeline follow a run to its end", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  const gates = gated()
  await server.deploy({
    name: "watched",
    tasks: {
      first: { command: gates.wait("a") },
      many: { depends_on: ["first"], parallel: 3, command: gates.wait("b") },
      inner: {
        depends_on: ["many"],
        tasks: { x: { command: gates.wait("c") }, y: { depends_on: ["x"], command: "true" } },
      },
      last: { depends_on: ["inner"], command: gates.wait("d") },
    },
  })
  const id = await server.trigger("watched")
  await go(`/runs/${id}`)
  const graph = page.getByRole("region", { name: "Graph" })
  await graph.getByRole("button", { name: "first, running" }).waitFor()
  await graph.getByRole("button", { name: "last, pending" }).waitFor()
  gates.open("a")
  await graph.getByRole("button", { name: "first, success" }).waitFor()
  await graph.getByRole("button", { name: "many, running, 0 of 3 instances ended" }).waitFor()
  await graph.getByRole("button", { name: "Show instances of many" }).click()
  await graph.getByRole("button", { name: "many [2], running" }).waitFor()
  gates.open("b")
  await graph.getByRole("button", { name: "many [2], success" }).waitFor()
  await graph.getByRole("button", { name: "inner.x, running" }).waitFor()
  await graph.getByRole("button", { name: "Hide group inner" }).click()
  await graph.getByRole("button", { name: "inner.x, running" }).waitFor({ state: "detached" })

  await page.getByRole("link", { name: "Timeline" }).click()
  const timeline = page.getByRole("region", { name: "Timeline" })
  await timeline.getByRole("button", { name: /^inner\.x: running/ }).waitFor()
  gates.open("c")
  await timeline.getByRole("button", { name: /^inner\.y: success, .*ran / }).waitFor()
  await timeline.getByRole("button", { name: /^last: running/ }).waitFor()
  gates.open("d")
  await timeline.getByRole("button", { name: /^last: success.*on the critical path/ }).waitFor()
  await page.locator(".page-head").getByText("success").waitFor()
  await timeline.getByText("first → many", { exact: false }).waitFor()

  await timeline.getByRole("button", { name: "Show as table" }).click()
  expect(await timeline.getByRole("row", { name: /^last success/ }).count()).toBe(1)
  expect(consoleErrors).toEqual([])
})

test("a failed task is opened from the graph by keyboard, and its link shows the same", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy({
    name: "broken",
    tasks: { fine: { command: "true" }, wrong: { depends_on: ["fine"], command: "echo no >&2; exit 3" } },
  })
  const id = await server.trigger("broken")
  await server.reaches(id, "failed")
  await go(`/runs/${id}`)
  const graph = page.getByRole("region", { name: "Graph" })
  await graph.getByRole("button", { name: "fine, success" }).focus()
  await page.keyboard.press("ArrowRight")
  await page.waitForFunction("document.activeElement.dataset.box === 'wrong'")
  await page.keyboard.press("Enter")
  const panel = page.getByRole("complementary", { name: "Task wrong" })
  await panel.getByText("failed").first().waitFor()
  expect(page.url()).toMatch(/[?&]task=wrong/)
  await page.reload()
  await panel.waitFor()
  await page.keyboard.press("Escape")
  await panel.waitFor({ state: "detached" })
  expect(page.url()).not.toContain("task=")
  expect(consoleErrors).toEqual([])
})

test("the grid shows the last runs side by side, and a cell opens the task of that run", async () => {
  const { server, page, go } = await openPage()
  await server.deploy({
    name: "daily",
    params: { fail: { type: "boolean", default: false } },
    tasks: { load: { command: "true" }, check: { depends_on: ["load"], command: "test ${{ params.fail }} = false" } },
  })
  const bad = await server.trigger("daily", { params: { fail: true } })
  await server.reaches(bad, "failed")
  const good = await server.trigger("daily")
  await server.reaches(good, "success")
  await go(`/runs/${good}?tab=grid`)
  const grid = page.getByRole("table", { name: /Tasks of daily/ })
  await grid.getByRole("link", { name: /check in run #2: success/ }).waitFor()
  await grid.getByRole("link", { name: /check in run #1: failed/ }).click()
  await page.waitForURL(new RegExp(`/runs/${bad}\\?.*task=check`))
  await page.getByRole("complementary", { name: "Task check" }).waitFor()
})
