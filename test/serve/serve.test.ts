import { existsSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { processesOf, startOrk } from "../support/ork-process.ts"
import { probe, startServer } from "../support/server.ts"

const SLOW = { name: "slow", tasks: { a: { command: "echo started; exec sleep 60" } } }

describe("ork serve on an empty folder", () => {
  it("creates an admin key that only this user can read, prints where it is, and is ready", async () => {
    const cwd = temporaryFolder()
    const server = await startServer([], { cwd })
    expect(statSync(join(cwd, ".ork/admin.key")).mode & 0o777).toBe(0o600)
    expect(server.process.stdout).toContain("the admin key is in .ork/admin.key")
    expect((await server.call("GET", "/ready")).body).toEqual({ status: "ready", store: "ok", objects: "ok" })
    expect((await server.call("GET", "/runs", undefined, { "x-api-key": "" })).status).toBe(401)
  })

  it("prints a link that signs a browser in once", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    const link = /(http:\S+sign-in\S+)/.exec(server.process.stdout)![1]!
    const first = await fetch(link, { redirect: "manual" })
    expect(first.headers.get("set-cookie")).toMatch(/^ork_session=.*HttpOnly/)
    const cookie = first.headers.get("set-cookie")!.split(";")[0]!
    expect((await fetch(`${server.url}/runs`, { headers: { cookie } })).status).toBe(200)
    const second = await fetch(link, { redirect: "manual" })
    expect(second.headers.get("set-cookie")).toBeNull()
  })

  it("keeps the key for the next start, and creates none when one is given", async () => {
    const cwd = temporaryFolder()
    const first = await startServer([], { cwd })
    first.process.kill("SIGTERM")
    expect(await first.process.exit).toEqual({ code: 0, signal: null })
    expect((await startServer([], { cwd })).key).toBe(first.key)
    const given = temporaryFolder()
    const server = await startServer([], { cwd: given, env: { ORK_API_KEY: "a-key-of-sixteen" } })
    expect((await server.call("GET", "/runs")).status).toBe(200)
    expect(existsSync(join(given, ".ork/admin.key"))).toBe(false)
  })

  it.each([
    [["--port", "70000"], {}, /--port: "70000" is not a whole number from 0 to 65535/],
    [[], { ORK_API_KEY: "short" }, /ORK_API_KEY: the value is not a key of at least 16 characters/],
    [["--dir", "nowhere"], {}, /--dir: nowhere is not a folder/],
    [["--no-worker", "--queue", "a"], {}, /leave out one of them/],
    [["--queue", "a,,b"], {}, /has an empty name/],
  ])("rejects %j %j and stores nothing", async (args, env, message) => {
    const cwd = temporaryFolder()
    const { code, stderr } = await ork(["serve", ...args], { cwd, env })
    expect([code, existsSync(join(cwd, ".ork"))]).toEqual([2, false])
    expect(stderr).toMatch(message)
  })
})

it("a server and a worker log a warning of an unknown variable of Ork", async () => {
  const cwd = temporaryFolder()
  const env = { ORK_CONCURENCY: "3" }
  const server = await startServer([], { cwd, env })
  const warning = /"level":40.*Ork does not know the variable ORK_CONCURENCY; did you mean ORK_CONCURRENCY\?/
  expect(server.process.stderr).toMatch(warning)
  expect(server.process.stderr.match(/ORK_CONCURENCY/g)).toHaveLength(1)
  const worker = startOrk(["worker", "--server", server.url, "--name", "w"], { cwd, env })
  await worker.printed(/claims work from/)
  expect(worker.stderr).toMatch(warning)
})

it("a port in use is reported with advice", async () => {
  const first = await startServer([], { cwd: temporaryFolder() })
  const port = new URL(first.url).port
  const { code, stderr } = await ork(["serve", "--port", port], { cwd: temporaryFolder(), env: { ORK_LOG: "error" } })
  expect([code, stderr]).toEqual([
    2,
    `ork: port ${port} is in use; choose another with --port or ORK_PORT (0 for a free one)\n`,
  ])
})

