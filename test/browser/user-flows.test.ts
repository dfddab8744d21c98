// What users do in the web UI, in a real browser against the built server.

import { expect, test } from "vitest"
import { probe } from "../support/server.ts"
import { axeViolations, signIn, useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const GREET = {
  name: "greet",
  description: "Says hello",
  tags: ["demo"],
  params: {
    who: { type: "string", required: true, description: "Whom to greet" },
    times: { type: "integer", default: 1, minimum: 1, maximum: 3 },
    tone: { type: "string", enum: ["kind", "loud"], default: "kind" },
    options: { type: "object", default: { a: 1 } },
  },
  schedule: { cron: "0 2 * * *", params: { who: "all" } },
  tasks: { hello: { command: "echo hello ${{ params.who }}" } },
}
const BROKEN = { name: "broken", tasks: { fail: { command: "exit 3" } } }
const SLOW = { name: "slow", tasks: { wait: { command: "sleep 600" } } }

test("the link that the server prints signs in once, and asks for a key the second time", async () => {
  const { server, page, go, consoleErrors } = await openPage({ signedIn: false })
  const link = /(http:\S+sign-in\?token=\w+)/.exec(server.process.stdout)![1]!
  await page.goto(link)
  await page.getByRole("heading", { name: "Workflows", level: 1 }).waitFor()
  expect(new URL(page.url()).pathname).toBe("/ui/workflows")
  await page.getByRole("button", { name: "Sign out" }).click()
  await page.getByRole("heading", { name: "Sign in to Ork" }).waitFor()
  await page.goto(link)
  await page.getByText("This link has been used or is too old").waitFor()
  await go("/runs")
  await page.getByRole("heading", { name: "Sign in to Ork" }).waitFor()
  // The browser logs the rejected request in its console.
  expect(consoleErrors.filter((each) => !each.includes("401"))).toEqual([])
})

test("a key signs in and returns to the requested page, and a wrong key is reported", async () => {
  const { server, page, go } = await openPage({ signedIn: false })
  await go("/jobs?queue=mail")
  await page.getByLabel("API key").fill("not-a-key-of-this-server")
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.getByText("The API key is unknown").waitFor()
  await page.getByLabel("API key").fill(server.key)
  await page.getByLabel("API key").press("Enter")
  await page.getByRole("heading", { name: "Jobs", level: 1 }).waitFor()
  expect(page.url()).toMatch(/\/ui\/jobs\?queue=mail$/)
})

test("a read-only key sees no buttons that change anything", async () => {
  const { server, page, context, go } = await openPage({ signedIn: false })
  await server.deploy(GREET)
  const { body } = await server.call("POST", "/keys", { name: "guest", scopes: ["read"] })
  await signIn(context, server, body["key"] as string)
  await go("/workflows")
  await page.getByRole("link", { name: "greet", exact: true }).waitFor()
  expect(await page.getByRole("link", { name: "Run greet" }).count()).toBe(0)
  expect(await page.getByRole("switch", { name: "Schedule of greet" }).getAttribute("aria-disabled")).toBe("true")
  await go("/workflows/greet/run")
  await page.getByText("This key is read-only").waitFor()
  await go("/system")
  await page.getByText("Tasks ready").waitFor()
  expect(await page.getByRole("link", { name: "Keys" }).count()).toBe(0)
})

test("a key that is limited to some workflows in the dialog sees only these", async () => {
  const { server, page, context, go, consoleErrors } = await openPage()
  await server.deploy(GREET)
  await server.deploy({ ...BROKEN, name: "demo-broken", tags: ["demo"] })
  await server.deploy({ ...SLOW, name: "demo-slow" })
  for (const name of ["demo-broken", "greet"]) await server.trigger(name, { params: name === "greet" ? { who: "me" } : {} })
  await go("/system?tab=keys")
  await page.getByRole("button", { name: "New key" }).click()
  await page.getByLabel("Name").fill("demo team")
  await page.getByLabel("Only for workflows").fill("demo-*, other")
  await page.getByLabel("Only for tags").fill("demo")
  expect(await axeViolations(page)).toEqual([])
  await page.getByRole("button", { name: "Make the key" }).click()
  const key = await page.getByLabel("The key").innerText()
  await page.getByRole("button", { name: "Done" }).click()
  await page.getByRole("cell", { name: "demo-*, other, tag demo" }).waitFor()
  await context.clearCookies()
  await signIn(context, server, key.trim())
  await go("/workflows")
  await page.getByRole("link", { name: "demo-broken", exact: true }).waitFor()
  expect(await page.getByText("greet").count()).toBe(0)
  expect(await page.getByText("demo-slow").count()).toBe(0)
  await go("/runs")
  await page
    .getByRole("link", { name: /demo-broken/ })
    .first()
    .waitFor()
  expect(await page.getByText("greet").count()).toBe(0)
  await go("/workflows/greet")
  await page.getByText("there is no workflow greet").waitFor()
  expect(consoleErrors.filter((each) => !each.includes("404"))).toEqual([])
})

test("the form starts a run, rejects invalid params, and stays in sync with its JSON", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy(GREET)
  await go("/workflows")
  await page.getByRole("link", { name: "Run greet" }).click()
  const editor = page.getByLabel("Params as JSON")
  await page.getByLabel("times").fill("7")
  await page.getByRole("button", { name: "Run", exact: true }).click()
  await page.getByText("is required").waitFor()
  await page.getByText("must be at most 3").waitFor()
  await editor.fill('{ "who": "Ada", "tmes": 2 }')
  await page.getByText("There is no param tmes").waitFor()
  await editor.fill('{ "who": "Ada", "times": 2, "tone": "loud", "options": { "b": [1] } }')
  expect(await page.getByLabel("who").inputValue()).toBe("Ada")
  await page.getByLabel("tone").selectOption("kind")
  expect(JSON.parse(await editor.inputValue())).toEqual({ who: "Ada", times: 2, tone: "kind", options: { b: [1] } })
  await page.getByRole("button", { name: "Run", exact: true }).click()
  await page.waitForURL(/\/ui\/runs\/[0-9a-f-]{36}/)
  const id = /runs\/([0-9a-f-]{36})/.exec(page.url())![1]!
  const run = await server.reaches(id, "success")
  expect(run["params"]).toEqual({ who: "Ada", times: 2, tone: "kind", options: { b: [1] } })

  await page.getByRole("link", { name: /^Run again/ }).click()
  await page.getByText("With the params of run").waitFor()
  expect(await page.getByLabel("who").inputValue()).toBe("Ada")
  expect(consoleErrors).toEqual([])
})

