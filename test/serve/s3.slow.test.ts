import { createHash } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import { S3ObjectStore } from "../../src/objects/s3/s3.ts"
import { TaskLog } from "../../src/objects/logs/task-log.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { createBucket, type TestBucket } from "../support/components/s3.ts"
import { probe, startServer } from "../support/server.ts"
import { startWorker } from "../support/worker.ts"

let own: TestBucket
let env: Record<string, string>
let objects: S3ObjectStore

beforeAll(async () => {
  own = await createBucket()
  env = { ...own.env, ORK_OBJECT_STORE: own.address }
  objects = new S3ObjectStore({ bucket: own.bucket, prefix: "ork/", endpoint: own.endpoint, region: null, pathStyle: true })
}, 240_000)

const WORKFLOW = `
name: large
tasks:
  make:
    command: printf '["'; head -c 200000 /dev/zero | tr '\\0' x; echo '"]'
  each:
    foreach: [1, 2, 3, 4]
    command: (printf '"'; head -c 30000 /dev/zero | tr '\\0' y; printf '"') > "$ORK_OUTPUT"; echo done
  check:
    depends_on: [make, each]
    input:
      made: \${{ size(tasks.make.output[0]) }}
      sizes: \${{ tasks.each.output.map(o, size(o)) }}
    command: [python3, -c, "import json,sys; i=json.load(sys.stdin); print(json.dumps([i['made'], i['sizes']]))"]
`

describe("ork run with S3", () => {
  it("stores large outputs and logs in S3, and gc removes them", async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, "large.yaml"), WORKFLOW)
    const { code, run, stderr } = await orkRun(["large.yaml"], { cwd, env })
    expect({ code, status: run.status, stderr }).toEqual({ code: 0, status: "success", stderr: "" })
    const keys = await objects.list(`runs/${run.id}/`)
    for (const task of ["each", "make"]) {
      expect(keys.filter((key) => key.includes(`/${task}/`) && key.endsWith("/output.json"))).toHaveLength(1)
    }
    expect(keys.some((key) => key.includes("/log/"))).toBe(false)
    expect((await ork(["logs", "latest", "check"], { cwd, env })).stdout).toBe("[200000, [30000, 30000, 30000, 30000]]\n")
    expect((await ork(["logs", "latest", "each", "--index", "2"], { cwd, env })).stdout).toBe("done\n")
    expect((await ork(["gc", "--keep", "0"], { cwd, env })).code).toBe(0)
    expect(await objects.list(`runs/${run.id}/`)).toEqual([])
  })

  it("is rejected with advice when the bucket is missing or the key is wrong, as in doctor", async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, "large.yaml"), WORKFLOW)
    const none = { ...env, ORK_OBJECT_STORE: own.address.replace(own.bucket, "no-such-bucket") }
    const rejected = await ork(["run", "large.yaml"], { cwd, env: none })
    expect(rejected.code).toBe(2)
    expect(rejected.stderr).toMatch(/s3:\/\/no-such-bucket\/ork\/ cannot be used: there is no bucket no-such-bucket: create it/)
    const wrong = await ork(["run", "large.yaml"], { cwd, env: { ...env, AWS_SECRET_ACCESS_KEY: "wrong" } })
    expect(wrong.stderr).toMatch(/the secret does not match the access key: check AWS_SECRET_ACCESS_KEY/)
    const sick = await ork(["doctor"], { cwd, env: none })
    expect(sick.code).toBe(1)
    expect(sick.stdout).toMatch(/fail\s+objects\s+.*there is no bucket no-such-bucket/)
    expect((await ork(["doctor"], { cwd, env })).stdout).toMatch(/ok\s+objects\s+s3:\/\//)
  })
})