describe("a server", () => {
  it("runs workflows that are deployed and triggered over HTTP, and shows their logs", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    await server.deploy({
      name: "etl",
      tasks: { a: { command: "echo hello; echo '{\"n\":7}'" }, b: { depends_on: ["a"], command: "cat" } },
    })
    const id = await server.trigger("etl")
    expect(await server.reaches(id, "success", "failed")).toMatchObject({ status: "success", tasks: { success: 2 } })
    expect((await server.call("GET", `/runs/${id}/tasks/a/logs`)).text).toBe('hello\n{"n":7}\n')
    expect((await server.call("GET", `/runs/${id}/tasks/b/logs`)).text).toContain('{"a":{"n":7}}')
  })

  it("cancels a run and leaves none of its processes", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    await server.deploy(SLOW)
    const id = await server.trigger("slow")
    await probe(async () => ((await server.call("GET", `/runs/${id}/tasks/a/logs`)).text.includes("started") ? true : null))
    expect((await server.call("POST", `/runs/${id}/cancel`)).status).toBe(202)
    await server.reaches(id, "cancelled")
    expect(processesOf(id)).toEqual([])
  })

  it("accepts all queues, the named ones, or none", async () => {
    const queued = { name: "queued", tasks: { a: { command: "true", queue: "fast" }, b: { command: "true", queue: "slow" } } }
    const cwd = temporaryFolder()
    const statuses = async (server: Awaited<ReturnType<typeof startServer>>, id: string) => {
      const { body } = await server.call("GET", `/runs/${id}/tasks`)
      return (body["items"] as { status: string }[]).map(({ status }) => status)
    }
    const idle = await startServer(["--no-worker"], { cwd })
    await idle.deploy(queued)
    const id = await idle.trigger("queued")
    expect(await statuses(idle, id)).toEqual(["pending", "pending"])
    const { body } = await idle.call("GET", `/runs/${id}/explain`)
    expect(JSON.stringify(body)).toContain("no live server or worker accepts the queue fast")
    idle.process.kill("SIGTERM")
    await idle.process.exit

    const fast = await startServer(["--queue", "fast"], { cwd })
    await probe(async () => ((await statuses(fast, id)).includes("success") ? true : null))
    expect(await statuses(fast, id)).toEqual(["success", "pending"])
    fast.process.kill("SIGTERM")
    await fast.process.exit

    const every = await startServer([], { cwd })
    await every.reaches(id, "success")
  })

  it("fires schedules", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    await server.deploy({ name: "ticking", schedule: "* * * * * *", tasks: { a: { command: "true" } } })
    const runs = await probe(async () => {
      const { body } = await server.call("GET", "/runs?trigger=schedule")
      const items = body["items"] as { logical_date: string }[]
      return items.length >= 2 ? items : null
    })
    const ticks = runs.map(({ logical_date }) => logical_date)
    expect(new Set(ticks).size).toBe(ticks.length)
    expect(ticks.every((tick) => tick.endsWith(".000Z"))).toBe(true)
  })

  it("that was killed continues every run after a restart, and leaves no process", async () => {
    const cwd = temporaryFolder()
    const first = await startServer([], { cwd, env: { ORK_CONCURRENCY: "10" } })
    const go = join(cwd, "go")
    await first.deploy({
      name: "killed",
      tasks: {
        a: { command: `echo started; until [ -e ${go} ]; do sleep 0.05; done` },
        b: { depends_on: ["a"], command: "true" },
      },
    })
    const ids = await Promise.all(Array.from({ length: 10 }, () => first.trigger("killed")))
    await probe(() => (ids.every((id) => processesOf(id).length > 0) ? true : null))
    first.process.kill("SIGKILL")
    await first.process.exit
    await probe(() => (ids.every((id) => processesOf(id).length === 0) ? true : null))

    writeFileSync(go, "")
    const second = await startServer([], { cwd })
    for (const id of ids) expect(await second.reaches(id, "success", "failed")).toMatchObject({ status: "success" })
    const { body } = await second.call("GET", `/runs/${ids[0]}/tasks/a`)
    expect(JSON.stringify(body)).toContain('"attempt":1,"status":"lost"')
  })

  it("does not start on the database of another server, which it names", async () => {
    const cwd = temporaryFolder()
    const first = await startServer([], { cwd })
    const { code, stderr } = await ork(["serve", "--port", "0"], { cwd })
    expect(code).toBe(1)
    expect(stderr).toMatch(/another `ork serve` uses sqlite:\.ork\/ork\.db already: \S+:\d+ \(process \d+\); stop it first/)
    first.process.kill("SIGKILL")
    await first.process.exit
    expect((await (await startServer([], { cwd })).call("GET", "/ready")).status).toBe(200)
  })

  it("serves metrics to clients with a key", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    await server.deploy({ name: "one", tasks: { a: { command: "true" } } })
    await server.reaches(await server.trigger("one"), "success")
    const { text } = await server.call("GET", "/metrics")
    for (const line of [
      'ork_runs_total{status="success"} 1',
      /ork_workflow_last_success_timestamp_seconds\{workflow="one"\} 1\d{9}/,
      'ork_task_seconds_count{executor="process",state="success"} 1',
      "ork_dispatch_seconds_count 1",
      /ork_advance_seconds_count [1-9]/,
      'ork_http_request_seconds_count{method="POST",route="/workflows",status="2xx"} 1',
      'ork_loop_lag_seconds{quantile="0.99"}',
    ]) {
      expect(text).toMatch(line)
    }
    expect((await server.call("GET", "/metrics", undefined, { "x-api-key": "" })).status).toBe(401)
  })
})

