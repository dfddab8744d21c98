// Accessibility of every page: no axe findings in light and dark, no overflow on a phone, no errors in the console.

import { expect, test } from "vitest"
import { demoPages, fillDemo } from "../support/demo-server.ts"
import { axeViolations, useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

test("axe finds no problem on any page, in light and in dark", { timeout: 180_000 }, async () => {
  const { server, page, go, consoleErrors } = await openPage()
  const demo = await fillDemo(server, 4)
  const found: Record<string, string[]> = {}
  for (const { name, path, press } of demoPages(demo)) {
    await page.emulateMedia({ colorScheme: "light" })
    await go(path)
    await page.locator("h1").first().waitFor()
    await page.locator(".loading").first().waitFor({ state: "detached" })
    if (press !== undefined) await page.getByRole("button", { name: press, exact: true }).click()
    const light = await axeViolations(page)
    // The theme changes the colours only.
    await page.emulateMedia({ colorScheme: "dark" })
    const dark = await axeViolations(page, "contrast")
    if (light.length + dark.length > 0) found[name] = [...light, ...dark]
  }
  expect(found).toEqual({})
  expect(consoleErrors).toEqual([])
})

test("axe finds no problem in dialogs and menus and on a phone", async () => {
  const { server, page, go } = await openPage({ width: 390 })
  await fillDemo(server, 3)
  await go("/workflows")
  await page.getByRole("link", { name: "nightly-sales", exact: true }).waitFor()
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390)
  expect(await axeViolations(page)).toEqual([])
  await page.getByRole("button", { name: "Keyboard shortcuts" }).click()
  await page.getByRole("dialog").waitFor()
  expect(await axeViolations(page)).toEqual([])
  await page.keyboard.press("Escape")
  await page.getByRole("button", { name: "Theme" }).click()
  await page.getByRole("menuitem", { name: "Dark" }).click()
  expect(await page.evaluate("getComputedStyle(document.documentElement).colorScheme")).toBe("dark")
  await page.reload()
  expect(await page.evaluate("document.documentElement.dataset.theme")).toBe("dark")
})
