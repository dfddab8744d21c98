// Malformed, forged and replayed requests.

import { createHmac } from "node:crypto"
import { connect } from "node:net"
import { gzipSync } from "node:zlib"
import type { Attack } from "../attack.ts"
import { PLANTED, type Target } from "../target.ts"

/** Sends bytes over a connection and returns what comes back within a second. */
const raw = (target: Target, text: string): Promise<string> =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(target.url)
    const socket = connect(Number(port), hostname)
    let reply = ""
    const end = (): void => {
      socket.destroy()
      resolve(reply)
    }
    socket.on("data", (data) => (reply += data.toString()))
    socket.on("error", end)
    socket.on("close", end)
    setTimeout(end, 1000)
    socket.write(text)
  })

const SMUGGLED = (key: string): { [name: string]: string } => ({
  "both lengths": `POST /ui/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: ${key}\r\n\r\n`,
  "two lengths": `POST /ui/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 0\r\nContent-Length: 60\r\n\r\nGET /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: ${key}\r\n\r\n`,
  "an obfuscated encoding": `POST /ui/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: ${key}\r\n\r\n`,
  "a bare line feed": `GET /health HTTP/1.1\nHost: 127.0.0.1\nTransfer-Encoding: chunked\nContent-Length: 5\n\n0\n\nGET /keys HTTP/1.1\nHost: 127.0.0.1\nX-Api-Key: ${key}\n\n`,
})

const sign = (name: string, body: string, secret: string, at = Math.floor(Date.now() / 1000)): Record<string, string> => ({
  "x-ork-timestamp": String(at),
  "x-ork-signature": `sha256=${createHmac("sha256", secret).update(`${at}.${name}.${body}`).digest("hex")}`,
})

const deployHooks = async (target: Target): Promise<void> => {
  for (const name of ["hook-a", "hook-b"]) {
    const rejected = await target.deploy({ name, webhook: { secret: "HOOK" }, tasks: { a: { command: "true" } } })
    if (rejected !== null) throw new Error(rejected)
  }
}

const PRIVATE = [
  "http://127.0.0.1:1/",
  "http://localhost:1/",
  "http://[::1]:1/",
  "http://[::ffff:127.0.0.2]:1/",
  "http://[::ffff:7f00:2]:1/",
  "http://2130706434:1/",
  "http://0x7f000002:1/",
  "http://0177.0.0.2:1/",
  "http://127.2:1/",
  "http://0.0.0.0:1/",
  "http://0:1/",
  "http://169.254.169.254/latest/meta-data/",
  "http://[fd00:ec2::254]/",
  "http://10.0.0.1/",
  "http://172.16.0.1/",
  "http://192.168.0.1/",
  "http://100.64.0.1/",
  "http://[fe80::1]/",
  "http://[fc00::1]/",
  "http://[64:ff9b::7f00:2]/",
  "http://[2002:7f00:0002::]/",
  "http://224.0.0.1/",
  "http://255.255.255.255/",
  "http://127.0.0.2.nip.io/",
  "http://ⓛocalhost:1/",
  "http://127。0。0。2:1/",
]

const SQL = [
  "'",
  '"',
  "';--",
  "1 OR 1=1",
  "' OR '1'='1",
  "x'); DROP TABLE runs;--",
  "%00",
  "\\",
  "$1",
  "?1",
  "{}",
  "[]",
  "null",
  "🐘",
  "\u0000",
]

