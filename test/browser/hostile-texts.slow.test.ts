// Texts that users choose are never markup, code or an address in the web UI.

import { expect, test } from "vitest"
import { openHostilePages } from "../support/hostile-pages.ts"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

test("hostile names, values, outputs and logs stay text on every page", { timeout: 300_000 }, async () => {
  const { server, context } = await openPage()
  const call = (method: string, path: string, { body }: { body: unknown }) => server.call(method, path, body)
  const { pages, achieved } = await openHostilePages({ url: server.url, key: server.key, call }, context.browser()!)
  expect(achieved).toEqual([])
  expect(pages).toBeGreaterThanOrEqual(45)
})
