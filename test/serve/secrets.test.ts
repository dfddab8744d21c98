// A task that prints its secrets in every possible way: the server shows them nowhere.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { startReceiver } from "../support/receiver.ts"
import { probe, type Server, startServer } from "../support/server.ts"

const VARIABLE = "hunter2-of-a-variable"
const FILE = 'pass "word" of a file'
const SAID = [VARIABLE, FILE, "hunter2", "of a file"]

const TASKS = {
  pieces: { command: 'printf "%s" "${TOKEN%-variable}"; printf -- "-vari"; printf able; echo; echo "$FILE" >&2' },
  output: { command: `printf '{"token":"%s","%s":1}' "$TOKEN" "$TOKEN" > $ORK_OUTPUT` },
  line: { command: `printf '{"token":"%s"}' "$TOKEN"` },
  large: { command: `{ printf '["%s","' "$TOKEN"; head -c 200000 /dev/zero | tr '\\0' x; printf '"]'; } > $ORK_OUTPUT` },
  below: { depends_on: ["output", "large"], command: "cat; cat $ORK_INPUT" },
  broken: { command: 'echo "$TOKEN" > $ORK_OUTPUT' },
  unfit: { command: `printf '"%s"' "$TOKEN" > $ORK_OUTPUT`, output: { enum: ["x"] } },
  gone: { command: ["sh", "-c", 'cd "$TOKEN"; exit 7'], retries: 1, retry: { base_delay: 0 } },
}

const files = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const start = async (more: object = {}): Promise<{ cwd: string; server: Server }> => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, "secrets"))
  writeFileSync(join(cwd, "secrets", "FILE"), `${FILE}\n`)
  const env = { ORK_SECRET_TOKEN: VARIABLE, ORK_SECRETS_DIR: "secrets", ORK_LOG: "debug", ...more }
  return { cwd, server: await startServer([], { cwd, env }) }
}

/** Collects every event until it is stopped. */
const listen = async (server: Server): Promise<{ text: string; stop(): void }> => {
  const stopped = new AbortController()
  const response = await fetch(`${server.url}/events`, { headers: { "x-api-key": server.key }, signal: stopped.signal })
  const received = { text: "", stop: () => stopped.abort() }
  const read = async (): Promise<void> => {
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) received.text += part
  }
  read().catch(() => {})
  return received
}

describe("secrets", () => {
  it("appear in no file, no response and no event, whatever a task does with them", async () => {
    const { url, received } = await startReceiver()
    const { cwd, server } = await start({ ORK_HTTP_ALLOW: new URL(url).host })
    const env = { TOKEN: { secret: "TOKEN" }, FILE: { secret: "FILE" } }
    const ask = {
      executor: "http",
      url: `${url}/ask`,
      headers: { Authorization: { secret: "TOKEN", prefix: "Bearer " } },
      body: { password: { secret: "FILE" } },
    }
    await server.deploy({ name: "telling", env, tasks: { ...TASKS, ask } })
    const events = await listen(server)
    const id = await server.trigger("telling")
    const run = await server.reaches(id, "failed", "success")
    await probe(() => (/"status":"failed"[^\n]*"error":"task/.test(events.text) ? true : null))
    events.stop()
    expect(run["tasks"]).toMatchObject({ success: 6, failed: 3 })
    expect(received[0]?.headers["authorization"]).toBe(`Bearer ${VARIABLE}`)
    expect(JSON.parse(received[0]!.body)).toEqual({ password: FILE })

    const names = [...Object.keys(TASKS), "ask"]
    const paths = [
      "/workflows",
      "/workflows/telling",
      "/workflows/telling/versions",
      "/runs",
      `/runs/${id}`,
      `/runs/${id}/tasks`,
      `/runs/${id}/explain`,
      "/audit",
      "/stats",
      "/metrics",
      ...names.flatMap((name) => [`/runs/${id}/tasks/${name}`, `/runs/${id}/tasks/${name}/logs`]),
    ]
    const responses = await Promise.all(paths.map(async (path) => ({ path, ...(await server.call("GET", path)) })))
    expect(responses.filter(({ status }) => status !== 200)).toEqual([])
    const shown = responses.find(({ path }) => path.endsWith("/tasks/output"))!
    expect(shown.body["output"]).toEqual({ token: "***", "***": 1 })
    expect(responses.find(({ path }) => path.endsWith("/pieces/logs"))!.text).toBe("***\n***\n")

    const texts = [
      ...responses.map(({ path, text }) => ({ where: path, text })),
      ...files(join(cwd, ".ork")).map((file) => ({ where: file, text: readFileSync(file, "latin1") })),
      { where: "the events", text: events.text },
      { where: "the server's log", text: server.process.stdout + server.process.stderr },
    ]
    expect(texts.length).toBeGreaterThan(30)
    expect(texts.filter(({ text }) => SAID.some((secret) => text.includes(secret))).map(({ where }) => where)).toEqual([])
  })

  it("that are missing fail the task with the places that were searched", async () => {
    const { server } = await start()
    await server.deploy({ name: "missing", tasks: { a: { command: "true", env: { X: { secret: "NO_SUCH" } }, retries: 3 } } })
    const id = await server.trigger("missing")
    await server.reaches(id, "failed")
    const { body } = await server.call("GET", `/runs/${id}/tasks/a`)
    expect(body).toMatchObject({ status: "failed", attempt: 1 })
    expect(body.error).toMatch(
      /no secret NO_SUCH where Ork runs: looked for the variable ORK_SECRET_NO_SUCH, a file NO_SUCH in ORK_SECRETS_DIR/,
    )
  })
})
