// usage: node bench/web-ui.ts [TASKS]
// The page of a run in Chromium with a real server: the time to open it, frames per second while its timeline scrolls, the time from a
// commit to its appearance, and the memory of the tab after the events of an hour. Needs the build. Prints one JSON line.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { CDPSession, Page } from "playwright-core"
import { launchChromium } from "../test/support/components/chromium.ts"
import { serverAt } from "../test/support/server.ts"
import { print, tempFolder } from "./support.ts"

const [count = "10000"] = process.argv.slice(2)
const TASKS = Number(count)
const KEY = "bench-key-0123456789"
/** Ten tasks per second, each with three events, for an hour. */
const EVENTS = 108_000
const SCROLL_MS = 3000
const CHANGES = 10

const folder = tempFolder()
const server = spawn(join(import.meta.dirname, "../bin/ork"), ["serve", "--port", "0"], {
  cwd: folder.path,
  env: { ...process.env, ORK_API_KEY: KEY, ORK_LOG: "warn" },
  stdio: ["ignore", "pipe", "inherit"],
})
let printed = ""
while (!printed.includes("ready at")) printed += String((await once(server.stdout, "data"))[0])
const url = /http:\/\/127\.0\.0\.1:\d+/.exec(printed)![0]
const api = serverAt(url, KEY)

const open = async (page: Page, id: string): Promise<{ graphMs: number; timelineMs: number }> => {
  await page.goto(`${url}/ui/runs`)
  const link = page.locator(`a[href$="${id}"]`)
  await link.waitFor()
  const whole = `of ${TASKS.toLocaleString("en")} instances ended`
  const graphMs = await timed(page, `document.querySelector('a[href$="${id}"]').click()`, `[data-box="many"]`, whole)
  const timelineMs = await timed(page, `document.querySelector('a[href*="tab=timeline"]').click()`, `[data-row-id="many"]`)
  return { graphMs, timelineMs }
}

/** Measures, in the page, the time from an action until an element is drawn. */
const timed = (page: Page, action: string, selector: string, text = ""): Promise<number> =>
  page.evaluate<number>(`new Promise((resolve) => {
    const began = performance.now()
    const isThere = () => document.querySelector(${JSON.stringify(selector)})?.textContent.includes(${JSON.stringify(text)}) === true
    const look = () => isThere()
      ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)))
      : requestAnimationFrame(look)
    ${action}
    look()
  })`)

const scroll = async (page: Page): Promise<{ fps: number; worstMs: number }> => {
  await page.getByRole("button", { name: "Show the instances of many" }).click()
  await page.locator('[data-row-id="many[0]"]').waitFor()
  return await page.evaluate(`new Promise((resolve) => {
    const plane = document.querySelector(".tl-scroll")
    const frames = []
    const began = performance.now()
    let last = began
    const step = () => {
      const now = performance.now()
      frames.push(now - last)
      last = now
      plane.scrollTop += 180
      if (now - began < ${SCROLL_MS}) requestAnimationFrame(step)
      else resolve({ fps: (1000 * frames.length) / (now - began), worstMs: Math.max(...frames) })
    }
    requestAnimationFrame(step)
  })`)
}

/** Measures the time from the `finished_at` of a task, which ends when a file appears, until the page shows it. */
const changes = async (page: Page): Promise<number[]> => {
  const gate = (i: number): string => join(folder.path, `gate-${i}`)
  const tasks = Array.from({ length: CHANGES }, (_, i) => [
    `t${i}`,
    { command: `until test -e ${gate(i)}; do sleep 0.01; done` },
  ])
  await api.deploy({ name: "gated", tasks: Object.fromEntries(tasks) as object })
  const id = await api.trigger("gated")
  await page.goto(`${url}/ui/runs/${id}`)
  const delays: number[] = []
  for (let i = 0; i < CHANGES; i++) {
    await page.locator(`[data-box="t${i}"]`, { hasText: "running" }).waitFor()
    const seen = page.evaluate<number>(`new Promise((resolve) => {
      const look = () => document.querySelector('[data-box="t${i}"]').textContent.includes("success")
        ? resolve(Date.now())
        : requestAnimationFrame(look)
      look()
    })`)
    writeFileSync(gate(i), "")
    const at = await seen
    const { body } = await api.call("GET", `/runs/${id}/tasks/t${i}`)
    delays.push(at - Date.parse(body["finished_at"] as string))
  }
  return delays.toSorted((a, b) => a - b)
}

