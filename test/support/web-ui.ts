// The web page of a real server in a real browser, and what it complained about.

import axe from "axe-core"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { afterAll, beforeAll, expect, onTestFinished } from "vitest"
import { launchChromium } from "./chromium.ts"
import { temporaryFolder } from "./ork.ts"
import { type Server, startServer } from "./server.ts"

export interface OpenPage {
  server: Server
  page: Page
  context: BrowserContext
  /** Opens a place of the page: `/runs`. */
  go(path: string): Promise<void>
  /** Errors in the console and uncaught ones: a broken content security policy is among them. */
  complaints: string[]
}

/** One browser for a file; each test has a server and a context of its own. */
export const useBrowser = () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchChromium()
  }, 300_000)
  afterAll(async () => {
    await browser.close()
  })

  return async (
    options: { scheme?: "light" | "dark"; width?: number; signedIn?: boolean; args?: string[] } = {},
  ): Promise<OpenPage> => {
    const { scheme = "light", width = 1280, signedIn = true, args = [] } = options
    const server = await startServer(args, { cwd: temporaryFolder() })
    const context = await browser.newContext({
      viewport: { width, height: 800 },
      colorScheme: scheme,
      timezoneId: "Europe/Berlin",
    })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    page.setDefaultTimeout(20_000)
    const complaints: string[] = []
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text())
    })
    page.on("pageerror", (error) => complaints.push(error.message))
    if (signedIn) await signIn(context, server, server.key)
    const go = async (path: string): Promise<void> => {
      await page.goto(`${server.url}/ui${path}`)
    }
    return { server, page, context, go, complaints }
  }
}

/** As the form of the page does. */
export const signIn = async (context: BrowserContext, server: Server, key: string): Promise<void> => {
  const answer = await context.request.post(`${server.url}/ui/sign-in`, { data: { key } })
  expect(answer.status()).toBe(204)
}

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

interface Violation {
  id: string
  nodes: { html: string; any: { message: string }[] }[]
}

/** What axe finds wrong on the page as it is now, a line each; `contrast`: only colours. As text, since tests know no DOM. */
export const axeViolations = async (page: Page, what: "all" | "contrast" = "all"): Promise<string[]> => {
  await page.evaluate(axe.source)
  const options = JSON.stringify({ runOnly: what === "all" ? RULES : ["color-contrast"], resultTypes: ["violations"] })
  const { violations } = await page.evaluate<{ violations: Violation[] }>(`axe.run(document, ${options})`)
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)} ${any[0]?.message ?? ""}`),
  )
}
