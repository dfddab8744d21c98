import { describe, expect, it } from "vitest"
import { BLOCKED_REQUEST } from "../../src/core/model/ports.ts"
import { parsePolicy } from "../../src/core/settings/policy.ts"
import type { Assignment } from "../../src/executors/executor.ts"
import { setup } from "./setup.ts"

const HOUR = 3_600_000

const tokenOf = ({ callback }: Assignment): string => callback!()["ORK_CALLBACK_TOKEN"]!

describe("a deferred task", () => {
  it("releases its slot until a callback finishes it once", async () => {
    const fixture = await setup({ a: () => ({ ork_defer: { callback: {} } }) }, { concurrency: 1 })
    const runId = await fixture.trigger(
      "name: far\ntasks: { a: { command: x, defer: true }, b: { command: y }, c: { command: z } }",
    )
    await fixture.pass(1000)
    expect(await fixture.statuses(runId)).toEqual({ a: "running", b: "success", c: "success" })
    const token = tokenOf(fixture.launched.find(({ task }) => task === "a")!)
    await fixture.until(fixture.engine.externalSignals.callback(token, { status: "success", output: [1] }))
    expect((await fixture.ended(runId)).status).toBe("success")
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: [1] })
    await expect(fixture.engine.externalSignals.callback(token, { status: "success" })).rejects.toThrow("has ended already")
    await expect(fixture.engine.externalSignals.callback(token.replace(/.$/, "x"), { status: "success" })).rejects.toThrow(
      "no such",
    )
  })

  it("that is reported as failed is retried with a new token", async () => {
    const fixture = await setup({ a: () => ({ ork_defer: { callback: {} } }) })
    const runId = await fixture.trigger(
      "name: far\ntasks: { a: { command: x, defer: true, retries: 1, retry: { base_delay: 1s } } }",
    )
    await fixture.pass(500)
    const tokens = (): string[] => fixture.launched.map(tokenOf)
    await fixture.until(fixture.engine.externalSignals.callback(tokens()[0]!, { status: "failed", error: "disk full" }))
    await fixture.pass(3000)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "running", attempt: 2 })
    expect(new Set(tokens()).size).toBe(2)
    await fixture.until(fixture.engine.externalSignals.callback(tokens()[1]!, { status: "failed", error: "disk full" }))
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "failed", error: "disk full" })
  })

  it("rejects a callback before it waits", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true } }")
    await fixture.pass(1000)
    const token = tokenOf(fixture.launched[0]!)
    await expect(fixture.engine.externalSignals.callback(token, { status: "success" })).rejects.toThrow(
      "not waiting yet; try again",
    )
    await fixture.engine.cancel(runId)
    await fixture.ended(runId)
  })

  it("has no timeout unless one is set", async () => {
    const scripts = { a: () => ({ ork_defer: { callback: {} } }), b: () => ({ ork_defer: { callback: { timeout: "3h" } } }) }
    const fixture = await setup(scripts)
    const runId = await fixture.trigger(
      "name: far\ntasks: { a: { command: x, defer: true, timeout: 4h }, b: { command: x, defer: true } }",
    )
    await fixture.pass(2 * HOUR)
    expect(await fixture.statuses(runId)).toEqual({ a: "running", b: "running" })
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 4h")
    expect((await fixture.task(runId, "b")).error).toBe("timed out after 3h")
  })

  const POLL = { url: "https://jobs.test/7", every: "10s", done_when: "response.body.state == 'done'" }

  const TRUSTED = ", defer_hosts: [jobs.test], env: { TOKEN: { secret: API_TOKEN } }"

  const polled = async (replies: (number | { status: number; body: unknown })[], poll: object = {}, task = "") => {
    const requests: { url: string; headers: unknown }[] = []
    const fixture = await setup(
      { a: () => ({ ork_defer: { poll: { ...POLL, ...poll } } }) },
      {
        fetch: async (url, { headers }) => {
          requests.push({ url, headers })
          const next = replies.shift()
          if (next === undefined) throw new Error("connection refused")
          const { status, body } = typeof next === "number" ? { status: next, body: "busy" } : next
          return new Response(JSON.stringify(body), { status })
        },
      },
    )
    const runId = await fixture.trigger(`name: far\ntasks: { a: { command: x, defer: true ${task} } }`)
    return { fixture, runId, requests }
  }

  it("is polled until it is done, with the response body as output", async () => {
    const { fixture, runId, requests } = await polled(
      [{ status: 200, body: { state: "queued" } }, 503, { status: 200, body: { state: "done", rows: 3 } }],
      { headers: { authorization: { secret: "API_TOKEN" } } },
      TRUSTED,
    )
    const startedAt = fixture.clock.now()
    expect((await fixture.ended(runId)).status).toBe("success")
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: { state: "done", rows: 3 } })
    expect(requests).toHaveLength(3)
    expect(requests[0]!.headers).toEqual({ authorization: "s3cret" })
    expect(fixture.clock.now() - startedAt).toBeGreaterThanOrEqual(40_000)
  })

  it("reaches only hosts that the policy of the administrator allows", async () => {
    const fixture = await setup(
      { a: () => ({ ork_defer: { poll: POLL } }) },
      {
        policy: parsePolicy({ hosts: ["*", "!jobs.test"] })!,
        fetch: async (url, { check }) => {
          check?.(new URL(url))
          return new Response("{}")
        },
      },
    )
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true } }")
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect((await fixture.task(runId, "a")).error).toBe(
      "the policy of this server does not allow the host jobs.test (policy.hosts in ork.yaml)",
    )
  })

  it("has the output that its expression selects", async () => {
    const { fixture, runId } = await polled([{ status: 200, body: { state: "done", rows: 3 } }], {
      output: "response.body.rows",
    })
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: 3 })
  })

  it("fails when fail_when holds", async () => {
    const { fixture, runId } = await polled([{ status: 404, body: {} }], { fail_when: "response.status == 404" })
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      error: "fail_when holds: response.status == 404 (status 404)",
    })
  })

  it("is polled less often while the service does not respond, until its timeout", async () => {
    const { fixture, runId, requests } = await polled([], { timeout: "10m" })
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      error: "timed out after 10m: the last poll failed: connection refused",
    })
    expect(requests.length).toBeGreaterThan(3)
    expect(requests.length).toBeLessThan(10)
  })

  it("reports the last status at its timeout", async () => {
    const { fixture, runId } = await polled([503, 418], { every: "10s", timeout: "40s" })
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 40s: the last response had the status 418")
  })

  it("times out in time when the service does not respond", async () => {
    const fixture = await setup(
      { a: () => ({ ork_defer: { poll: { ...POLL, timeout: "15s" } } }) },
      { fetch: () => new Promise<never>(() => {}) },
    )
    const begun = fixture.clock.now()
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true } }")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 15s: the last poll failed: no answer within 5s")
    expect(fixture.clock.now() - begun).toBeLessThan(16_000)
  })

  it("is polled while another service with many tasks does not respond", async () => {
    const slow = { ...POLL, url: "https://slow.test/7", every: "1s" }
    const fixture = await setup(
      { slow: () => ({ ork_defer: { poll: slow } }), a: () => ({ ork_defer: { poll: POLL } }) },
      {
        fetch: (url) =>
          url.startsWith("https://slow.test/")
            ? new Promise<never>(() => {})
            : Promise.resolve(Response.json({ state: "done" })),
        concurrency: 200,
      },
    )
    const begun = fixture.clock.now()
    const runId = await fixture.trigger(
      "name: far\ntasks: { slow: { command: x, defer: true, parallel: 150 }, a: { command: x, defer: true } }",
    )
    const done = async (): Promise<void> => {
      while ((await fixture.task(runId, "a")).status !== "success") await fixture.pass(1000)
    }
    await done()
    expect(fixture.clock.now() - begun).toBeLessThan(15_000)
    await fixture.engine.cancel(runId)
    await fixture.ended(runId)
  })

  it("fails at its timeout when its secret cannot be read", async () => {
    let reads = 0
    const fixture = await setup(
      { a: () => ({ ork_defer: { poll: { ...POLL, headers: { authorization: { secret: "API_TOKEN" } }, timeout: "10m" } } }) },
      {
        secret: () => (++reads === 1 ? "s3cret" : new Promise<never>(() => {})),
        fetch: () => Promise.reject(new Error("never called")),
      },
    )
    const runId = await fixture.trigger(`name: far\ntasks: { a: { command: x, defer: true ${TRUSTED} } }`)
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 10m: the last poll failed: no answer within 30s")
  })

  it("logs the host that did not respond, without the secret parts of the URL", async () => {
    const logged: object[] = []
    const fixture = await setup(
      {
        a: () => ({ ork_defer: { poll: { ...POLL, url: "https://me:word@jobs.test/hook/s3cret?key=s3cret", timeout: "1m" } } }),
      },
      {
        fetch: () => Promise.reject(new Error("connection refused")),
        log: { info: () => {}, warn: (fields, message) => logged.push({ ...fields, message }), error: () => {} },
      },
    )
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true } }")
    await fixture.ended(runId)
    expect(logged[0]).toEqual({
      run: runId,
      service: "https://jobs.test",
      error: "connection refused",
      message: "a poll failed; trying again",
    })
  })

  it("fails at once when its address is blocked", async () => {
    const fixture = await setup(
      { a: () => ({ ork_defer: { poll: POLL } }) },
      { fetch: () => Promise.reject(Object.assign(new Error("no way there"), { name: BLOCKED_REQUEST })) },
    )
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true, retries: 3 } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "failed", error: "no way there", attempt: 1 })
  })

  it("fails when the expression does not fit the response", async () => {
    const { fixture, runId } = await polled([{ status: 200, body: { status: "done" } }])
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toContain("response.body")
  })

  it("validates the output against its schema", async () => {
    const { fixture, runId } = await polled(
      [{ status: 200, body: { state: "done" } }],
      {},
      ", output: { type: object, required: [rows] }",
    )
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toContain("does not fit its schema")
  })

  it.each([
    [{ poll: {} }, "ork_defer.poll needs url"],
    [{ poll: { ...POLL, evry: 3 } }, 'ork_defer.poll has no field "evry"; did you mean every?'],
    [{ poll: { ...POLL, done_when: "params.x" } }, "ork_defer.poll.done_when can use `response` only, not params"],
    [{ poll: { ...POLL, url: "file:///etc/passwd" } }, "ork_defer.poll.url must start with http:// or https://"],
    [{}, "ork_defer needs either poll or callback"],
  ])("that is invalid fails with a message: %j", async (defer, message) => {
    const fixture = await setup({ a: () => ({ ork_defer: defer }) })
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true, retries: 3 } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "failed", error: message, attempt: 1 })
  })

  it("needs `defer: true`", async () => {
    const fixture = await setup({ a: () => ({ ork_defer: { callback: {} } }) })
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x, retries: 3 } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      error: "it returned ork_defer, but the task does not set `defer: true`",
      attempt: 1,
    })
    expect(fixture.launched[0]!.callback).toBeUndefined()
  })

  it.each([
    [", defer_hosts: [jobs.test]", "uses the secret API_TOKEN, which the task does not declare; add it to `env` of the task"],
    [", env: { T: { secret: API_TOKEN } }", "sends a secret to jobs.test, which is not in `defer_hosts` of the task"],
    [
      ", env: { T: { secret: API_TOKEN } }, defer_hosts: [obs.test, '*.jobs.test', 'jobs.test:8443']",
      "sends a secret to jobs.test, which is not in `defer_hosts` of the task",
    ],
  ])("sends a secret only if its author declares secret and host: %s", async (task, message) => {
    const headers = { authorization: { secret: "API_TOKEN" } }
    const { fixture, runId, requests } = await polled([{ status: 200, body: { state: "done" } }], { headers }, task)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      error: `ork_defer.poll.headers.authorization ${message}`,
    })
    expect(requests).toEqual([])
  })

  it.each(["jobs.test", "'*.test'", "'jobs.test:443'", "JOBS.test"])("may list its host as %s", async (host) => {
    const headers = { authorization: { secret: "API_TOKEN" } }
    const task = `, env: { T: { secret: API_TOKEN } }, defer_hosts: [${host}]`
    const { fixture, runId, requests } = await polled([{ status: 200, body: { state: "done" } }], { headers }, task)
    await fixture.ended(runId)
    expect(requests[0]!.headers).toEqual({ authorization: "s3cret" })
  })

  it("has its secrets masked in the response and in the output of a callback", async () => {
    const body = { state: "done", echo: "you sent s3cret", s3cret: ["s3cret"] }
    const { fixture, runId } = await polled([{ status: 200, body }], {}, TRUSTED)
    await fixture.ended(runId)
    const masked = { state: "done", echo: "you sent ***", "***": ["***"] }
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: masked })

    const called = await setup({ a: () => ({ ork_defer: { callback: {} } }) })
    const callbackRun = await called.trigger(`name: far\ntasks: { a: { command: x, defer: true ${TRUSTED} } }`)
    await called.pass(500)
    const token = tokenOf(called.launched[0]!)
    await called.until(called.engine.externalSignals.callback(token, { status: "success", output: body }))
    await called.ended(callbackRun)
    expect((await called.task(callbackRun, "a")).output).toEqual({ inline: masked })
  })

  it("ends although a secret of the task no longer exists, or cannot be read", async () => {
    const secrets: { [name: string]: () => string | null } = {
      API_TOKEN: () => "s3cret",
      REMOVED: () => null,
      BROKEN: () => {
        throw new Error("the manager does not respond")
      },
    }
    let started = false
    const fixture = await setup(
      {
        a: () => ({ ork_defer: { callback: {} } }),
        b: () => ({ ork_defer: { poll: { ...POLL, headers: { authorization: { secret: "API_TOKEN" } } } } }),
      },
      {
        secret: (name) => (started ? secrets[name]!() : "first"),
        fetch: async () => new Response(JSON.stringify({ state: "done", echo: "s3cret" })),
      },
    )
    const task =
      "{ command: x, defer: true, defer_hosts: [jobs.test], env: { A: { secret: API_TOKEN }, B: { secret: REMOVED }, C: { secret: BROKEN } } }"
    const runId = await fixture.trigger(`name: far\ntasks: { a: ${task}, b: ${task} }`)
    await fixture.pass(500)
    expect(fixture.launched).toHaveLength(2)
    started = true
    const token = tokenOf(fixture.launched.find(({ task: name }) => name === "a")!)
    await fixture.until(fixture.engine.externalSignals.callback(token, { status: "success", output: "s3cret" }))
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: "***" })
    expect((await fixture.task(runId, "b")).output).toMatchObject({ inline: { echo: "***" } })
  })

  it("does not interpret the secret parts of a response", async () => {
    const { fixture, runId } = await polled(
      [{ status: 200, body: { state: "done", echo: "s3cret" } }],
      { output: "response.body.echo.size()" },
      TRUSTED,
    )
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: 3 })
  })

  it("has the token of its callback masked in its log", async () => {
    const fixture = await setup({ a: () => ({ ork_defer: { callback: {} } }) })
    await fixture.trigger("name: far\ntasks: { a: { command: x, defer: true } }")
    await fixture.pass(500)
    expect(fixture.launched[0]!.secrets).toEqual([tokenOf(fixture.launched[0]!)])
  })
})
