// Backups of a server under load, restored elsewhere; on SQLite and on Postgres.

import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, onTestFinished, test } from "vitest"
import { containing } from "../support/matchers.ts"
import { ork, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"
import { type Server, startServer } from "../support/server.ts"

const KEY = { ORK_API_KEY: "a-key-of-many-letters" }

/** Each task appends to the witness file when it starts. */
const flow = (witness: string) => ({
  name: "flow",
  tasks: {
    first: {
      command: `echo hello; echo first >> ${witness}; head -c 90000 /dev/zero | tr '\\0' x > big; echo "{\\"text\\": \\"$(cat big)\\"}" > $ORK_OUTPUT`,
    },
    wait: { depends_on: ["first"], command: `echo wait >> ${witness}; while [ ! -e ${witness}.go ]; do sleep 0.05; done` },
    last: { depends_on: ["wait"], command: `echo last >> ${witness}` },
  },
})

const quick = { name: "quick", tasks: { only: { command: "echo done" } } }

const databases = {
  SQLite: async () => ({}),
  Postgres: async () => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    return { ORK_DATABASE_URL: database.url }
  },
}

/** Triggers runs until `stop` is called; returns how many were acknowledged. */
const load = (server: Server): { stop(): Promise<string[]> } => {
  const ids: string[] = []
  let stopped = false
  const client = (async () => {
    while (!stopped) ids.push(await server.trigger("quick"))
  })()
  return {
    stop: async () => {
      stopped = true
      await client
      return ids
    },
  }
}

const states = async (server: Server, ids: readonly string[]): Promise<Record<string, unknown>[]> =>
  Promise.all(
    ids.map(async (id) => {
      const { body } = await server.call("GET", `/runs/${id}`)
      const tasks = await server.call("GET", `/runs/${id}/tasks?limit=100`)
      return { ...body, tasks: tasks.body["items"] }
    }),
  )

describe.each(Object.entries(databases))("a backup of a server on %s", (_, newDatabase) => {
  test("that is under load has the same runs, logs and outputs when it is restored, and live runs continue once", async () => {
    const cwd = temporaryFolder()
    const env = { ...KEY, ...(await newDatabase()) }
    const server = await startServer([], { cwd, env })
    const witness = join(cwd, "witness")
    await server.deploy(flow(witness))
    await server.deploy(quick)
    const ended = await server.trigger("quick")
    await server.reaches(ended, "success")
    const live = await server.trigger("flow")
    await expect.poll(() => (existsSync(witness) ? readFileSync(witness, "utf8") : "")).toBe("first\nwait\n")
    const before = await states(server, [ended])
    const log = (await server.call("GET", `/runs/${live}/tasks/first/logs`)).text

    const clients = load(server)
    const folder = join(cwd, "saved")
    const saved = await ork(["backup", folder, "--json"], { cwd, env })
    expect(saved).toMatchObject({ code: 0, stderr: "" })
    expect(statSync(folder).mode & 0o077).toBe(0)
    const acknowledged = await clients.stop()
    server.process.kill("SIGKILL")
    await server.process.exit

    const other = temporaryFolder()
    const target = { ...KEY, ...(await newDatabase()) }
    const restored = await ork(["restore", folder], { cwd: other, env: target })
    expect(restored).toMatchObject({ code: 0, stderr: "", stdout: containing("stop the servers") })
    const copy = await startServer([], { cwd: other, env: target })
    expect(await states(copy, [ended])).toEqual(before)
    expect((await copy.call("GET", `/runs/${live}/tasks/first/logs`)).text).toBe(log)
    const rows = (JSON.parse(saved.stdout) as { tables: { runs: { rows: number } } }).tables.runs.rows
    expect(rows).toBeLessThanOrEqual(acknowledged.length + 3)
    const { body } = await copy.call("GET", "/runs?limit=1&workflow=flow")
    expect(body["items"]).toMatchObject([{ id: live, status: "running" }])

    writeFileSync(`${witness}.go`, "")
    await copy.reaches(live, "success")
    expect(readFileSync(witness, "utf8")).toBe("first\nwait\nwait\nlast\n")
    const output = await copy.call("GET", `/runs/${live}/tasks/first/output`)
    expect(output.body["text"]).toHaveLength(90_000)
    const [, wait] = (await states(copy, [live]))[0]!["tasks"] as { attempts: { status: string }[] }[]
    expect(wait!.attempts.map(({ status }) => status)).toEqual(["lost", "success"])
  })
})