export const requestAttacks: Attack[] = [
  {
    name: "requests: one request hides another",
    quick: true,
    async run(target) {
      for (const [name, text] of Object.entries(SMUGGLED(target.key))) {
        const reply = await raw(target, text)
        if (reply.includes('"items"') || reply.includes('"scopes"')) return `${name}: the hidden request was answered`
      }
      return null
    },
  },
  {
    name: "requests: a Host header of another site",
    quick: true,
    async run(target) {
      const reply = await raw(
        target,
        `GET /runs HTTP/1.1\r\nHost: evil.example\r\nX-Api-Key: ${target.key}\r\nConnection: close\r\n\r\n`,
      )
      return reply.startsWith("HTTP/1.1 200") ? "a request for evil.example was answered" : null
    },
  },
  {
    name: "requests: a webhook's signature is used for another webhook",
    async run(target) {
      await deployHooks(target)
      const body = "{}"
      const good = await target.call("POST", "/hooks/hook-a", { key: null, body, headers: sign("hook-a", body, PLANTED.HOOK) })
      if (good.status !== 201) throw new Error(good.text)
      const { status } = await target.call("POST", "/hooks/hook-b", {
        key: null,
        body,
        headers: sign("hook-a", body, PLANTED.HOOK),
      })
      return status < 300 ? "a signature for hook-a triggered hook-b" : null
    },
  },
  {
    name: "requests: a webhook's message is replayed after its run was deleted",
    async run(target) {
      await deployHooks(target)
      const body = "{ }"
      const headers = sign("hook-a", body, PLANTED.HOOK)
      const first = await target.call("POST", "/hooks/hook-a", { key: null, body, headers })
      const id = String(first.body["id"])
      for (let i = 0; i < 200; i++) if ((await target.call("DELETE", `/runs/${id}`)).status < 300) break
      const { status } = await target.call("POST", "/hooks/hook-a", { key: null, body, headers })
      return status < 300 ? "the message created a second run" : null
    },
  },
  {
    name: "requests: an unknown webhook differs from a wrong signature",
    async run(target) {
      await deployHooks(target)
      const send = (name: string) =>
        target.call("POST", `/hooks/${name}`, { key: null, body: "{}", headers: sign(name, "{}", "wrong") })
      const [known, unknown] = [await send("hook-a"), await send("no-such-hook")]
      const text = (reply: { status: number; text: string }): string =>
        `${reply.status} ${reply.text.replaceAll(/"(request_id|id)":"[^"]*"/g, "")}`
      return text(known) === text(unknown) ? null : "the responses differ"
    },
  },
  {
    name: "requests: tasks reach private addresses in 26 spellings",
    async run(target) {
      const tasks = Object.fromEntries(
        PRIVATE.slice(3).map((url, i) => [`t${i}`, { executor: "http", url, timeout: "5s", start_timeout: "5s" }]),
      )
      for (const [task, fields] of Object.entries(tasks)) {
        const name = `private-${task}`
        if ((await target.deploy({ name, tasks: { a: fields } })) !== null) continue
        const run = await target.run(name)
        if (!("id" in run) || run.status === "success") return `${fields.url} was reached`
      }
      return null
    },
  },
  {
    name: "requests: hostile texts in every place that reaches the database",
    quick: true,
    async run(target) {
      for (const text of SQL) {
        const encoded = encodeURIComponent(text)
        const paths = [
          `/runs/${encoded}`,
          `/workflows/${encoded}`,
          `/runs?workflow=${encoded}`,
          `/runs?cursor=${encoded}`,
          `/jobs?queue=${encoded}`,
          `/workflows?search=${encoded}`,
          `/queues/${encoded}`,
        ]
        for (const path of paths) {
          const { status } = await target.call("GET", path)
          if (status >= 500) return `GET ${path} replied ${status}`
        }
      }
      const { status } = await target.call("GET", "/runs")
      return status === 200 ? null : "the runs are gone"
    },
  },
  {
    name: "requests: a compressed body of 1 GB",
    async run(target) {
      const bomb = gzipSync(Buffer.alloc(256 << 20))
      const response = await fetch(`${target.url}/workflows`, {
        method: "POST",
        headers: { "x-api-key": target.key, "content-type": "application/json", "content-encoding": "gzip" },
        body: bomb,
      })
      return response.status >= 400 && response.status < 500 ? null : `it got ${response.status}`
    },
  },
  {
    name: "requests: a task's log controls the terminal of a reader",
    async run(target) {
      const command = "printf '\\033]52;c;cm0gLXJmIC8=\\007\\033[2J\\033]0;owned\\007visible\\n'"
      if ((await target.deploy({ name: "escapes", tasks: { a: { command } } })) !== null) return null
      const run = await target.run("escapes")
      if (!("id" in run)) return null
      const { stdout } = await target.ork(["logs", run.id, "a"])
      if (!stdout.includes("visible")) throw new Error(`ork logs printed ${JSON.stringify(stdout)}`)
      return stdout.includes("\u001B]") || stdout.includes("\u001B[2J")
        ? "ork logs printed an escape sequence of the task"
        : null
    },
  },
  {
    name: "requests: a server listens for other machines without TLS",
    async run(target) {
      const { code } = await target.ork(["serve", "--host", "0.0.0.0", "--port", "0"], { cwd: target.canaries })
      return code === 0 || code === null ? "the server started" : null
    },
  },
  ...(
    [
      ["privileged", { executor: "docker", image: "busybox", command: "true", privileged: true }],
      [
        "the Docker socket",
        { executor: "docker", image: "busybox", command: "true", volumes: ["/var/run/docker.sock:/var/run/docker.sock"] },
      ],
      ["a host path", { executor: "docker", image: "busybox", command: "true", volumes: ["/etc:/host"] }],
      ["kube-system", { executor: "kubernetes", image: "busybox", command: "true", namespace: "kube-system" }],
    ] as const
  ).map(([name, task]): Attack => ({
    name: `requests: a workflow asks for ${name}`,
    quick: true,
    async run(target) {
      return (await target.deploy({ name: "asking", tasks: { a: task } })) === null ? "the server accepted it" : null
    },
  })),
]