/** Replaces the event stream of a run's page by repeated events of its tasks, as many as an hour has. */
const replay = async (page: Page, id: string, session: CDPSession): Promise<{ heapMb: number; tookMs: number }> => {
  let sent = false
  await page.route("**/api/v1/events*", async (route) => {
    if (sent) return await route.abort()
    sent = true
    // Events before the run is loaded are part of the loaded run.
    await page.locator('[data-box="first"]').waitFor()
    await route.fulfill({ contentType: "text/event-stream", body: eventsOf(id) })
  })
  const began = Date.now()
  await page.goto(`${url}/ui/runs/${id}`)
  await page.locator('[data-box="first"]', { hasText: "cancelled" }).waitFor()
  const tookMs = Date.now() - began
  await session.send("HeapProfiler.collectGarbage")
  const { metrics } = await session.send("Performance.getMetrics")
  const heap = metrics.find(({ name }) => name === "JSHeapUsedSize")!.value
  return { heapMb: Math.round(heap / 1e6), tookMs }
}

const eventsOf = (id: string): string => {
  const lines: string[] = []
  const base = Date.now()
  const add = (event: object): void => void lines.push(`id: 1.${lines.length}\nevent: task\ndata: ${JSON.stringify(event)}\n\n`)
  for (let i = 0; i * 3 < EVENTS; i++) {
    const path = String(i % TASKS)
    const attempt = 2 + Math.floor(i / TASKS)
    for (const [j, status] of (["dispatched", "running", "success"] as const).entries()) {
      const at = new Date(base + i * 100 + j).toISOString()
      add({ event: "task", run_id: id, task: "many", index: i % TASKS, path, attempt, status, at })
    }
  }
  const at = new Date(base + EVENTS * 100).toISOString()
  add({ event: "task", run_id: id, task: "first", index: null, path: "", attempt: 9, status: "cancelled", at })
  return lines.join("")
}

/** Resident memory of the largest renderer process, which is the tab. */
const tabMb = async (browser: CDPSession): Promise<number> => {
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo")
  const sizes = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0) / 1000)
  return Math.round(Math.max(...sizes))
}

const browser = await launchChromium()
try {
  await api.deploy({
    name: "big",
    tasks: {
      first: { command: "true" },
      many: { depends_on: ["first"], parallel: TASKS, executor: "sleep", duration: "50ms" },
      last: { depends_on: ["many"], command: "true" },
    },
  })
  const id = await api.trigger("big")
  await api.reaches(id, "success")
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  await context.request.post(`${url}/ui/sign-in`, { data: { key: KEY } })
  const page = await context.newPage()
  const opened = await open(page, id)
  const scrolled = await scroll(page)
  const delays = await changes(page)
  print({
    bench: "page",
    tasks: TASKS,
    open_ms: Math.round(opened.graphMs),
    timeline_ms: Math.round(opened.timelineMs),
    scroll_fps: Math.round(scrolled.fps),
    worst_frame_ms: Math.round(scrolled.worstMs),
    change_ms_median: delays[CHANGES >> 1]!,
    change_ms_worst: delays.at(-1)!,
  })
  const session = await context.newCDPSession(page)
  await session.send("Performance.enable")
  const replayed = await replay(page, id, session)
  const rss = await tabMb(await browser.newBrowserCDPSession())
  print({ bench: "page", events: EVENTS, replay_ms: replayed.tookMs, heap_mb: replayed.heapMb, tab_mb: rss })
} finally {
  await browser.close()
  server.kill("SIGTERM")
  await once(server, "exit")
  folder.remove()
}