describe("a backup is rejected", () => {
  const setup = async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: echo hi }\n")
    await ork(["run", "flow.yaml"], { cwd })
    const saved = await ork(["backup", "saved"], { cwd })
    expect(saved).toMatchObject({ code: 0, stdout: containing("1 run, 0 jobs, 2 objects") })
    const target = temporaryFolder()
    const folder = join(cwd, "saved")
    return { cwd, folder, target, restore: () => ork(["restore", folder], { cwd: target }) }
  }

  test("if its folder exists, and a restore if its target is not empty", async () => {
    const { cwd, folder } = await setup()
    expect(await ork(["backup", "saved"], { cwd })).toMatchObject({ code: 1, stderr: containing("exists already") })
    expect(await ork(["restore", folder], { cwd })).toMatchObject({ code: 1, stderr: containing("is not empty") })
    expect((await ork(["runs"], { cwd })).stdout).toContain("success")
  })

  test.each<[string, (folder: string) => void, RegExp]>([
    [
      "a table is changed",
      (folder) => appendFileSync(join(folder, "tables/runs"), "[]\n"),
      /damaged: tables\/runs does not match/,
    ],
    ["a table is missing", (folder) => rmSync(join(folder, "tables/tasks")), /damaged: tables\/tasks cannot be read/],
    [
      "an object is missing",
      (folder) => rmSync(join(folder, "objects/runs"), { recursive: true }),
      /damaged: objects\/runs\/.* is missing/,
    ],
    ["the manifest is missing", (folder) => rmSync(join(folder, "manifest.json")), /is not a complete backup/],
    [
      "it is of a newer Ork",
      (folder) => replace(join(folder, "manifest.json"), /"schema_version": \d+/, '"schema_version": 999'),
      /schema version 999.*restore it with that version/,
    ],
    [
      "it has a newer format",
      (folder) => replace(join(folder, "manifest.json"), /"format": 1/, '"format": 2'),
      /in a newer format/,
    ],
  ])("if %s, and nothing is written", async (_, damage, message) => {
    const { folder, target, restore } = await setup()
    damage(folder)
    const result = await restore()
    expect([result.code, result.stderr]).toEqual([1, expect.stringMatching(message)])
    expect(existsSync(join(target, ".ork/ork.db"))).toBe(false)
    expect(existsSync(join(target, ".ork/objects/runs"))).toBe(false)
  })

  test("a restore that fails in the middle leaves nothing behind", async () => {
    const { folder, target, restore } = await setup()
    // A row that no table accepts, with the checksum that it should have.
    const table = join(folder, "tables/deadlines")
    const text = `${readFileSync(table, "utf8").split("\n")[0]}\n["now",null,0]\n`
    writeFileSync(table, text)
    const { createHash } = await import("node:crypto")
    const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as { tables: Record<string, object> }
    manifest.tables["deadlines"] = { rows: 1, sha256: createHash("sha256").update(text).digest("hex") }
    writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest))
    expect((await restore()).code).toBe(1)
    expect(readdirSync(join(target, ".ork")).filter((name) => name.startsWith("ork.db"))).toEqual([])
    expect(existsSync(join(target, ".ork/objects/runs"))).toBe(false)
  })
})

test("a restored folder has the admin key of the original", async () => {
  const cwd = temporaryFolder()
  const server = await startServer([], { cwd })
  await ork(["backup", "saved"], { cwd })
  const target = temporaryFolder()
  renameSync(join(cwd, "saved"), join(target, "saved"))
  expect(await ork(["restore", "saved"], { cwd: target })).toMatchObject({ code: 0 })
  expect(readFileSync(join(target, ".ork/admin.key"), "utf8").trim()).toBe(server.key)
})

const replace = (file: string, from: RegExp, to: string): void =>
  writeFileSync(file, readFileSync(file, "utf8").replace(from, to))
