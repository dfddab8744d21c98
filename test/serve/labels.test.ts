// A server claims a task with labels only if it was given all of them.

import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { reached, startWorker, tasksOf } from "../support/worker.ts"

const FLOW = { name: "train", tasks: { plain: { command: "true" }, fit: { command: "true", labels: ["gpu"] } } }

test("a plain server leaves a task with labels to the worker that has them, and explain says why it waits", async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  await server.deploy(FLOW)
  const run = await server.trigger("train")
  await reached(server, run, "success", 1)
  expect((await server.call("GET", `/runs/${run}/explain`)).text).toContain(
    "fit waits because no live server or worker accepts the queue default and has the label gpu",
  )
  await startWorker(server, { name: "big", args: ["--label", "gpu,eu"] })
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  expect((await tasksOf(server, run)).find(({ name }) => name === "fit")).toMatchObject({ worker: "big" })
})

test("a server with --label claims tasks of every queue whose labels it has", async () => {
  const server = await startServer(["--label", "gpu", "--label", "eu"], { cwd: temporaryFolder() })
  await server.deploy({
    name: "all",
    tasks: {
      plain: { command: "true", queue: "other" },
      gpu: { command: "true", labels: ["gpu"], queue: "heavy" },
      both: { command: "true", labels: ["gpu", "eu"] },
    },
  })
  const run = await server.trigger("all")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  const { body } = await server.call("GET", "/workers")
  expect(body["items"]).toMatchObject([{ kind: "server", labels: ["gpu", "eu"] }])
})
