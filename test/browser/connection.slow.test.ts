// A server that restarts while its web UI is open.

import { expect, test } from "vitest"
import { useBrowser } from "../support/web-ui.ts"
import { startOrk } from "../support/ork-process.ts"
import { temporaryFolder } from "../support/ork.ts"

const openPage = useBrowser()
const KEY = "a-key-for-the-tests-of-the-page"

test(
  "the web UI shows a lost connection, reconnects, and shows what happened in the meantime",
  { timeout: 120_000 },
  async () => {
    const cwd = temporaryFolder()
    const first = startOrk(["serve", "--port", "0"], { cwd, env: { ORK_API_KEY: KEY } })
    await first.printed(/is ready at (http:\S+)/)
    const url = /is ready at (http:\S+)/.exec(first.stdout)![1]!
    const call = (path: string, body: object): Promise<Response> =>
      fetch(url + path, {
        method: "POST",
        headers: { "x-api-key": KEY, "content-type": "application/json" },
        body: JSON.stringify(body),
      })
    await call("/workflows", { name: "quick", tasks: { a: { command: "true" } } })

    const { page, context } = await openPage({ signedIn: false })
    await context.request.post(`${url}/ui/sign-in`, { data: { key: KEY } })
    await page.goto(`${url}/ui/runs`)
    await page.getByText("Nothing has run yet").waitFor()
    first.kill("SIGTERM")
    await first.exit
    await page.getByText("The connection to the server is lost").waitFor()

    const second = startOrk(["serve", "--port", new URL(url).port], { cwd, env: { ORK_API_KEY: KEY } })
    await second.printed(/is ready at/)
    expect((await call("/workflows/quick/runs", {})).status).toBe(201)
    await page.getByText("The connection to the server is lost").waitFor({ state: "detached" })
    await page.getByRole("row", { name: /quick#1 .* success/ }).waitFor()
  },
)
