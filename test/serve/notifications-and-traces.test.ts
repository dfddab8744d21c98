// Notifications and traces that a server sends.

import { describe, expect, it } from "vitest"
import { signatureProblem } from "../../src/protocol/wire/signature.ts"
import { temporaryFolder } from "../support/ork.ts"
import { startReceiver } from "../support/receiver.ts"
import { probe, startServer } from "../support/server.ts"

describe("a server", () => {
  it("sends a signed notification of a failed run", async () => {
    const { url, received } = await startReceiver()
    const definition = {
      name: "notifying",
      notify: [{ on: ["failure"], webhook: `${url}/hook` }],
      tasks: { a: { command: "exit 3" } },
    }
    const env = { ORK_SECRET_NOTIFY: "a secret of notifications", ORK_HTTP_ALLOW: new URL(url).host }
    const server = await startServer([], { cwd: temporaryFolder(), env })
    await server.deploy(definition)
    const id = await server.trigger("notifying")
    const notification = await probe(() => received[0] ?? null)
    expect(JSON.parse(notification.body)).toMatchObject({
      event: "failure",
      run: { id, status: "failed", error: "task a failed" },
    })
    const { "x-ork-timestamp": timestamp, "x-ork-signature": signature } = notification.headers as Record<string, string>
    expect(signatureProblem(env.ORK_SECRET_NOTIFY, { timestamp, signature, body: notification.body }, Date.now())).toBeNull()
    expect(signatureProblem("another", { timestamp, signature, body: notification.body }, Date.now())).not.toBeNull()
  })
})

interface Span {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  status: { code: number }
  attributes: { key: string; value: { stringValue?: string } }[]
}

describe("traces", () => {
  it("have one trace per run and one span per attempt, which the task can read", async () => {
    const { url, received } = await startReceiver()
    const server = await startServer([], {
      cwd: temporaryFolder(),
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_SCHEDULE_DELAY: "50", OTEL_SERVICE_NAME: "orks" },
    })
    await server.deploy({
      name: "traced",
      tasks: { a: { command: "echo $TRACEPARENT" }, b: { depends_on: ["a"], command: "exit 1" } },
    })
    const id = await server.trigger("traced")
    await server.reaches(id, "failed")
    const spans = await probe(() => {
      const found = received.flatMap(({ body }) => spansOf(body))
      return found.length >= 3 ? found : null
    })
    const [run, a, b] = ["traced", "a", "b"].map((name) => spans.find((span) => span.name === name)!)
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([id.replaceAll("-", "")]))
    expect([a!.parentSpanId, b!.parentSpanId]).toEqual([run!.spanId, run!.spanId])
    expect([run!.status.code, a!.status.code, b!.status.code]).toEqual([2, 1, 2])
    const { text } = await server.call("GET", `/runs/${id}/tasks/a/logs`)
    expect(text.trim()).toBe(`00-${a!.traceId}-${a!.spanId}-01`)
    expect(received.every(({ path }) => path === "/v1/traces")).toBe(true)
    expect(received[0]!.body).toContain('"orks"')
  })

  it("are off by default", async () => {
    const server = await startServer([], { cwd: temporaryFolder() })
    await server.deploy({ name: "plain", tasks: { a: { command: 'echo "[$TRACEPARENT]"' } } })
    const id = await server.trigger("plain")
    await server.reaches(id, "success")
    expect((await server.call("GET", `/runs/${id}/tasks/a/logs`)).text).toBe("[]\n")
  })
})

const spansOf = (body: string): Span[] => {
  const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
  return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
}
