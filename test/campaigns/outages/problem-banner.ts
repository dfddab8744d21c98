// What the web UI of a server shows in a browser that stays open: a banner that states why the server cannot work.

import type { Browser, Page } from "playwright-core"
import { launchChromium } from "../../support/components/chromium.ts"

const BANNER = "p.banner[role=status]"
const PROBLEM = /disk|object store/

export class ProblemBanner implements AsyncDisposable {
  readonly #browser: Browser
  readonly #page: Page

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser
    this.#page = page
  }

  /** Signs in, and opens the list of runs. */
  static async open(url: string, key: string): Promise<ProblemBanner> {
    const browser = await launchChromium()
    const context = await browser.newContext()
    const response = await context.request.post(`${url}/ui/sign-in`, { data: { key } })
    if (response.status() !== 204) throw new Error(`could not sign in: ${response.status()}`)
    const page = await context.newPage()
    await page.goto(`${url}/ui/runs`)
    return new ProblemBanner(browser, page)
  }

  /** Returns whether the banner names the disk or the object store within `ms`. */
  appears(ms: number): Promise<boolean> {
    return this.#waits("visible", ms)
  }

  disappears(ms: number): Promise<boolean> {
    return this.#waits("hidden", ms)
  }

  async #waits(state: "visible" | "hidden", timeout: number): Promise<boolean> {
    const banner = this.#page.locator(BANNER, { hasText: PROBLEM })
    return await banner.waitFor({ state, timeout }).then(
      () => true,
      () => false,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
  }
}