describe("ork serve with S3", () => {
  it("starts a run for each new object of a trigger", { timeout: 120_000 }, async () => {
    const server = await startServer([], { cwd: temporaryFolder(), env })
    const path = own.address.replace("/ork?", "/incoming/**?")
    await server.deploy({
      name: "arrivals",
      triggers: [{ path, every: "1s", params: { file: "${{ run.cause.path }}" } }],
      params: { file: "" },
      tasks: { a: { command: 'echo "${{ params.file }}"' } },
    })
    const bucket = new S3ObjectStore({ bucket: own.bucket, prefix: "", endpoint: own.endpoint, region: null, pathStyle: true })
    const runs = async (): Promise<string> => (await server.call("GET", "/runs?workflow=arrivals&limit=100")).text
    for (const file of ["incoming/a.csv", "incoming/deep/b.csv"]) {
      // The trigger may have begun to look a moment after the deployment, so that the first version of the object is not new.
      await probe(async () => {
        await bucket.put(file, Buffer.from(String(Date.now())))
        return (await runs()).includes(`"file":"s3://${own.bucket}/${file}"`) ? true : null
      }, 2000)
    }
  })

  it("shows a log while it is written, and removes the objects of a removed run", async () => {
    const server = await startServer([], { cwd: temporaryFolder(), env })
    await server.deploy({
      name: "talk",
      tasks: { a: { command: "echo up; exec sleep 600" } },
    })
    const id = await server.trigger("talk")
    const text = () => server.call("GET", `/runs/${id}/tasks/a/logs`).then((response) => response.text)
    await probe(async () => ((await text()) === "up\n" ? true : null))
    expect((await server.call("GET", "/ready")).status).toBe(200)
    await server.call("POST", `/runs/${id}/cancel`)
    await server.reaches(id, "cancelled")
    expect(await text()).toBe("up\n")
    expect((await objects.list(`runs/${id}/`)).length).toBe(2)
    expect((await server.call("DELETE", `/runs/${id}`)).status).toBe(204)
    await probe(async () => ((await objects.list(`runs/${id}/`)).length === 0 ? true : null))
  })

  it("a log of 100 MB is read back byte for byte", async () => {
    const server = await startServer([], { cwd: temporaryFolder(), env })
    const size = 100 << 20
    await server.deploy({ name: "loud", tasks: { speak: { command: `yes 0123456789abcde | head -c ${size}` } } })
    const id = await server.trigger("loud")
    const headers = { "x-api-key": server.key }
    const response = await fetch(`${server.url}/runs/${id}/tasks/speak/logs?follow=true`, { headers })
    const hash = createHash("sha256")
    let bytes = 0
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      hash.update(chunk)
      bytes += chunk.byteLength
    }
    const expected = createHash("sha256")
    const block = "0123456789abcde\n".repeat(65_536)
    for (let i = 0; i < size / block.length; i++) expected.update(block)
    expect(bytes).toBe(size)
    expect(hash.digest("hex")).toBe(expected.digest("hex"))
    await server.reaches(id, "success")
    const kinds = (await objects.list(`runs/${id}/`)).map((key) => key.slice(key.lastIndexOf("/") + 1))
    expect(kinds).toEqual(["log", "log.idx"])
  }, 180_000)

  it("logs and outputs of a worker are stored in S3, and log parts are joined at the end", async () => {
    const server = await startServer(["--no-worker"], { cwd: temporaryFolder(), env })
    await startWorker(server, { name: "far" })
    const size = 5 << 20
    await server.deploy({
      name: "far",
      tasks: {
        speak: {
          command: `yes 0123456789abcde | head -c ${size}; (printf '"'; head -c 200000 /dev/zero | tr '\\0' y; printf '"') > $ORK_OUTPUT`,
        },
      },
    })
    const id = await server.trigger("far")
    expect((await server.reaches(id, "success", "failed"))["status"]).toBe("success")
    const names = await probe(async () => {
      const found = (await objects.list(`runs/${id}/`)).map((key) => key.slice(key.lastIndexOf("/") + 1))
      return found.some((name) => name.startsWith("0000")) ? null : found
    })
    expect(names).toEqual(["log", "log.idx", "output.json"])
    const { text } = await server.call("GET", `/runs/${id}/tasks/speak/logs`)
    expect(text).toBe("0123456789abcde\n".repeat(size / 16))
  })

  it("the uploaded parts of a killed server's log are readable", async () => {
    const server = await startServer([], { cwd: temporaryFolder(), env })
    await server.deploy({ name: "cut", tasks: { a: { command: "echo before; exec sleep 600", lost_retries: 0 } } })
    const id = await server.trigger("cut")
    const found = await probe(async () => {
      const [key] = await objects.list(`runs/${id}/`)
      return key === undefined ? null : key
    })
    server.process.kill("SIGKILL")
    await server.process.exit
    const log = new TaskLog(objects, found.slice(0, found.indexOf("log/")))
    expect((await log.tailLines(1))[0]).toMatchObject({ stream: "stdout", line: "before" })
  })
})
