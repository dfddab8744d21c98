// The administrator's policy: checked when a workflow or a job is created, and again when a task is dispatched.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

const privileged = { executor: "docker", image: "busybox", command: "true", docker: { privileged: true } }

it("rejects what the policy forbids, over the API, from the folder, as a job, and at the dispatch", async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, "flows"))
  writeFileSync(join(cwd, "flows/bad.yaml"), "name: bad\ntasks: { a: { command: 'true', run_as: root } }\n")
  writeFileSync(join(cwd, "ork.yaml"), "policy: { run_as: [etl], hosts: ['*.example.com'] }\n")
  const server = await startServer(["--dir", "flows"], { cwd })
  expect(server.process.stderr).toMatch(/does not allow run_as root \(policy\.run_as in ork\.yaml\)/)
  const message = expect.stringMatching(/the policy of this server does not allow privileged containers/) as string
  const definition = { name: "w", tasks: { a: privileged } }
  const deployed = await server.call("POST", "/workflows", definition)
  expect([deployed.status, deployed.body.error]).toEqual([
    400,
    expect.objectContaining({ code: "VALIDATION_ERROR", details: [expect.objectContaining({ path: "tasks.a", message })] }),
  ])
  const validated = await server.call("POST", "/workflows/validate", definition)
  expect(validated.text).toContain("does not allow privileged containers")
  const job = await server.call("POST", "/jobs", { name: "j", queue: "q", task: privileged })
  expect([job.status, job.text]).toEqual([400, expect.stringContaining("does not allow privileged containers")])

  await server.deploy({
    name: "late",
    params: { url: { type: "string", required: true } },
    tasks: { a: { executor: "http", url: "${{ params.url }}" } },
  })
  const id = await server.trigger("late", { params: { url: "http://127.0.0.1:1/" } })
  await server.reaches(id, "failed")
  const { body } = await server.call("GET", `/runs/${id}/tasks/a`)
  expect([body.error, body["attempt"]]).toEqual([
    "the policy of this server does not allow the host 127.0.0.1 (policy.hosts in ork.yaml)",
    1,
  ])
})

it("applies policy.hosts to a URL that is a secret, and to polls", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "ork.yaml"), "policy: { hosts: ['*.example.com'] }\nhttp_allow: 127.0.0.1\n")
  const server = await startServer([], { cwd, env: { ORK_SECRET_HOOK: "http://127.0.0.1:1/token" } })
  const poll = JSON.stringify({ ork_defer: { poll: { url: "http://127.0.0.1:1/", every: "1s", done_when: "true" } } })
  await server.deploy({
    name: "hidden",
    tasks: {
      request: { executor: "http", url: { secret: "HOOK" } },
      poll: { command: `echo '${poll}' > $ORK_OUTPUT`, defer: true },
    },
  })
  const id = await server.trigger("hidden")
  await server.reaches(id, "failed")
  for (const task of ["request", "poll"]) {
    const { body } = await server.call("GET", `/runs/${id}/tasks/${task}`)
    expect(body.error, task).toBe("the policy of this server does not allow the host 127.0.0.1 (policy.hosts in ork.yaml)")
  }
})