test("runs appear and finish without a reload, filters are in the URL, and several runs are cancelled at once", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await Promise.all([GREET, BROKEN, SLOW].map((each) => server.deploy(each)))
  await go("/runs")
  await page.getByText("Nothing has run yet").waitFor()
  await server.trigger("broken")
  await page.getByRole("row", { name: /broken#1 .* failed/ }).waitFor()
  await server.trigger("slow")
  await server.trigger("slow")
  await page
    .getByRole("row", { name: /slow#\d .* running/ })
    .nth(1)
    .waitFor()

  await page.getByLabel("Status").selectOption("running")
  await page.waitForURL(/status=running/)
  await probe(async () => ((await page.getByRole("row").count()) === 3 ? true : null))
  await page.getByRole("checkbox", { name: "Select all runs shown" }).check()
  await page.getByRole("region", { name: "Chosen runs" }).getByRole("button", { name: "Cancel" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 2 runs" }).click()
  await page.getByText("2 runs being cancelled").waitFor()
  await page.getByText("No run matches these filters").waitFor()
  await page.getByRole("link", { name: "Show all runs" }).click()
  await page
    .getByRole("row", { name: /slow#\d .* cancelled/ })
    .nth(1)
    .waitFor()
  expect(consoleErrors).toEqual([])
})

test("a job is submitted with a form and shows its result and its log", async () => {
  const { page, go, consoleErrors } = await openPage()
  await go("/jobs")
  await page.getByRole("link", { name: "Submit a job" }).click()
  await page.getByRole("button", { name: "Submit" }).click()
  await page.getByText("must be 1 to 64 letters, digits and underscores").waitFor()
  await page.getByLabel("Name").fill("Count")
  await page.getByLabel("Queue").fill("sums")
  await page.getByLabel("Payload").fill('{"n": 2}')
  await page.getByLabel("Command").fill("echo counting; echo '{\"sum\": 4}'")
  await page.getByRole("button", { name: "Submit" }).click()
  await page.getByRole("heading", { name: "Count", level: 1 }).waitFor()
  await page.getByText("completed", { exact: true }).waitFor()
  await page.getByRole("region", { name: "Result" }).getByText('"sum": 4').waitFor()
  await page.getByRole("region", { name: "Log" }).getByText("counting").waitFor()
  await go("/jobs?queue=sums&status=COMPLETED")
  await page.getByRole("link", { name: "Count" }).waitFor()
  expect(consoleErrors).toEqual([])
})

test("a schedule is paused and resumed", async () => {
  const { server, page, go } = await openPage()
  await server.deploy(GREET)
  await go("/schedules")
  const active = page.getByRole("switch", { name: "Schedule of greet" })
  await active.click()
  await page.getByRole("row", { name: /greet/ }).getByText("paused").waitFor()
  expect((await server.call("GET", "/workflows/greet")).body["paused"]).toBe(true)
  await active.click()
  await page.getByText("The schedule of greet goes on").waitFor()
  expect((await server.call("GET", "/workflows/greet")).body["paused"]).toBe(false)
})

test("every page can be reached by keyboard", async () => {
  const { server, page, go } = await openPage()
  await Promise.all([GREET, BROKEN].map((each) => server.deploy(each)))
  await go("/workflows")
  await page.getByRole("link", { name: "greet", exact: true }).waitFor()
  await page.keyboard.press("Tab")
  expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content")
  await page.keyboard.press("Enter")
  expect(await page.evaluate("document.activeElement.id")).toBe("content")
  await page.keyboard.press("j")
  await page.keyboard.press("j")
  await page.keyboard.press("k")
  expect(await page.evaluate("document.activeElement.textContent")).toBe("broken")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "broken", level: 1 }).waitFor()
  await page.keyboard.press("?")
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" })
  await help.getByText("Go to jobs").waitFor()
  await page.keyboard.press("Escape")
  await help.waitFor({ state: "hidden" })
  for (const [keys, heading] of [
    ["gr", "Runs"],
    ["gj", "Jobs"],
    ["gs", "Schedules"],
    ["gw", "Workflows"],
  ] as const) {
    for (const key of keys) await page.keyboard.press(key)
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor()
  }
  await page.keyboard.press("/")
  await page.keyboard.type("gre")
  await page.waitForURL(/search=gre/)
  await page.getByRole("link", { name: "broken", exact: true }).waitFor({ state: "hidden" })
  await page.keyboard.press("Escape")
  expect(await page.evaluate("document.activeElement.tagName")).toBe("BODY")
})
