// Malformed, forged and replayed requests.

import { createHmac, randomUUID } from "node:crypto"
import { createServer } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import type { Attack } from "../attack.ts"
import { onFreshServer } from "../fresh-server.ts"
import { pause, PLANTED, type Target } from "../target.ts"

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

/** Requests to an open route that end in the request of `hidden`, which a server must not answer. */
const SMUGGLED = (hidden: string): { [name: string]: string } => {
  const post = (...lines: string[]): string => ["POST /ui/sign-in HTTP/1.1", "Host: 127.0.0.1", ...lines, "", ""].join("\r\n")
  const json = "Content-Type: application/json"
  const length = `Content-Length: ${hidden.length}`
  const chunked = "Transfer-Encoding: chunked"
  const empty = "0\r\n\r\n"
  return {
    "length and encoding": `${post(json, "Content-Length: 4", chunked)}${empty}${hidden}`,
    "encoding and length": `${post(json, chunked, "Content-Length: 4")}${empty}${hidden}`,
    "two lengths": `${post(json, "Content-Length: 0", length)}${hidden}`,
    "two lengths in one header": `${post(json, `Content-Length: 0, ${hidden.length}`)}${hidden}`,
    "a signed length": `${post(json, "Content-Length: +0")}${hidden}`,
    "a negative length": `${post(json, "Content-Length: -1")}${hidden}`,
    "a hexadecimal length": `${post(json, "Content-Length: 0x0")}${hidden}`,
    "an empty length": `${post(json, "Content-Length: ")}${hidden}`,
    "an unknown encoding": `${post("Content-Length: 3", "Transfer-Encoding: xchunked")}${empty}${hidden}`,
    "an encoding with a tab": `${post("Content-Length: 3", "Transfer-Encoding:\tchunked")}${empty}${hidden}`,
    "an encoding with a vertical tab": `${post("Content-Length: 3", "Transfer-Encoding: \u000Bchunked")}${empty}${hidden}`,
    "two encodings": `${post(chunked, "Transfer-Encoding: identity", length)}${empty}${hidden}`,
    "encodings in a list": `${post("Transfer-Encoding: chunked, identity", length)}${empty}${hidden}`,
    "a space before the colon": `${post("Transfer-Encoding : chunked", length)}${empty}${hidden}`,
    "a folded header": `${post("X-A: b", " Transfer-Encoding: chunked", length)}${empty}${hidden}`,
    "a name after a carriage return": `${post(`X-A: b\rTransfer-Encoding: chunked`, length)}${empty}${hidden}`,
    "a name after a NUL": `${post("X-A: b\u0000Transfer-Encoding: chunked", length)}${empty}${hidden}`,
    "a chunk of negative size": `${post(json, chunked)}-1\r\n${hidden}`,
    "a chunk size beyond 64 bits": `${post(json, chunked)}10000000000000000\r\n${hidden}`,
    "a chunk size with a prefix": `${post(json, chunked)}0x0\r\n\r\n${hidden}`,
    "a chunk extension with a line feed": `${post(json, chunked)}0;a\nb\r\n\r\n${hidden}`,
    "line feeds only": `GET /health HTTP/1.1\nHost: 127.0.0.1\nTransfer-Encoding: chunked\nContent-Length: 5\n\n0\n\n${hidden}`,
    "an encoding under HTTP/1.0": `POST /ui/sign-in HTTP/1.0\r\nHost: 127.0.0.1\r\n${chunked}\r\n${length}\r\n\r\n${empty}${hidden}`,
    "a body of GET": `GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n${length}\r\n\r\n${hidden}`,
    "an upgrade": `GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n${length}\r\n\r\n${hidden}`,
    "an expectation": `${post(json, "Expect: 100-continue", length)}${hidden}`,
  }
}

const quickBrotli = (bytes: Buffer): Buffer => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })

const sign = (name: string, body: string, secret: string, at = Math.floor(Date.now() / 1000)): Record<string, string> => ({
  "x-ork-timestamp": String(at),
  "x-ork-signature": `sha256=${createHmac("sha256", secret).update(`${at}.${name}.${body}`).digest("hex")}`,
})

