// Opens every page of the web UI in Chromium while all texts that users choose are hostile, and reports what ran or was inserted.

import type { Browser } from "playwright-core"

/** A server with hostile texts, and a key that may see them. */
export interface HostileServer {
  url: string
  key: string
  call(
    method: string,
    path: string,
    options: { body: unknown },
  ): Promise<{ status: number; text: string; body: Record<string, unknown> }>
}

/** Each sets `globalThis.owned`, leaves the page or inserts an element if it becomes markup or code. */
const HOSTILE = [
  '<img src=x class=owned onerror="globalThis.owned=1">',
  '"><script class=owned>globalThis.owned=1</script>',
  "'><svg class=owned onload=globalThis.owned=1>",
  "javascript:globalThis.owned=1",
  "</title></textarea></style><b class=owned>",
  "{{constructor.constructor('globalThis.owned=1')()}}",
  '<iframe class=owned srcdoc="<script>parent.owned=1</script>">',
  "<a class=owned href=javascript:globalThis.owned=1>x</a>",
  "\u001B]8;;javascript:globalThis.owned=1\u0007link\u001B]8;;\u0007",
  "data:text/html,<script>globalThis.owned=1</script>",
  "<form class=owned action=https://evil.example><button>x",
  "<base class=owned href=https://evil.example/>",
  "<meta class=owned http-equiv=refresh content='0;url=https://evil.example'>",
  "\u202Etxt.exe\u2066\u0000",
  "__proto__",
]

const ALL = HOSTILE.join(" ")
const RUN_TABS = ["graph", "timeline", "grid", "logs", "compare"]
const WORKFLOW_TABS = ["graph", "runs", "versions", "schedules", "params", "source"]
const SYSTEM_TABS = ["charts", "audit", "keys"]

