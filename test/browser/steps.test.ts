// The steps of a durable function in a real browser, while its program runs.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { expect, onTestFinished, test } from "vitest"
import { startOrderProgram } from "../support/order-program.ts"
import { axeViolations, useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const setup = async () => {
  const opened = await openPage()
  const { child, runId } = await startOrderProgram(opened.cwd)
  onTestFinished(() => void child.kill("SIGKILL"))
  return { ...opened, runId }
}

const step = (page: Page, name: string) =>
  page.getByRole("region", { name: "Steps" }).getByRole("listitem").filter({ hasText: name })

test("a run of a durable function shows its steps, what they wait for, their inputs and outputs, and follows them", async () => {
  const { server, page, go, consoleErrors, cwd, runId } = await setup()
  await go(`/runs/${runId}`)
  await step(page, "paid").getByText("waits for the signal paid, until").waitFor()
  expect(await step(page, "reserve").innerText()).toMatch(/success[\s\S]*2 attempts/)
  await step(page, "reserve").locator("summary").click()
  await step(page, "reserve").getByText('"item": "book"').waitFor()
  await step(page, "print-label").locator("summary").click()
  await step(page, "print-label").getByRole("group", { name: "Input of print-label" }).getByText('"parcel": "book"').waitFor()
  await step(page, "print-label").getByRole("group", { name: "Output of print-label" }).getByText('"label": "L-book"').waitFor()
  expect(
    await step(page, "print-label")
      .getByRole("link", { name: /the job/ })
      .getAttribute("href"),
  ).toMatch(/\/jobs\//)
  await server.call("POST", `/runs/${runId}/signals/paid`, { payload: { cents: 4200 } })
  await step(page, "paid").getByText("success").waitFor()
  await step(page, "ship").getByText("failed").waitFor()
  await step(page, "ship").locator("summary").click()
  await step(page, "ship").getByText("the carrier is closed").waitFor()
  writeFileSync(join(cwd, "ready"), "")
  await step(page, "paid").locator("summary").click()
  await step(page, "paid").getByRole("button", { name: "Retry from this step" }).click()
  const dialog = page.getByRole("dialog", { name: "Retry from the step paid?" })
  expect(await dialog.getByRole("region", { name: "Kept" }).innerText()).toMatch(/reserve\s+print-label/)
  await dialog.getByRole("button", { name: "Run 2 steps again" }).click()
  await step(page, "ship").getByText("success").waitFor()
  await page.locator(".page-head .badge").getByText("success").waitFor()
  expect(await axeViolations(page)).toEqual([])
  expect(consoleErrors).toEqual([])
})

test("a run of a graph has no steps", async () => {
  const { server, page, go } = await openPage()
  await server.deploy({ name: "plain", tasks: { a: { command: "true" } } })
  await go(`/runs/${await server.trigger("plain")}`)
  await page.getByRole("region", { name: "Graph" }).waitFor()
  expect(await page.getByRole("link", { name: "Steps" }).count()).toBe(0)
})
