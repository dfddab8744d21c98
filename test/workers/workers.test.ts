import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { processesOf, startOrk } from "../support/ork-process.ts"
import { probe, startServer } from "../support/server.ts"
import { reached, startWorker, tasksOf } from "../support/worker.ts"

const serve = (leaseMs = 10_000, cwd = temporaryFolder(), args: string[] = []) =>
  startServer(["--no-worker", ...args], { cwd, env: { ORK_WORKER_LEASE: `${leaseMs}ms` } })

describe("a worker", () => {
  it("runs tasks of a server: inputs, outputs of any size, logs, retries", async () => {
    const server = await serve()
    await startWorker(server, { name: "far" })
    await server.deploy({
      name: "all",
      tasks: {
        small: { command: `echo one; echo '{"n":1}'` },
        large: { command: `seq 40000 | sed 's/^/"/;s/$/",/' | (echo [; cat; echo '"end"]') > $ORK_OUTPUT` },
        each: {
          depends_on: ["small", "large"],
          foreach: [1, 2, 3],
          command: `wc -c < $ORK_UPSTREAM/large.json; cat $ORK_INPUT`,
        },
        again: { command: `echo attempt $ORK_ATTEMPT; [ $ORK_ATTEMPT = 2 ]`, retry: { max_attempts: 2, base_delay: "0s" } },
      },
    })
    const runId = await server.trigger("all")
    expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
    const tasks = await tasksOf(server, runId)
    expect(tasks.map((task) => task.worker)).toEqual(tasks.map(() => "far"))
    expect(tasks.find(({ name }) => name === "small")!.output).toEqual({ n: 1 })
    expect(tasks.find(({ name }) => name === "again")!.attempt).toBe(2)
    const log = (path: string) => server.call("GET", `/runs/${runId}/tasks/${path}`)
    expect((await log("small/logs")).text).toBe('one\n{"n":1}\n')
    expect((await log("again/logs?attempt=1")).text).toBe("attempt 1\n")
    expect((await log("each/logs?index=1")).text).toMatch(/^3\d{5}\n\{"item":2,"small":\{"n":1\}\}$/)
    const { bytes } = (await log("large")).body["output_object"] as { bytes: number }
    expect((await log("each/logs?index=1")).text.startsWith(`${bytes}\n`)).toBe(true)
  })

  it("keeps the logs of tasks that start while others of their run end", async () => {
    const server = await serve()
    await startWorker(server, { name: "far", capacity: 2 })
    await server.deploy({ name: "many", tasks: { t: { parallel: 150, command: "echo log of $ORK_PARALLEL_INDEX" } } })
    const runId = await server.trigger("many")
    expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
    const indexes = Array.from({ length: 150 }, (_, i) => i)
    const logs = indexes.map(async (i) => (await server.call("GET", `/runs/${runId}/tasks/t/logs?index=${i}`)).text)
    expect(await Promise.all(logs)).toEqual(indexes.map((i) => `log of ${i}\n`))
  })

  it("stores artifacts through the server, and gets those that another worker stored", async () => {
    const server = await serve()
    await startWorker(server, { name: "first", args: ["--queue", "one"] })
    await startWorker(server, { name: "second", args: ["--queue", "two"] })
    await server.deploy({
      name: "files",
      tasks: {
        make: {
          queue: "one",
          foreach: ["a", "b"],
          command: 'mkdir -p out; seq 200000 > "out/${{ item }}.txt"; echo > "out/empty ${{ item }}"',
          artifacts: ["out/${{ item }}.txt", "out/empty ${{ item }}"],
        },
        use: {
          queue: "two",
          artifacts_from: "make",
          command: `cd $ORK_ARTIFACTS && find . -type f | sort && wc -c < make/1/out/b.txt`,
        },
        none: { queue: "two", command: "true", artifacts: "*.none" },
      },
    })
    const runId = await server.trigger("files")
    await server.reaches(runId, "failed")
    const get = (path: string) => server.call("GET", `/runs/${runId}/tasks/${path}`)
    expect((await get("use/logs")).text).toBe(
      "./make/0/out/a.txt\n./make/0/out/empty a\n./make/1/out/b.txt\n./make/1/out/empty b\n1288895\n",
    )
    expect((await get("make/artifacts?index=1")).body["items"]).toEqual([
      { path: "out/b.txt", bytes: 1_288_895 },
      { path: "out/empty b", bytes: 1 },
    ])
    const content = await get("make/artifacts/content?index=1&file=out%2Fempty%20b")
    expect([content.status, content.text]).toEqual([200, "\n"])
    expect((await get("none")).body["error"]).toBe(
      'the artifacts of none cannot be stored: no file in its working folder matches "*.none"',
    )
  })

  it("composes the input of a task from large outputs, and checks them against a schema", async () => {
    const server = await serve()
    await startWorker(server, { name: "far" })
    const command = `seq 400000 | sed 's/^/"/;s/$/",/' | (echo [; cat; echo '"end"]') > $ORK_OUTPUT`
    await server.deploy({
      name: "large",
      tasks: {
        large: { command },
        use: { depends_on: ["large"], command: `wc -c < $ORK_INPUT; tail -c 8 $ORK_INPUT` },
        checked: { command, output: { type: "object" } },
      },
    })
    const runId = await server.trigger("large")
    await server.reaches(runId, "failed")
    const log = (path: string) => server.call("GET", `/runs/${runId}/tasks/${path}`)
    const { bytes } = (await log("large")).body["output_object"] as { bytes: number }
    expect(bytes).toBeGreaterThan(3_000_000)
    expect((await log("use/logs")).text).toBe(`${bytes + '{"large":}'.length}\n"end"]\n}`)
    expect((await log("checked")).body.error).toContain("the output does not fit its schema: must be object")
  })

  it("with the folder's key waits for the server of the folder, and starts when it is there", async () => {
    const cwd = temporaryFolder()
    const first = await serve(15_000, cwd)
    const port = new URL(first.url).port
    first.process.kill("SIGTERM")
    await first.process.exit
    const worker = startOrk(["worker", "--server", first.url, "--name", "early"], { cwd })
    await worker.printed(/waiting for the server at/)
    await serve(15_000, cwd, ["--port", port])
    await worker.printed(/claims work from/)
  })

  it("passes large outputs inside a group to the instances of the same item, and those of the latest attempt after a retry", async () => {
    const folder = temporaryFolder()
    const server = await serve()
    await startWorker(server, { name: "far" })
    const round = join(folder, "round")
    writeFileSync(round, "first")
    await server.deploy({
      name: "groups",
      tasks: {
        g: {
          foreach: ["a", "b"],
          tasks: {
            make: {
              env: { ITEM: "${{ parent.item }}" },
              command: `printf '["%s-%s","%70000s"]' $(cat ${round}) $ITEM x > $ORK_OUTPUT`,
            },
            each: {
              depends_on: ["make"],
              foreach: [1, 2],
              command: `head -c 12 $ORK_UPSTREAM/make.json; test $(cat ${round}) = second`,
            },
          },
        },
      },
    })
    const runId = await server.trigger("groups")
    await server.reaches(runId, "failed")
    const read = async (path: string): Promise<string | undefined> => {
      const { text } = await server.call("GET", `/runs/${runId}/tasks/g.each/logs?path=${path}`)
      return /"(.*?)"/.exec(text)?.[1]
    }
    const paths = ["0.0", "0.1", "1.0", "1.1"]
    expect(await Promise.all(paths.map(read))).toEqual(["first-a", "first-a", "first-b", "first-b"])
    writeFileSync(round, "second")
    await server.call("POST", `/runs/${runId}/retry`, { from: "g.make" })
    await server.reaches(runId, "success")
    expect(await Promise.all(paths.map(read))).toEqual(["second-a", "second-a", "second-b", "second-b"])
  })

  it("claims tasks of its queues whose labels it has, and explain reports the others", async () => {
    const server = await serve()
    const worker = await startWorker(server, { name: "gpu", args: ["--queue", "heavy", "--label", "gpu"] })
    await server.deploy({
      name: "w",
      tasks: { a: { command: "echo a", queue: "heavy", labels: ["gpu"] }, b: { command: "echo b", labels: ["tpu"] } },
    })
    const runId = await server.trigger("w")
    await reached(server, runId, "success", 1)
    const { body } = await server.call("GET", `/runs/${runId}/explain`)
    expect((body["items"] as { sentence: string }[]).map(({ sentence }) => sentence)).toEqual([
      "b waits because no live server or worker accepts the queue default and has the label tpu.",
    ])
    const { body: listed } = await server.call("GET", "/workers")
    expect((listed["items"] as { kind: string }[]).find(({ kind }) => kind === "worker")).toMatchObject({
      name: "gpu",
      alive: true,
      queues: ["heavy"],
      labels: ["gpu"],
      capacity: 8,
      running: 0,
    })
    worker.kill("SIGTERM")
    expect(await worker.exit).toEqual({ code: 0, signal: null })
  })

  it("stops a cancelled task at once, even if all of its slots are in use", async () => {
    const server = await serve()
    await startWorker(server, { name: "far", capacity: 1 })
    await server.deploy({ name: "slow", tasks: { a: { command: "exec sleep 60" } } })
    const runId = await server.trigger("slow")
    await reached(server, runId, "running", 1)
    await server.call("POST", `/runs/${runId}/cancel`)
    expect((await server.reaches(runId, "cancelled"))["status"]).toBe("cancelled")
    expect(processesOf(runId)).toEqual([])
  })

  it("that is told to stop finishes quick tasks, releases the rest and deregisters", async () => {
    const server = await serve()
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, "ork.yaml"), "grace: 500ms\n")
    const worker = await startWorker(server, { name: "first", cwd })
    const go = join(cwd, "go")
    const wait = `while [ ! -e ${go} ]; do sleep 0.02; done`
    await server.deploy({
      name: "w",
      tasks: { quick: { command: wait }, long: { command: "exec sleep $((61 - ORK_ATTEMPT * 30))" } },
    })
    const runId = await server.trigger("w")
    await reached(server, runId, "running", 2)
    worker.kill("SIGTERM")
    await worker.printed(/draining/)
    writeFileSync(go, "")
    expect(await worker.exit).toEqual({ code: 0, signal: null })
    const { body } = await server.call("GET", "/workers")
    expect((body["items"] as { kind: string }[]).filter(({ kind }) => kind === "worker")).toEqual([])
    await reached(server, runId, "success", 1)
    expect((await tasksOf(server, runId)).find(({ name }) => name === "long")).toMatchObject({ status: "pending", attempt: 1 })
  })

  it("is rejected without a key of the right scope, and reports invalid flags", async () => {
    const server = await serve()
    const { body } = await server.call("POST", "/keys", { name: "reader", scopes: ["read"] })
    const cwd = temporaryFolder()
    const run = (args: string[], key: string) => ork(["worker", ...args], { cwd, env: { ORK_API_KEY: key } })
    const refused = await run(["--server", server.url], body["key"] as string)
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("a key with the scope worker is required")])
    expect((await run(["--server", "nowhere"], server.key)).stderr).toMatch(/--server: "nowhere" is not an address/)
    const labels = ["--server", server.url, "--label", "a,b,c,d,e,f,g"]
    expect((await run(labels, server.key)).stderr).toMatch(/--label: at most 6 labels are allowed/)
  })
})

