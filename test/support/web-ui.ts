// The web UI of a real server in a real browser.

import axe from "axe-core"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { afterAll, beforeAll, expect, onTestFinished } from "vitest"
import { launchChromium } from "./components/chromium.ts"
import { temporaryFolder } from "./ork.ts"
import { type Server, startServer } from "./server.ts"

export interface OpenPage {
  server: Server
  /** Folder of the server. */
  cwd: string
  page: Page
  context: BrowserContext
  /** Opens a page by its path, such as `/runs`. */
  go(path: string): Promise<void>
  /** Errors in the console and uncaught errors, violations of the content security policy included. */
  consoleErrors: string[]
}

/** Shares one browser in a test file; each page that is opened has its own server and context. */
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
    const cwd = temporaryFolder()
    const server = await startServer(args, { cwd })
    const context = await browser.newContext({
      viewport: { width, height: 800 },
      colorScheme: scheme,
      timezoneId: "Europe/Berlin",
    })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    page.setDefaultTimeout(20_000)
    const consoleErrors: string[] = []
    page.on("console", (message) => {
      if (message.type() === "error") consoleErrors.push(message.text())
    })
    page.on("pageerror", (error) => consoleErrors.push(error.message))
    if (signedIn) await signIn(context, server, server.key)
    const go = async (path: string): Promise<void> => {
      await page.goto(`${server.url}/ui${path}`)
    }
    return { server, cwd, page, context, go, consoleErrors }
  }
}

/** Signs in as the sign-in form does. */
export const signIn = async (context: BrowserContext, server: Server, key: string): Promise<void> => {
  const response = await context.request.post(`${server.url}/ui/sign-in`, { data: { key } })
  expect(response.status()).toBe(204)
}

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

interface Violation {
  id: string
  nodes: { html: string; any: { message: string }[] }[]
}

/** The findings of axe on the current page, one line each; with `contrast`, those about colours only. */
export const axeViolations = async (page: Page, what: "all" | "contrast" = "all"): Promise<string[]> => {
  await page.evaluate(axe.source)
  const options = JSON.stringify({ runOnly: what === "all" ? RULES : ["color-contrast"], resultTypes: ["violations"] })
  const { violations } = await page.evaluate<{ violations: Violation[] }>(`axe.run(document, ${options})`)
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)} ${any[0]?.message ?? ""}`),
  )
}
