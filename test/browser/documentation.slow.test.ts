// The documentation site in a real browser, opened from its folder without a server.

import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { expect, onTestFinished, test } from "vitest"
import { buildSite } from "../../scripts/docs/site.ts"
import { launchChromium } from "../support/components/chromium.ts"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { axeViolations } from "../support/web-ui.ts"

const openSite = async () => {
  const folder = temporaryFolder()
  buildSite(REPO, folder)
  const browser = await launchChromium()
  onTestFinished(() => browser.close())
  const context = await browser.newContext({ offline: true })
  const page = await context.newPage()
  const requests: string[] = []
  const errors: string[] = []
  page.on("request", (request) => requests.push(request.url()))
  page.on("console", (message) => void (message.type() === "error" && errors.push(message.text())))
  page.on("pageerror", (error) => errors.push(error.message))
  const go = (path: string) => page.goto(pathToFileURL(join(folder, path)).href)
  return { page, go, requests, errors }
}

test("the search finds sections by the words that people use, offline and from a folder", async () => {
  const { page, go, requests, errors } = await openSite()
  await go("reference/definition.html")
  for (const [words, heading] of [
    ["sensor", /sensor/i],
    ["mapped task", /mapped/i],
    ["pool", /pool/i],
  ] as const) {
    await page.keyboard.press("/")
    await page.getByRole("searchbox").fill(words)
    await page.locator("#results li").filter({ hasText: heading }).first().waitFor()
  }
  await page.getByRole("searchbox").fill("retries with back-off")
  const first = page.locator("#results a").first()
  await first.waitFor()
  const title = (await first.locator("strong").textContent())!.split(" › ")[0]!
  await page.keyboard.press("ArrowDown")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { level: 1, name: title }).waitFor()
  expect(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:"))).toEqual([])
  expect(errors).toEqual([])
})

test("a wrong word gives a message, and Escape closes the results", async () => {
  const { page, go } = await openSite()
  await go("index.html")
  await page.getByRole("searchbox").fill("zzqx")
  await page.getByText("Nothing found for “zzqx”").waitFor()
  await page.keyboard.press("Escape")
  await page.locator("#results").waitFor({ state: "hidden" })
})

test("the navigation leads through the pages, and is closed on a narrow screen", async () => {
  const { page, go } = await openSite()
  await go("index.html")
  await page.getByRole("navigation").getByRole("link", { name: "Workflow definition" }).click()
  await page.getByRole("heading", { level: 1, name: "Workflow definition" }).waitFor()
  await page.setViewportSize({ width: 400, height: 800 })
  await page.reload()
  expect(await page.getByRole("navigation").getByRole("link", { name: "Glossary" }).isVisible()).toBe(false)
  await page.getByText("Pages", { exact: true }).click()
  await page.getByRole("navigation").getByRole("link", { name: "Glossary" }).click()
  await page.getByRole("heading", { level: 1, name: "Glossary" }).waitFor()
})

test.each(["light", "dark"] as const)("the pages are accessible (%s)", async (colorScheme) => {
  const { page, go } = await openSite()
  await page.emulateMedia({ colorScheme })
  for (const path of ["index.html", "tutorial.html", "reference/definition.html", "airflow-terms.html"]) {
    await go(path)
    await page.getByRole("searchbox").fill("pool")
    await page.locator("#results li").first().waitFor()
    expect({ path, violations: await axeViolations(page) }).toEqual({ path, violations: [] })
  }
})
