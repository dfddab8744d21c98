import { describe, expect, it } from "vitest"
import { Notifier } from "../../src/engine/services/notifier.ts"
import { signatureProblem } from "../../src/protocol/wire/signature.ts"
import { fail, setup as setupEngine, type Script } from "./world.ts"

interface Sent {
  url: string
  body: string
  headers: Record<string, string>
  at: number
}

const setup = async (scripts: { [task: string]: Script }, answers: (number | Error)[] = []) => {
  const world = await setupEngine(scripts)
  const { store, clock, engine } = world
  const sent: Sent[] = []
  const logged: string[] = []
  const log = (_: object, message: string): void => void logged.push(message)
  const post = async (url: string, init: RequestInit): Promise<Response> => {
    sent.push({ url, body: init.body as string, headers: init.headers as Record<string, string>, at: clock.now() })
    const answer = answers.shift() ?? 204
    if (answer instanceof Error) throw answer
    return new Response(null, { status: answer })
  }
  const start = (secrets: { [name: string]: string } = {}): Notifier => {
    const notifier = new Notifier({
      store,
      clock,
      log: { info: log, warn: log, error: log },
      secret: (name) => secrets[name] ?? null,
      fetch: post,
    })
    engine.onEvent((event) => event.type === "run" && notifier.wake())
    notifier.start()
    return notifier
  }
  return { ...world, sent, logged, start }
}

const telling = (on: string, rest = ""): string =>
  `name: w\nnotify: [{ on: [${on}], webhook: "https://a.test/hook" }]\n${rest}\ntasks: { t: { command: x } }`

describe("a notice", () => {
  it.each([
    ["success", (): null => null],
    ["failure", (): never => fail("it broke")],
  ] as const)("of %s is sent when the run has ended, signed with ORK_SECRET_NOTIFY", async (kind, script) => {
    const world = await setup({ t: script })
    world.start({ NOTIFY: "notify-secret" })
    const runId = await world.trigger(telling("success, failure"))
    const run = await world.ended(runId)
    await world.pass(100)
    expect(world.sent).toHaveLength(1)
    const { url, body, headers } = world.sent[0]!
    expect(url).toBe("https://a.test/hook")
    expect(JSON.parse(body)).toMatchObject({ event: kind, run: { id: runId, workflow: "w", status: run.status } })
    const message = { timestamp: headers["x-ork-timestamp"], signature: headers["x-ork-signature"], body }
    expect(signatureProblem("notify-secret", message, world.clock.now())).toBeNull()
    expect(headers["x-ork-delivery"]).toContain(runId)
  })

  it("of what nobody asked for is not sent", async () => {
    const world = await setup({})
    world.start()
    await world.ended(await world.trigger(telling("failure")))
    await world.pass(1000)
    expect(world.sent).toEqual([])
  })

  it("for Slack is a text", async () => {
    const world = await setup({ t: () => fail() })
    world.start()
    const runId = await world.trigger(
      'name: w\nnotify: [{ on: [failure], slack: "https://slack.test/x" }]\ntasks: { t: { command: x } }',
    )
    await world.ended(runId)
    await world.pass(100)
    expect(JSON.parse(world.sent[0]!.body)).toEqual({ text: `w failed: task t failed (run ${runId})` })
  })

  it("that does not arrive is sent again, later and later", async () => {
    const world = await setup({}, [500, new Error("connection refused"), 302, 200])
    world.start()
    await world.ended(await world.trigger(telling("success")))
    await world.pass(3_600_000)
    const waits = world.sent.slice(1).map(({ at }, i) => (at - world.sent[i]!.at) / 1000)
    expect(waits).toEqual([5, 10, 20])
  })

  it("that was not sent before a crash is sent after it", async () => {
    const world = await setup({})
    await world.ended(await world.trigger(telling("success")))
    expect(world.sent).toEqual([])
    world.start()
    await world.pass(100)
    expect(world.sent).toHaveLength(1)
  })

  it("whose server died while it was sent is taken up by another", async () => {
    const world = await setup({})
    await world.ended(await world.trigger(telling("success")))
    await world.store.claimNotifications({ limit: 10, leaseMs: 60_000 })
    world.start()
    await world.pass(59_000)
    expect(world.sent).toEqual([])
    await world.pass(2000)
    expect(world.sent).toHaveLength(1)
  })

  it("is sent by one of several servers", async () => {
    const world = await setup({})
    for (let i = 0; i < 3; i++) world.start()
    await world.ended(await world.trigger(telling("success")))
    await world.pass(1000)
    expect(world.sent).toHaveLength(1)
  })
})

describe("a deadline", () => {
  const slow: Script = async (_, { sleep }) => {
    await sleep(3_600_000)
    return null
  }

  it("that a run is past is told once, and the run goes on", async () => {
    const world = await setup({ t: slow })
    world.start()
    const runId = await world.trigger(telling("deadline", "deadline: 30m"))
    await world.pass(30 * 60_000 - 1000)
    expect(world.sent).toEqual([])
    await world.pass(2000)
    expect(JSON.parse(world.sent[0]!.body)).toMatchObject({ event: "deadline", run: { id: runId, status: "running" } })
    expect((await world.ended(runId)).status).toBe("success")
    await world.pass(3_600_000)
    expect(world.sent).toHaveLength(1)
    expect(world.logged).toEqual(["a run is past its deadline"])
  })

  it("that a run keeps is not told", async () => {
    const world = await setup({ t: slow })
    world.start()
    await world.ended(await world.trigger(telling("deadline", "deadline: 2h")))
    await world.pass(3 * 3_600_000)
    expect([world.sent, world.logged]).toEqual([[], []])
  })
})
