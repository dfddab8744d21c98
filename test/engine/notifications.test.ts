import { describe, expect, it } from "vitest"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { type Mail, Notifier } from "../../src/engine/services/notifier.ts"
import { signatureProblem } from "../../src/protocol/wire/signature.ts"
import { fail, setup as setupEngine, type Script } from "./setup.ts"

interface Sent {
  url: string
  body: string
  headers: Record<string, string>
  at: number
}

const setup = async (scripts: { [task: string]: Script }, replies: (number | Error)[] = []) => {
  const fixture = await setupEngine(scripts)
  const { store, clock, engine } = fixture
  const sent: Sent[] = []
  const logged: string[] = []
  const log = (_: object, message: string): void => void logged.push(message)
  const post = async (url: string, init: RequestInit): Promise<Response> => {
    sent.push({ url, body: init.body as string, headers: init.headers as Record<string, string>, at: clock.now() })
    const reply = replies.shift() ?? 204
    if (reply instanceof Error) throw reply
    return new Response(null, { status: reply })
  }
  const mails: Mail[] = []
  const start = (secrets: { [name: string]: string } = {}, { hasMailer = true } = {}): Notifier => {
    const notifier = new Notifier({
      store,
      clock,
      log: { info: log, warn: log, error: log },
      secret: (name) => secrets[name] ?? null,
      fetch: post,
      evaluator: inlineEvaluator,
      mailer: hasMailer ? { send: async (mail) => void mails.push(mail) } : null,
      address: () => "https://ork.test",
    })
    engine.onEvent((event) => (event.type === "run" ? notifier.wake() : notifier.wakeLater()))
    notifier.start()
    return notifier
  }
  return { ...fixture, sent, mails, logged, start }
}

const notifying = (on: string, rest = ""): string =>
  `name: w\nnotify: [{ on: [${on}], webhook: "https://a.test/hook" }]\n${rest}\ntasks: { t: { command: x } }`

describe("a notification", () => {
  it.each([
    ["success", (): null => null],
    ["failure", (): never => fail("it broke")],
  ] as const)("of %s is sent when the run has finished, signed with ORK_SECRET_NOTIFY", async (kind, script) => {
    const fixture = await setup({ t: script })
    fixture.start({ NOTIFY: "notify-secret" })
    const runId = await fixture.trigger(notifying("success, failure"))
    const run = await fixture.ended(runId)
    await fixture.pass(100)
    expect(fixture.sent).toHaveLength(1)
    const { url, body, headers } = fixture.sent[0]!
    expect(url).toBe("https://a.test/hook")
    expect(JSON.parse(body)).toMatchObject({ event: kind, run: { id: runId, workflow: "w", status: run.status } })
    const message = { timestamp: headers["x-ork-timestamp"], signature: headers["x-ork-signature"], body }
    expect(signatureProblem("notify-secret", message, fixture.clock.now())).toBeNull()
    expect(headers["x-ork-delivery"]).toContain(runId)
  })

  it("is not sent for an event that the workflow does not name", async () => {
    const fixture = await setup({})
    fixture.start()
    await fixture.ended(await fixture.trigger(notifying("failure")))
    await fixture.pass(1000)
    expect(fixture.sent).toEqual([])
  })

  it("to Slack has the form of a Slack message", async () => {
    const fixture = await setup({ t: () => fail() })
    fixture.start()
    const runId = await fixture.trigger(
      'name: w\nnotify: [{ on: [failure], slack: "https://slack.test/x" }]\ntasks: { t: { command: x } }',
    )
    await fixture.ended(runId)
    await fixture.pass(100)
    expect(JSON.parse(fixture.sent[0]!.body)).toEqual({ text: `w failed: task t failed (run ${runId})` })
  })

  it("that cannot be delivered is sent again after growing delays", async () => {
    const fixture = await setup({}, [500, new Error("connection refused"), 302, 200])
    fixture.start()
    await fixture.ended(await fixture.trigger(notifying("success")))
    await fixture.pass(3_600_000)
    const waits = fixture.sent.slice(1).map(({ at }, i) => (at - fixture.sent[i]!.at) / 1000)
    expect(waits).toEqual([5, 10, 20])
  })

  it("that was not sent before a crash is sent after it", async () => {
    const fixture = await setup({})
    await fixture.ended(await fixture.trigger(notifying("success")))
    expect(fixture.sent).toEqual([])
    fixture.start()
    await fixture.pass(100)
    expect(fixture.sent).toHaveLength(1)
  })

  it("is sent by another server when the lease of the first one has expired", async () => {
    const fixture = await setup({})
    await fixture.ended(await fixture.trigger(notifying("success")))
    await fixture.store.claimNotifications({ limit: 10, leaseMs: 60_000 })
    fixture.start()
    await fixture.pass(59_000)
    expect(fixture.sent).toEqual([])
    await fixture.pass(2000)
    expect(fixture.sent).toHaveLength(1)
  })

  it("is sent by only one of several servers", async () => {
    const fixture = await setup({})
    for (let i = 0; i < 3; i++) fixture.start()
    await fixture.ended(await fixture.trigger(notifying("success")))
    await fixture.pass(1000)
    expect(fixture.sent).toHaveLength(1)
  })
})

