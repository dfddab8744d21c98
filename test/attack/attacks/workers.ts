// Hostile workers (the server itself serves the queue `default` only): one worker acts for another, serves queues that its key is not
// bound to, or reads what a worker may not read; and a task that reads the key of its worker.

import { spawn } from "node:child_process"
import { chownSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { AS_NOBODY, NOBODY } from "../../support/program-for-nobody.ts"
import type { Attack } from "../attack.ts"
import { pause, type Reply, type Target } from "../target.ts"

interface Assignment {
  row: number
  attempt_id: string
  token: string
}

interface Registered {
  id: string
  token: string
}

const register = async (target: Target, key: string, queues: string[]): Promise<Registered> => {
  const reply = await target.call("POST", "/workers", {
    key,
    body: { name: "attacker", queues, capacity: 4, version: "0" },
  })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body as unknown as Registered
}

const claim = async (target: Target, worker: Registered, id = worker.id): Promise<Reply> =>
  await target.call("POST", `/workers/${id}/claim`, { key: worker.token, body: { free: 1, wait_ms: 5000, known: [] } })

/** Registers two workers with keys of their own. The first claims a task. */
const twoWorkers = async (target: Target) => {
  const [mine, theirs] = [await target.newKey({ scopes: ["worker"] }), await target.newKey({ scopes: ["worker"] })]
  const victim = await register(target, theirs.key, ["isolated"])
  const attacker = await register(target, mine.key, ["elsewhere"])
  const task = { command: "true", queue: "isolated", input: { value: "private" } }
  const rejected = await target.deploy({ name: "isolated", tasks: { a: task, b: { ...task, depends_on: ["a"] } } })
  if (rejected !== null) throw new Error(rejected)
  const created = await target.call("POST", "/workflows/isolated/runs", { body: {} })
  const [assignment] = (await claim(target, victim)).body["assignments"] as Assignment[]
  if (assignment === undefined) throw new Error("the task was not claimed")
  const run = String(created.body["id"])
  const end = async (): Promise<void> => {
    await target.call("POST", `/runs/${run}/cancel`, { body: {} })
    for (const { id } of [mine, theirs]) await target.call("DELETE", `/keys/${id}`)
  }
  return { attacker, victim, assignment, run, end }
}

const ended = (fence: Assignment) => ({
  now: Date.now(),
  entries: [
    {
      row: fence.row,
      attempt_id: fence.attempt_id,
      token: fence.token,
      kind: "ended",
      result: { state: "success", started_at: 1, finished_at: 2, output: { inline: "forged" } },
    },
  ],
})

export const workerAttacks: Attack[] = [
  {
    name: "workers: a worker acts for another one",
    quick: true,
    async run(target) {
      const { attacker, victim, assignment, run, end } = await twoWorkers(target)
      try {
        const { row, attempt_id, token } = assignment
        const as = (method: string, path: string, body?: unknown, headers = {}) =>
          target.call(method, path, { key: attacker.token, ...(body !== undefined && { body }), headers })
        const fence = `row=${row}&attempt_id=${attempt_id}`
        const stolen = { "x-ork-attempt-token": token, "content-type": "application/octet-stream" }
        const requests: [string, Promise<Reply>][] = [
          ["claim", claim(target, attacker, victim.id)],
          ["heartbeat", as("POST", `/workers/${victim.id}/heartbeat`, {})],
          ["report", as("POST", `/workers/${victim.id}/report`, ended(assignment))],
          ["report in its own name", as("POST", `/workers/${attacker.id}/report`, ended(assignment))],
          ["report with a guessed token", as("POST", `/workers/${attacker.id}/report`, ended({ ...assignment, token: "x" }))],
          ["output", as("POST", `/workers/${victim.id}/outputs?${fence}`, '"forged"', stolen)],
          ["output in its own name", as("POST", `/workers/${attacker.id}/outputs?${fence}`, '"forged"', stolen)],
          ["upstream", as("GET", `/workers/${attacker.id}/upstream?${fence}&task=a`, undefined, stolen)],
          ["removal", as("DELETE", `/workers/${victim.id}`)],
        ]
        for (const [what, reply] of requests) if ((await reply).status < 300) return `${what}: ${(await reply).text}`
        const { body } = await target.call("GET", `/runs/${run}/tasks/a`)
        return body["status"] === "success" || JSON.stringify(body).includes("forged") ? "the result was forged" : null
      } finally {
        await end()
      }
    },
  },
  {
    name: "workers: a worker reads and changes what only users may",
    quick: true,
    async run(target) {
      const { attacker, victim, run, end } = await twoWorkers(target)
      try {
        const paths = [
          "/runs",
          `/runs/${run}`,
          `/runs/${run}/tasks/a`,
          "/workflows",
          "/workers",
          "/keys",
          "/audit",
          "/events",
          "/metrics",
        ]
        for (const path of paths) {
          const { status } = await target.call("GET", path, { key: attacker.token })
          if (status < 300) return `GET ${path} replied ${status}`
        }
        const registered = await target.call("POST", "/workers", {
          key: attacker.token,
          body: { name: "w", queues: ["isolated"], capacity: 1, version: "0" },
        })
        if (registered.status < 300) return "the token of a worker registered a worker"
        return victim.token === attacker.token ? "both workers have the same token" : null
      } finally {
        await end()
      }
    },
  },
  {
    name: "workers: a key serves a queue that it is not bound to",
    quick: true,
    async run(target) {
      const { id, key } = await target.newKey({ scopes: ["worker"], queues: ["mine"] })
      const body = (fields: object) => ({ name: "w", queues: ["mine"], capacity: 1, version: "0", ...fields })
      const attempts = {
        "another queue": { queues: ["foreign"] },
        "another queue besides": { queues: ["mine", "foreign"] },
        "all queues": { queues: ["*"] },
        "no queue": { queues: [] },
        "handlers of another queue": { handlers: ["foreign"] },
        "a queue in another case": { queues: ["MINE"] },
      }
      await target.deploy({ name: "foreign", tasks: { a: { command: "true", queue: "foreign" } } })
      const created = await target.call("POST", "/workflows/foreign/runs", { body: {} })
      for (const [how, fields] of Object.entries(attempts)) {
        const reply = await target.call("POST", "/workers", { key, body: body(fields) })
        if (reply.status >= 300) continue
        // A worker without queues may be registered, if it gets no tasks.
        const worker = reply.body as unknown as Registered
        const claimed = await target.call("POST", `/workers/${worker.id}/claim`, {
          key: worker.token,
          body: { free: 1, wait_ms: 500, known: [] },
        })
        if (!Array.isArray(claimed.body["assignments"]) || claimed.body["assignments"].length > 0) return `${how} was served`
      }
      await target.call("POST", `/runs/${String(created.body["id"])}/cancel`, { body: {} })
      await target.call("DELETE", `/keys/${id}`)
      return null
    },
  },
  {
    name: "workers: a flood of requests makes workers miss their heartbeats",
    flood: true,
    async run(target) {
      const { victim, assignment, run, end } = await twoWorkers(target)
      let isFlooding = true
      const flood = async (): Promise<void> => {
        while (isFlooding) {
          const body = `{"a":[${"1".repeat(1_000_000)}]}`
          await target.call("POST", "/ui/sign-in", { key: null, body }).catch(() => {})
        }
      }
      const floods = Array.from({ length: 45 }, flood)
      try {
        for (const until = Date.now() + 20_000; Date.now() < until; await pause(2500)) {
          const beat = await target.call("POST", `/workers/${victim.id}/heartbeat`, { key: victim.token, body: {} })
          if (beat.status !== 200) return `a heartbeat got ${beat.status}: ${beat.text}`
        }
        const { body } = await target.call("GET", `/runs/${run}/tasks/a`)
        return body["attempt"] === 1 && assignment.attempt_id !== "" ? null : "the task was given to another worker"
      } finally {
        isFlooding = false
        await Promise.all(floods)
        await end()
      }
    },
  },
  {
    name: "workers: a task reads the key of its worker",
    async run(target) {
      const { id, key } = await target.newKey({ scopes: ["worker"] })
      const folder = join(target.folder, "worker")
      mkdirSync(folder, { recursive: true })
      if (target.options.asNobody) chownSync(folder, NOBODY, NOBODY)
      const argv = [target.options.program, "worker", "--server", target.url, "--queue", "remote"]
      const command = target.options.asNobody ? [...AS_NOBODY, ...argv] : argv
      const env = { PATH: process.env.PATH!, HOME: folder, ORK_API_KEY: key }
      const child = spawn(command[0]!, command.slice(1), { cwd: folder, env, stdio: "ignore", detached: true })
      try {
        const script = `cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '
          cat ${folder}/.ork/* ${folder}/.ork/*/* 2>/dev/null; echo done-reading; true`
        const rejected = await target.deploy({
          name: "remote",
          tasks: { a: { command: script, queue: "remote", timeout: "20s" } },
        })
        if (rejected !== null) throw new Error(rejected)
        const run = await target.run("remote")
        if (!("id" in run)) throw new Error(run.rejected)
        const shown = await target.everythingOf(run.id, "a")
        if (!shown.includes("done-reading")) throw new Error(`the task did not run: ${shown}`)
        return shown.includes(key) ? "the task read the key" : null
      } finally {
        process.kill(-child.pid!, "SIGKILL")
        await target.call("DELETE", `/keys/${id}`)
      }
    },
  },
]