/** Fills a server with hostile texts wherever the API accepts a text. Returns the paths of the pages that show them. */
const fill = async (server: HostileServer): Promise<string[]> => {
  const must = async (method: string, path: string, body: unknown): Promise<Record<string, unknown>> => {
    const reply = await server.call(method, path, { body })
    if (reply.status >= 300) throw new Error(`${method} ${path} replied ${reply.status}: ${reply.text}`)
    return reply.body
  }
  const escaped = ALL.replaceAll("\u0000", "")
  const print = ["printf", "%s\\n", escaped]
  await must("POST", "/workflows", {
    name: "hostile",
    description: escaped,
    tags: HOSTILE.map((text) => text.replaceAll("\u0000", "").slice(0, 60)),
    params: {
      v: { type: "string", default: escaped, description: escaped },
      w: { enum: HOSTILE, default: HOSTILE[0], description: escaped },
    },
    schedule: [{ cron: "0 0 1 1 *", params: { v: escaped } }],
    env: { TEXT: escaped },
    tasks: {
      prints: { command: print },
      returns: {
        command: ["sh", "-c", 'printf %s "$1" > "$ORK_OUTPUT"', "sh", JSON.stringify({ [escaped]: escaped, list: HOSTILE })],
      },
      fails: { command: ["sh", "-c", 'printf "%s" "$1" >&2; exit 3', "sh", escaped] },
      many: {
        foreach: HOSTILE.map((text) => text.replaceAll("\u0000", "")),
        label: "${{ item }}",
        command: ["printf", "%s", "--", "${{ item }}"],
      },
      asks: { executor: "approval", message: escaped, depends_on: ["prints"] },
    },
  })
  const first = await must("POST", "/workflows/hostile/runs", {
    params: { v: escaped },
    idempotency_key: escaped.slice(0, 100),
  })
  const second = await must("POST", "/workflows/hostile/runs", {})
  const job = await must("POST", "/jobs", { name: "hostile", queue: "hostile", payload: { [escaped]: escaped } })
  await server.call("POST", "/keys", { body: { name: escaped.slice(0, 100), scopes: ["read"] } })
  const [id, other] = [String(first["id"]), String(second["id"])]
  const encoded = HOSTILE.map(encodeURIComponent)
  for (let i = 0; i < 200; i++) {
    const { body } = await server.call("GET", `/runs/${id}`, { body: undefined })
    const tasks = body["tasks"] as { [status: string]: number }
    if ((tasks["pending"] ?? 0) + (tasks["dispatched"] ?? 0) === 0 && (tasks["running"] ?? 0) <= 1) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await server.call("POST", `/runs/${id}/tasks/asks/reject`, { body: { comment: escaped } })
  return [
    "/workflows",
    ...WORKFLOW_TABS.map((tab) => `/workflows/hostile?tab=${tab}`),
    "/workflows/hostile/run",
    `/workflows/hostile/run?from=${id}`,
    "/runs",
    ...RUN_TABS.map((tab) => `/runs/${id}?tab=${tab}&with=${other}`),
    ...["prints", "returns", "fails", "many", "asks"].map((task) => `/runs/${id}?task=${task}`),
    `/runs/${id}?tab=logs&task=prints`,
    "/jobs",
    "/jobs/new",
    `/jobs/${String(job["id"])}`,
    "/schedules",
    "/schedules?view=week",
    "/workers",
    ...SYSTEM_TABS.map((tab) => `/system?tab=${tab}`),
    // Hostile texts in the address itself.
    ...encoded.slice(0, 6).map((text) => `/workflows?search=${text}&tag=${text}`),
    ...encoded.slice(0, 3).map((text) => `/workflows/${text}`),
    ...encoded.slice(0, 3).map((text) => `/runs/${id}?tab=${text}&task=${text}&path=${text}&attempt=${text}`),
    ...encoded.slice(0, 3).map((text) => `/runs?workflow=${text}&status=${text}&after=${text}`),
    ...encoded.slice(3, 6).map((text) => `/welcome?next=${text}&problem=${text}`),
    `/welcome?next=${encodeURIComponent("//evil.example/")}`,
    `/welcome?next=${encodeURIComponent("https://evil.example/")}`,
  ]
}

/** Runs in the page. */
const INSPECT = `({
  owned: globalThis.owned !== undefined,
  inserted: [...document.querySelectorAll(".owned")].map((element) => element.outerHTML.slice(0, 200)),
  links: [...document.querySelectorAll("[href],[src],[action]")]
    .map((element) => String(element.getAttribute("href") ?? element.getAttribute("src") ?? element.getAttribute("action")))
    .filter((address) => /^\\s*(javascript|data:text|vbscript)/i.test(address) || /evil\\.example/.test(address)),
})`

/** Returns what the hostile texts achieved, one line per page, and the number of pages. */
export const openHostilePages = async (
  server: HostileServer,
  browser: Browser,
): Promise<{ pages: number; achieved: string[] }> => {
  const paths = await fill(server)
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  const achieved: string[] = []
  try {
    const signedIn = await context.request.post(`${server.url}/ui/sign-in`, { data: { key: server.key } })
    if (signedIn.status() !== 204) throw new Error(`could not sign in: ${signedIn.status()}`)
    const page = await context.newPage()
    let at = ""
    page.on("dialog", (dialog) => {
      achieved.push(`${at}: a dialog was opened`)
      void dialog.dismiss()
    })
    page.on("request", (request) => {
      if (!request.url().startsWith(server.url) && !/^(data|blob|about):/.test(request.url()))
        achieved.push(`${at}: requested ${request.url()}`)
    })
    for (at of paths) {
      await page.goto(`${server.url}/ui${at}`, { waitUntil: "networkidle", timeout: 15_000 }).catch(() => {})
      await page.waitForTimeout(50)
      const { owned, inserted, links } = await page.evaluate<{ owned: boolean; inserted: string[]; links: string[] }>(INSPECT)
      if (owned) achieved.push(`${at}: a text ran as code`)
      if (inserted.length > 0) achieved.push(`${at}: a text became markup: ${inserted[0]}`)
      if (links.length > 0) achieved.push(`${at}: a text became an address: ${links[0]}`)
      if (!page.url().startsWith(server.url)) achieved.push(`${at}: led to ${page.url()}`)
    }
  } finally {
    await context.close()
  }
  return { pages: paths.length, achieved }
}