describe("a deadline", () => {
  const slow: Script = async (_, { sleep }) => {
    await sleep(3_600_000)
    return null
  }

  it("that a run misses is notified once, and the run continues", async () => {
    const fixture = await setup({ t: slow })
    fixture.start()
    const runId = await fixture.trigger(notifying("deadline", "deadline: 30m"))
    await fixture.pass(30 * 60_000 - 1000)
    expect(fixture.sent).toEqual([])
    await fixture.pass(2000)
    expect(JSON.parse(fixture.sent[0]!.body)).toMatchObject({ event: "deadline", run: { id: runId, status: "running" } })
    expect((await fixture.ended(runId)).status).toBe("success")
    await fixture.pass(3_600_000)
    expect(fixture.sent).toHaveLength(1)
    expect(fixture.logged).toEqual(["a run is past its deadline"])
  })

  it("that a run meets is not notified", async () => {
    const fixture = await setup({ t: slow })
    fixture.start()
    await fixture.ended(await fixture.trigger(notifying("deadline", "deadline: 2h")))
    await fixture.pass(3 * 3_600_000)
    expect([fixture.sent, fixture.logged]).toEqual([[], []])
  })
})

describe("a notification by e-mail", () => {
  const mailing = (fields: string): string =>
    `name: w\nparams: { day: "2026-01-31" }\nnotify: { on: [failure], email: [a@x.test, b@x.test], ${fields} }\ntasks: { t: { command: x } }`

  it("says what happened, with the error and a link", async () => {
    const fixture = await setup({ t: () => fail("it broke") })
    fixture.start()
    const runId = await fixture.trigger(mailing(""))
    await fixture.ended(runId)
    await fixture.pass(100)
    expect(fixture.mails).toEqual([
      { to: ["a@x.test", "b@x.test"], subject: "w#1 failed", text: expect.any(String), id: expect.stringContaining(runId) },
    ])
    expect(fixture.mails[0]!.text).toMatch(/^w#1 failed\.\n\nError: task t failed.*\nRun: /)
    expect(fixture.mails[0]!.text).toContain(`See: https://ork.test/ui/runs/${runId}\n`)
  })

  it("uses the texts of its author", async () => {
    const fixture = await setup({ t: () => fail("it broke") })
    fixture.start()
    const subject = 'subject: "${{ run.workflow }} of ${{ params.day }} ${{ run.status }}"'
    await fixture.ended(await fixture.trigger(mailing(`${subject}, body: "Look at ${"${{ run.id }}"}: ${"${{ run.error }}"}"`)))
    await fixture.pass(100)
    expect(fixture.mails).toMatchObject([
      { subject: "w of 2026-01-31 failed", text: expect.stringMatching(/^Look at \S+: task t/) },
    ])
  })

  it("without an SMTP server is a problem of the run", async () => {
    const fixture = await setup({ t: () => fail() })
    fixture.start({}, { hasMailer: false })
    const runId = await fixture.trigger(mailing(""))
    await fixture.ended(runId)
    await fixture.pass(100)
    expect(await fixture.store.notificationProblems(runId)).toMatchObject([
      { kind: "failure", problem: "no SMTP server is set; set smtp in ork.yaml, or ORK_SMTP" },
    ])
  })
})

describe("a notification of a task", () => {
  const webhook = 'webhook: "https://a.test/hook"'
  const slow: Script = async (_, { sleep }) => {
    await sleep(3_000_000)
    return null
  }

  it("is sent once at its last attempt, with the task", async () => {
    const fixture = await setup({ a: () => fail("it broke") })
    fixture.start()
    const runId = await fixture.trigger(
      `name: w\ntasks:\n  a: { command: x, retries: 2, continue_on_error: true, notify: { on: [failure], ${webhook} } }\n  b: { command: x }`,
    )
    expect((await fixture.ended(runId)).status).toBe("success")
    await fixture.pass(2000)
    expect(fixture.sent.map(({ body }) => JSON.parse(body) as unknown)).toMatchObject([
      {
        event: "failure",
        run: { id: runId, workflow: "w" },
        task: { name: "a", path: "", status: "failed", attempt: 3, error: expect.stringContaining("it broke") },
      },
    ])
  })

  it("is sent again when a retry of the run ends the task again", async () => {
    const fixture = await setup({ a: () => fail("it broke") })
    fixture.start()
    const runId = await fixture.trigger(`name: w\ntasks: { a: { command: x, notify: { on: [failure], ${webhook} } } }`)
    await fixture.ended(runId)
    await fixture.pass(2000)
    await fixture.engine.retry(runId, {})
    await fixture.ended(runId)
    await fixture.pass(2000)
    expect(fixture.sent).toHaveLength(2)
  })

  it("to Slack and by e-mail names the task and its error", async () => {
    const fixture = await setup({ each: ({ path }) => (path === "1" ? fail("it broke") : null) })
    fixture.start()
    const runId = await fixture.trigger(`
name: w
tasks:
  each:
    foreach: [a, b]
    command: x
    notify:
      - { on: [failure], slack: "https://slack.test/x", email: a@x.test }
      - { on: [failure], email: b@x.test, subject: "\${{ task.name }} \${{ task.status }}", body: "\${{ task.error }}" }
`)
    await fixture.ended(runId)
    await fixture.pass(2000)
    const error = (await fixture.store.getTask({ runId, name: "each", path: "" }))!.error!
    expect(JSON.parse(fixture.sent[0]!.body)).toEqual({ text: `w: task each failed: ${error} (run ${runId})` })
    expect(fixture.mails.toSorted((a, b) => (a.to[0]! < b.to[0]! ? -1 : 1))).toMatchObject([
      { to: ["a@x.test"], subject: "w#1: task each failed", text: expect.stringContaining(`Error: ${error}\n`) },
      { to: ["b@x.test"], subject: "each failed", text: error },
    ])
  })

  it("that could not be delivered is a problem of the run that names the task", async () => {
    const fixture = await setup({ a: () => fail() }, [500])
    fixture.start()
    const runId = await fixture.trigger(`name: w\ntasks: { a: { command: x, notify: { on: [failure], ${webhook} } } }`)
    await fixture.ended(runId)
    await fixture.pass(2000)
    const explained = await explain({ store: fixture.store, isAlive: () => true }, runId)
    expect(explained.map(({ sentence }) => sentence)).toContain(
      "The notification of failure of a could not be delivered: a.test answered 500. Ork tries again after 1 try.",
    )
  })

  it("of a missed deadline is sent once, and the task continues; a task that met its deadline has none", async () => {
    const fixture = await setup({ late: slow, "g.late": slow })
    fixture.start()
    const notify = `notify: { on: [deadline], ${webhook} }`
    const runId = await fixture.trigger(`
name: w
tasks:
  early: { command: x, deadline: 10m, ${notify} }
  late: { command: x, deadline: 30m, ${notify} }
  quiet: { command: x, depends_on: [late], deadline: 20m }
  g:
    foreach: [1, 2]
    tasks:
      early: { command: x, deadline: 10m, ${notify} }
      late: { command: x, depends_on: [early], deadline: 40m, ${notify} }
  skipped: { command: x, if: "false", deadline: 10m, ${notify} }
`)
    await fixture.pass(30 * 60_000 - 1000)
    expect(fixture.sent).toEqual([])
    expect((await fixture.ended(runId)).status).toBe("success")
    await fixture.pass(3_600_000)
    expect(fixture.sent.map(({ body }) => JSON.parse(body) as unknown)).toMatchObject([
      { event: "deadline", task: { name: "late", status: "running" } },
      { event: "deadline", task: { name: "g.late" } },
    ])
    expect(fixture.logged).toEqual(Array.from({ length: 3 }, () => "a task is past its deadline"))
  })

  it("of a deadline is sent for a task whose group has not started", async () => {
    const fixture = await setup({ late: slow })
    fixture.start()
    const notify = `notify: { on: [deadline], ${webhook} }`
    const runId = await fixture.trigger(
      `name: w\ntasks:\n  late: { command: x }\n  g: { depends_on: [late], tasks: { inner: { command: x, deadline: 1m, ${notify} } } }`,
    )
    await fixture.pass(61_000)
    expect(JSON.parse(fixture.sent[0]!.body)).toMatchObject({ task: { name: "g.inner", status: null }, run: { id: runId } })
  })
})