describe("a signal", () => {
  it("drains the server: short tasks finish, the next server continues the rest", async () => {
    const cwd = temporaryFolder()
    const server = await startServer([], { cwd, env: { ORK_GRACE: "1s" } })
    const go = join(cwd, "go")
    await server.deploy({
      name: "mixed",
      tasks: {
        short: { command: `echo started; while [ ! -e ${go} ]; do sleep 0.05; done` },
        long: { command: `echo started; [ -e ${go}.again ] || exec sleep 60` },
        next: { depends_on: ["short"], command: "true" },
      },
    })
    const id = await server.trigger("mixed")
    const hasStarted = async (task: string): Promise<boolean> =>
      (await server.call("GET", `/runs/${id}/tasks/${task}/logs`)).text.includes("started")
    await probe(async () => ((await hasStarted("short")) && (await hasStarted("long")) ? true : null))
    server.process.kill("SIGTERM")
    await server.process.printed(/draining/)
    writeFileSync(go, "")
    writeFileSync(`${go}.again`, "")
    expect(await server.process.exit).toEqual({ code: 0, signal: null })
    expect(processesOf(id)).toEqual([])

    const next = await startServer([], { cwd })
    await next.reaches(id, "success")
    const { body } = await next.call("GET", `/runs/${id}/tasks`)
    const attempts = (body["items"] as { name: string; attempt: number }[]).map(({ name, attempt }) => [name, attempt])
    expect(Object.fromEntries(attempts)).toEqual({ short: 1, long: 2, next: 1 })
  })

  it("ends event streams", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    const stream = await fetch(`${server.url}/events`, {
      headers: { "x-api-key": server.key, accept: "text/event-stream" },
    })
    server.process.kill("SIGINT")
    for await (const _ of stream.body!) continue
    expect(await server.process.exit).toEqual({ code: 0, signal: null })
  })

  it("that is repeated ends the server at once", async () => {
    const server = await startServer([], { cwd: temporaryFolder(), env: { ORK_GRACE: "60s" } })
    await server.deploy({
      name: "stubborn",
      tasks: { a: { command: "trap '' TERM; echo started; while :; do sleep 1; done" } },
    })
    const id = await server.trigger("stubborn")
    await probe(async () => ((await server.call("GET", `/runs/${id}/tasks/a/logs`)).text.includes("started") ? true : null))
    server.process.kill("SIGTERM")
    await server.process.printed(/draining/)
    server.process.kill("SIGTERM")
    expect(await server.process.exit).toEqual({ code: 130, signal: null })
    await probe(() => (processesOf(id).length === 0 ? true : null))
  })
})

describe("ork serve --dir", () => {
  it("deploys the folder, watches it, and keeps a workflow deployed when its file is broken or removed", async () => {
    const cwd = temporaryFolder()
    const file = join(cwd, "hello.yaml")
    writeFileSync(file, "name: hello\ntasks: { a: { command: echo one } }\n")
    writeFileSync(join(cwd, "notes.txt"), "not a definition")
    writeFileSync(join(cwd, "list.json"), '{ "id": "list", "tasks": [ { "id": "a", "command": "true" } ] }')
    const server = await startServer(["--dir", "."], { cwd })
    const version = async (name: string): Promise<unknown> => (await server.call("GET", `/workflows/${name}`)).body["version"]
    expect([await version("hello"), await version("list")]).toEqual([1, 1])

    writeFileSync(file, "name: hello\ntasks: { a: { command: echo two } }\n")
    await probe(async () => ((await version("hello")) === 2 ? true : null))

    writeFileSync(file, "name: hello\ntasks: { a: { comand: echo three } }\n")
    await server.process.printed(/a definition is invalid/)
    expect(server.process.stderr).toContain("hello.yaml:2:15: tasks.a.comand")
    expect(await version("hello")).toBe(2)

    const { rmSync } = await import("node:fs")
    rmSync(file)
    await server.process.printed(/its workflow stays deployed until it is deleted/)
    expect(await version("hello")).toBe(2)
  })

  it("follows a symbolic link that is replaced, as git-sync does", async () => {
    const cwd = temporaryFolder()
    const write = (revision: string, command: string): void => {
      mkdirSync(join(cwd, revision), { recursive: true })
      writeFileSync(join(cwd, revision, "hello.yaml"), `name: hello\ntasks: { a: { command: echo ${command} } }\n`)
    }
    const checkOut = (revision: string): void => {
      symlinkSync(revision, join(cwd, "next"))
      renameSync(join(cwd, "next"), join(cwd, "current"))
    }
    write("r1", "one")
    checkOut("r1")
    const server = await startServer(["--dir", "current"], { cwd })
    const version = async (): Promise<unknown> => (await server.call("GET", "/workflows/hello")).body["version"]
    expect(await version()).toBe(1)
    write("r2", "two")
    checkOut("r2")
    await probe(async () => ((await version()) === 2 ? true : null))
    write("r2", "three")
    await probe(async () => ((await version()) === 3 ? true : null))
  })
})

it("the log has JSON lines of the level that ORK_LOG sets", async () => {
  const cwd = temporaryFolder()
  const process = startOrk(["serve", "--port", "0"], { cwd, env: { ORK_LOG: "debug" } })
  await process.printed(/is ready at/)
  const url = /is ready at (\S+)/.exec(process.stdout)![1]!
  await fetch(`${url}/health`)
  await process.printed(/"msg":"request"/)
  const lines = process.stderr.trim().split("\n")
  expect(lines.every((line) => typeof (JSON.parse(line) as { msg: string }).msg === "string")).toBe(true)
  expect(process.stderr).not.toContain(readFileSync(join(cwd, ".ork/admin.key"), "utf8").trim())
})