const deployHooks = async (target: Target): Promise<void> => {
  for (const name of ["hook-a", "hook-b"]) {
    const rejected = await target.deploy({
      name,
      webhook: { secret: "HOOK" },
      params: { at: { type: "number", default: 0 } },
      tasks: { a: { command: "true" } },
    })
    if (rejected !== null) throw new Error(rejected)
  }
}

/** Addresses that only a request from this machine or network reaches. PORT: a server that must get no request. */
const PRIVATE = [
  "http://localhost:PORT/",
  "http://LOCALHOST.:PORT/",
  "http://[::1]:PORT/",
  "http://[0:0:0:0:0:0:0:1]:PORT/",
  "http://[::]:PORT/",
  "http://[::ffff:127.0.0.2]:PORT/",
  "http://[::ffff:7f00:2]:PORT/",
  "http://127.0.0.2:PORT/",
  "http://2130706434:PORT/",
  "http://0x7f000002:PORT/",
  "http://0177.0.0.2:PORT/",
  "http://0x7f.0.0.2:PORT/",
  "http://127.2:PORT/",
  "http://0.0.0.0:PORT/",
  "http://0:PORT/",
  "http://user@127.0.0.2:PORT/",
  "http://127.0.0.2:PORT\\@example.com/",
  "http://ⓛocalhost:PORT/",
  "http://127。0。0。2:PORT/",
  "http://169.254.169.254/latest/meta-data/",
  "http://metadata.google.internal/",
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
]

const TRAP = `/trap-${randomUUID()}`

/** A server without exceptions, and with credentials of a cloud. */
const PRIVATE_ENV = { ORK_HTTP_ALLOW: "", AWS_ACCESS_KEY_ID: "attack", AWS_SECRET_ACCESS_KEY: "attack" }

interface Trap {
  port: number
  hits(): number
  close(): void
}