describe("after a crash", () => {
  it("all tasks of a killed worker finish on others, each once", async () => {
    const server = await serve(2000)
    const victim = await startWorker(server, { name: "victim", capacity: 50 })
    await server.deploy({
      name: "many",
      tasks: {
        t: { parallel: 50, command: '[ "$ORK_ATTEMPT" = 1 ] && exec sleep 60; echo "$ORK_PARALLEL_INDEX"', retries: 0 },
      },
    })
    const runId = await server.trigger("many")
    await reached(server, runId, "running", 50)
    await startWorker(server, { name: "heir", capacity: 25 })
    victim.kill("SIGKILL")
    expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
    const tasks = await tasksOf(server, runId)
    expect(tasks).toHaveLength(50)
    for (const { status, attempt, worker } of tasks) expect([status, attempt, worker]).toEqual(["success", 2, "heir"])
    const one = await server.call("GET", `/runs/${runId}/tasks/t?index=7`)
    expect((one.body["attempts"] as TaskAttempt[]).map(({ status, worker }) => [status, worker])).toEqual([
      ["lost", "victim"],
      ["success", "heir"],
    ])
    expect(processesOf(runId)).toEqual([])
  })

  it("a worker that was suspended beyond its lease is evicted, and its tasks do not run beside their new attempts", async () => {
    const server = await serve(3000)
    const paused = await startWorker(server, { name: "paused" })
    const go = join(temporaryFolder(), "go")
    const second = `while [ ! -e ${go} ]; do sleep 0.05; done`
    await server.deploy({
      name: "w",
      tasks: { t: { parallel: 3, command: `[ "$ORK_ATTEMPT" = 1 ] && exec sleep 60; ${second}; echo done` } },
    })
    const runId = await server.trigger("w")
    await reached(server, runId, "running", 3)
    paused.kill("SIGSTOP")
    await startWorker(server, { name: "heir" })
    await probe(async () => {
      const tasks = await tasksOf(server, runId)
      return tasks.every(({ status, attempt }) => status === "running" && attempt === 2) ? true : null
    })
    expect(attemptsAlive(runId)).toEqual(["2"])
    paused.kill("SIGCONT")
    await paused.printed(/was evicted/)
    await paused.printed(/registered[^]*registered/)
    expect(attemptsAlive(runId)).toEqual(["2"])
    writeFileSync(go, "")
    expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
    for (const { attempt, worker } of await tasksOf(server, runId)) expect([attempt, worker]).toEqual([2, "heir"])
  })

  it("tasks on workers survive the crash of the server, however long it is down", async () => {
    const cwd = temporaryFolder()
    const first = await serve(1000, cwd)
    const worker = await startWorker(first, { name: "far", capacity: 10 })
    const folder = temporaryFolder()
    await first.deploy({
      name: "w",
      tasks: {
        t: {
          parallel: 10,
          command: `while [ ! -e ${folder}/go ]; do sleep 0.1; done; echo x >> ${folder}/$ORK_PARALLEL_INDEX; echo said`,
        },
        after: { depends_on: ["t"], command: "echo after" },
      },
    })
    const runId = await first.trigger("w")
    await reached(first, runId, "running", 10)
    first.process.kill("SIGKILL")
    await first.process.exit
    writeFileSync(join(folder, "go"), "")
    await probe(() => (Array.from({ length: 10 }, (_, i) => join(folder, String(i))).every(existsSync) ? true : null))
    await worker.printed(/no server responds at/)
    const port = new URL(first.url).port
    // The last --port takes precedence.
    const again = await serve(1000, cwd, ["--port", port])
    expect((await again.reaches(runId, "success", "failed"))["status"]).toBe("success")
    for (const { attempt, worker: name } of await tasksOf(again, runId)) expect([attempt, name]).toEqual([1, "far"])
    for (let i = 0; i < 10; i++) expect(readFileSync(join(folder, String(i)), "utf8")).toBe("x\n")
    expect((await again.call("GET", `/runs/${runId}/tasks/t/logs?index=3`)).text).toBe("said\n")
  })
})

interface TaskAttempt {
  status: string
  worker: string | null
}

/** The numbers of the attempts that have live processes. */
const attemptsAlive = (runId: string): string[] => {
  const found = processesOf(runId).map((pid) => {
    try {
      return /ORK_ATTEMPT=(\d+)/.exec(readFileSync(`/proc/${pid}/environ`, "latin1"))?.[1] ?? "?"
    } catch {
      return null
    }
  })
  return [...new Set(found.filter((number) => number !== null))]
}
