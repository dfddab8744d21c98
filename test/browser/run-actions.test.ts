// Actions on the page of a run: read a log, retry, cancel, approve, compare.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { axeViolations, useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const FLAKY = {
  name: "flaky",
  params: { limit: { type: "integer", default: 1 } },
  tasks: {
    fetch: { command: "echo fetched" },
    load: {
      depends_on: ["fetch"],
      command:
        "for i in $(seq 1 3000); do echo row $i; done; printf '\\033[31mValueError\\033[0m: <b>row 7</b> is odd\\n' >&2; echo tail; test -e ok || exit 3",
    },
    report: { depends_on: ["load"], command: "echo '{\"rows\": 3000}'" },
  },
}

test("the log of a failed task jumps to its first error, and the run is retried after its plan is shown", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy(FLAKY)
  const id = await server.trigger("flaky")
  await server.reaches(id, "failed")
  await go(`/runs/${id}?tab=logs`)
  const log = page.getByRole("region", { name: "Log of load", exact: true })
  await log.getByText("tail", { exact: true }).waitFor()
  expect(await log.getByText("row 1", { exact: true }).count()).toBe(0)
  await log.getByRole("button", { name: "First error" }).click()
  await log.locator(".log-current", { hasText: "ValueError: <b>row 7</b> is odd" }).waitFor()
  expect(await log.locator("b").count()).toBe(0)

  await log.getByRole("searchbox", { name: "Search the log" }).fill("ROW 29")
  await log.getByText("1 of 111", { exact: true }).waitFor()
  await log.locator(".log-current", { hasText: /^29row 29$/ }).waitFor()
  await log.getByRole("searchbox").press("Shift+Enter")
  await log.getByText("111 of 111", { exact: true }).waitFor()
  await log.locator(".log-current", { hasText: "row 2999" }).waitFor()
  await log.getByRole("button", { name: "Wrap" }).click()
  await log.getByRole("button", { name: "Times" }).click()
  await log.locator(".log-current time").waitFor()
  expect(await axeViolations(page)).toEqual([])
  await page.emulateMedia({ colorScheme: "dark" })
  expect(await axeViolations(page, "contrast")).toEqual([])

  await go(`/runs/${id}?tab=grid&task=load`)
  const panel = page.getByRole("complementary", { name: "Task load" })
  await panel.getByText("tail", { exact: true }).waitFor()
  expect(await axeViolations(page)).toEqual([])
  await panel.getByRole("button", { name: "Retry from here" }).click()
  const dialog = page.getByRole("dialog", { name: "Retry from load?" })
  await dialog.getByRole("region", { name: "Runs again" }).getByText("report").waitFor()
  await dialog.getByRole("region", { name: "Kept" }).getByText("fetch").waitFor()
  expect(await axeViolations(page)).toEqual([])
  await dialog.getByRole("button", { name: "Run 2 tasks again" }).click()
  await page.getByText("The run goes on").waitFor()
  await server.reaches(id, "failed")
  await panel.getByRole("region", { name: "Attempts", exact: true }).getByRole("row").nth(2).waitFor()
  const tasks = (await server.call("GET", `/runs/${id}/tasks`)).body["items"] as { name: string; attempt: number }[]
  expect(Object.fromEntries(tasks.map(({ name, attempt }) => [name, attempt]))).toMatchObject({ fetch: 1, load: 2 })
  expect(consoleErrors).toEqual([])
})

test("a live log grows, and a running run can be paused and cancelled", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  const flag = join(temporaryFolder(), "go")
  await server.deploy({
    name: "slow",
    tasks: {
      wait: { command: `echo first; until test -e ${flag}; do sleep 0.1; done; echo second; sleep 600` },
      after: { command: "true", depends_on: ["wait"] },
    },
  })
  const id = await server.trigger("slow")
  await go(`/runs/${id}?tab=logs&task=wait`)
  const log = page.getByRole("region", { name: "Log of wait", exact: true })
  await log.getByText("first", { exact: true }).waitFor()
  await log.getByText("live", { exact: true }).waitFor()
  writeFileSync(flag, "")
  await log.getByText("second", { exact: true }).waitFor()
  await page.getByRole("button", { name: "Pause" }).click()
  await page.getByRole("button", { name: "Resume" }).click()
  await page.getByRole("button", { name: "Pause" }).waitFor()
  await page.getByRole("button", { name: "Cancel" }).click()
  const dialog = page.getByRole("dialog", { name: "Cancel this run?" })
  await dialog.getByText("1 running task stopped").waitFor()
  await dialog.getByRole("button", { name: "Cancel the run" }).click()
  await page.locator("h1 ~ .badge", { hasText: "cancelled" }).waitFor()
  await page.getByRole("button", { name: "Retry" }).waitFor()
  expect(consoleErrors).toEqual([])
})

test("a task is approved with a comment, and the outcome of a failed task is overridden", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy({
    name: "gate",
    tasks: {
      ask: { executor: "approval", message: "Ship it?" },
      ship: { depends_on: ["ask"], command: "exit 1" },
      tell: { depends_on: ["ship"], command: "true" },
    },
  })
  const id = await server.trigger("gate")
  await go(`/runs/${id}?tab=grid&task=ask`)
  const panel = page.getByRole("complementary", { name: "Task ask" })
  const approval = panel.getByRole("region", { name: "Approval" })
  await approval.getByText("Ship it?").waitFor()
  expect(await axeViolations(page)).toEqual([])
  await approval.getByLabel("Comment").fill("looks good")
  await approval.getByRole("button", { name: "Approve" }).click()
  await panel.getByText("looks good").waitFor()
  await server.reaches(id, "failed")

  await go(`/runs/${id}?task=ship`)
  const ship = page.getByRole("complementary", { name: "Task ship" })
  await ship.getByRole("button", { name: "Mark as success" }).click()
  const dialog = page.getByRole("dialog", { name: "Mark ship as success?" })
  await dialog.getByRole("button", { name: "Mark as success" }).click()
  await dialog.getByText("Say why").waitFor()
  await dialog.getByLabel("Reason").fill("shipped by hand")
  await dialog.getByRole("button", { name: "Mark as success" }).click()
  await page.getByText("ship is marked as success").waitFor()
  await ship.getByText("success", { exact: true }).first().waitFor()
  expect(consoleErrors).toEqual([])
})

test("two runs are compared by params, durations, statuses and outputs", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy(FLAKY)
  const first = await server.trigger("flaky")
  await server.reaches(first, "failed")
  const second = await server.trigger("flaky", { params: { limit: 2 } })
  await server.reaches(second, "failed")
  await go(`/runs/${second}?tab=compare`)
  await page.getByRole("region", { name: "Tasks", exact: true }).getByRole("button", { name: "Outputs of fetch" }).click()
  await page.getByText("The outputs are the same.").waitFor()
  await page.getByRole("region", { name: "Params", exact: true }).getByText("differs").waitFor()
  await page.getByText("Both ran version 1.").waitFor()
  expect(await axeViolations(page)).toEqual([])
  await page.emulateMedia({ colorScheme: "dark" })
  expect(await axeViolations(page, "contrast")).toEqual([])
  expect(consoleErrors).toEqual([])
})