/** An HTTP server on every address of this machine, which counts the requests of its path and bucket. */
const startTrap = async (): Promise<Trap> => {
  let hits = 0
  const server = createServer((request, response) => {
    if (request.url?.includes(TRAP) === true) hits++
    response.end("{}")
  })
  await new Promise<void>((resolve) => server.listen(0, "::", resolve))
  return {
    port: (server.address() as AddressInfo).port,
    hits: () => hits,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Returns the private addresses that tasks, waits, triggers, polls and notifications of a server reach. */
const reachPrivate = async (server: Target, trap: Trap): Promise<string | null> => {
  const urls = PRIVATE.map((url) => url.replace("PORT", String(trap.port)).replace(/\/$/, TRAP))
  const tasks = urls.map((url) => ({
    executor: "http",
    url,
    timeout: "5s",
    start_timeout: "5s",
  }))
  const deferred = (url: string) => ({
    command: `printf %s '${JSON.stringify({ ork_defer: { poll: { url, every: "1s", done_when: "true", timeout: "3s" } } })}' > "$ORK_OUTPUT"`,
    defer: true,
    timeout: "5s",
  })
  const reached: string[] = []
  for (const [i, task] of [...tasks, deferred(urls[7]!), deferred(urls[2]!)].entries()) {
    const name = `private-${i}`
    const before = trap.hits()
    const rejected = await server.deploy({ name, tasks: { a: task } })
    if (rejected !== null && /unknown field/.test(rejected)) throw new Error(rejected)
    const run = rejected === null ? await server.run(name) : { rejected }
    if (!("id" in run)) continue
    const { body } = await server.call("GET", `/runs/${run.id}/tasks/a`)
    const error = String(body["error"])
    // A connection that was tried without success is a request too.
    if (trap.hits() > before || body["status"] === "success" || /ECONN|EHOST|ENET/.test(error)) {
      reached.push(`${urls[i] ?? "a poll"} (${error})`)
    }
  }
  const endpoint = `http://127.0.0.1:${trap.port}`
  const objects = (key: string): string => `s3:/${TRAP}/${key}?endpoint=${endpoint}&path_style=true&region=eu`
  const waits = [
    { executor: "wait", url: endpoint + TRAP, timeout: "5s" },
    { executor: "wait", path: objects("key"), timeout: "5s" },
    { executor: "wait", path: objects("*"), timeout: "5s" },
  ]
  for (const [i, task] of waits.entries()) {
    const before = trap.hits()
    const rejected = await server.deploy({ name: `waiting-${i}`, tasks: { a: task } })
    if (rejected !== null) throw new Error(rejected)
    await server.run(`waiting-${i}`)
    if (trap.hits() > before) reached.push(`a wait for ${"url" in task ? task.url : task.path}`)
  }
  const triggers = { path: objects("*"), every: "1s" }
  const unwatched = await server.deploy({ name: "watching", triggers, tasks: { a: { command: "true" } } })
  if (unwatched !== null) throw new Error(unwatched)
  const beforeTrigger = trap.hits()
  await pause(2000)
  if (trap.hits() > beforeTrigger) reached.push("a trigger on a path")
  const notify = urls.slice(0, 19).map((webhook) => ({ on: ["success"], webhook }))
  const rejected = await server.deploy({ name: "notifying", tasks: { a: { command: "true" } }, notify })
  if (rejected !== null && /unknown field/.test(rejected)) throw new Error(rejected)
  if (rejected === null) {
    const before = trap.hits()
    await server.run("notifying")
    await pause(2000)
    if (trap.hits() > before) reached.push("a notification")
  }
  return reached.length === 0 ? null : `reached: ${reached.join(", ")}`
}

const QUOTES = ["'", '"', "`", "''", "\\'", "\u2019", "\u02BC", "%27", "\u0000'", "$$", "]]", "';"]
const CODE = [
  "",
  " OR 1=1",
  " OR '1'='1",
  "; DROP TABLE runs",
  "); DELETE FROM runs",
  " UNION SELECT key_hash FROM keys",
  "||(SELECT 1/0)",
  "; SELECT pg_sleep(5)",
  " AND randomblob(1000000000)",
  "; ATTACH DATABASE '/tmp/ork-attack.db' AS a",
  "; COPY runs TO PROGRAM 'true'",
  "::int",
]
const ENDS = ["", "--", "/*", "#"]
/** Texts that end or extend a statement if they are part of it: more than 400. */
const SQL = [
  ...QUOTES.flatMap((quote) => CODE.flatMap((code) => ENDS.map((end) => `x${quote}${code}${end}`))),
  "\\",
  "$1",
  "?1",
  ":a",
  "@a",
  "{}",
  "[]",
  "null",
  "🐘",
  "\u0000",
  "%",
  "_",
  "\uD800",
  "-1",
  "1e999",
  "NaN",
  "0x10",
  "\n",
]

export const requestAttacks: Attack[] = [
  {
    name: "requests: one request hides another",
    quick: true,
    async run(target) {
      const hidden = `GET /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: ${target.key}\r\n\r\n`
      if (!(await raw(target, hidden)).includes('"items"')) throw new Error("the hidden request would not be answered anyway")
      const shapes = Object.entries(SMUGGLED(hidden))
      const replies = await Promise.all(shapes.map(([, text]) => raw(target, text)))
      const answered = shapes.filter((_, i) => /"items"|"scopes"/.test(replies[i]!)).map(([name]) => name)
      return answered.length === 0 ? null : `the hidden request was answered: ${answered.join(", ")}`
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
      const body = JSON.stringify({ at: performance.now() })
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
      const body = JSON.stringify({ at: performance.now() })
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
    name: `requests: tasks, waits, triggers, polls and notifications reach private addresses in ${PRIVATE.length} spellings`,
    async run(target) {
      const trap = await startTrap()
      try {
        return await onFreshServer(target, { env: PRIVATE_ENV }, (fresh) => reachPrivate(fresh, trap))
      } finally {
        trap.close()
      }
    },
  },
  {
    name: `requests: ${SQL.length} hostile texts in every place that reaches the database`,
    async run(target) {
      await target.deploy({ name: "kept", tasks: { a: { command: "true" } } })
      const kept = await target.run("kept")
      if (!("id" in kept)) throw new Error(kept.rejected)
      const { body } = await target.call("GET", "/openapi.json", { key: null })
      const paths = body["paths"] as { [path: string]: { get?: { parameters?: { in: string; name: string }[] } } }
      const isStream = /events|logs|openapi|docs|ui/
      const reads = Object.entries(paths).filter(([path, { get }]) => get !== undefined && !isStream.test(path))
      const places = reads.flatMap(([path, { get }]) => {
        const names = (get?.parameters ?? []).filter((parameter) => parameter.in === "query").map(({ name }) => name)
        const fixed = path.replace("{id}", kept.id).replaceAll(/\{\w+\}/g, "x")
        return [
          ...(path.includes("{") ? [path.replaceAll(/\{\w+\}/g, "TEXT")] : []),
          ...names.map((name) => `${fixed}?${name}=TEXT`),
        ]
      })
      for (const [i, text] of SQL.entries()) {
        const encoded = text.isWellFormed() ? encodeURIComponent(text) : "%ED%A0%80"
        // Every text goes to a tenth of the places, so that each place gets each kind of text.
        const chosen = places.filter((_, at) => (at + i) % 10 === 0)
        const replies = chosen.map(async (place) => {
          const path = place.replace("TEXT", encoded)
          const { status, text: reply } = await target.exactly("GET", path, { key: target.key })
          return status >= 500 || /SQLITE|syntax error|sqlstate/i.test(reply) ? `GET ${path} replied ${status} ${reply}` : null
        })
        const failed = (await Promise.all(replies)).find((reply) => reply !== null)
        if (failed !== undefined) return failed
        const written = await target.call("POST", "/jobs", { body: { name: text, queue: text, payload: { [text]: text } } })
        const started = await target.call("POST", "/workflows/kept/runs", { body: { idempotency_key: text } })
        for (const { status, text: reply } of [written, started]) if (status >= 500) return `${JSON.stringify(text)}: ${reply}`
      }
      const { status } = await target.call("GET", `/runs/${kept.id}`)
      return status === 200 ? null : "the runs are gone"
    },
  },
  ...(["gzip", "deflate", "br", "zstd"] as const).map((encoding): Attack => ({
    name: `requests: a body of 256 MB, compressed by ${encoding}`,
    quick: encoding === "gzip",
    async run(target) {
      const bytes = Buffer.alloc(256 << 20, " ")
      const bomb = { gzip: gzipSync, deflate: deflateSync, br: quickBrotli, zstd: zstdCompressSync }[encoding](bytes)
      const { key } = target
      for (const path of ["/workflows", "/jobs", `/bundles/${"a".repeat(64)}`, "/ui/sign-in"]) {
        const response = await fetch(target.url + path, {
          method: path.startsWith("/bundles") ? "PUT" : "POST",
          headers: { "x-api-key": key, "content-type": "application/json", "content-encoding": encoding },
          body: bomb,
        }).catch(() => null)
        // A connection that the server closes before it has read the body is a refusal too.
        if (response !== null && (response.status < 400 || response.status >= 500)) return `${path} replied ${response.status}`
      }
      return null
    },
  })),
  {
    name: "requests: connections that send nothing, or half a request, stay open",
    flood: true,
    async run(target) {
      const { hostname, port } = new URL(target.url)
      const beginnings = ["", "G", "POST /ui/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "]
      const closed = beginnings.map(
        (text) =>
          new Promise<boolean>((resolve) => {
            const socket = connect(Number(port), hostname)
            const timer = setTimeout(() => {
              socket.destroy()
              resolve(false)
            }, 60_000)
            socket.on("error", () => {})
            socket.resume().on("close", () => {
              clearTimeout(timer)
              resolve(true)
            })
            if (text !== "") socket.write(text)
          }),
      )
      return (await Promise.all(closed)).every(Boolean) ? null : "a connection was open a minute later"
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
]
