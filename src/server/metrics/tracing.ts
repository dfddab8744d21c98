// OpenTelemetry traces, enabled by the standard variables: a run is a trace, its attempts are spans. Trace and span ids are derived from
// the ids of runs and attempts, so that several servers, and tasks through TRACEPARENT, write to one trace without coordination.
// A span is exported when it ends; nothing is kept before.

import { createHash } from "node:crypto"
import type { Attributes, HrTime, SpanContext } from "@opentelemetry/api"
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace"
import { explainMissing } from "../../core/settings/optional-packages.ts"
import type { Logger, Observer } from "../../engine/ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { RunStatus } from "../../core/model/status.ts"
import type { Claim, Store, StoreEvent } from "../../store/contract/store.ts"

const ENDPOINTS = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] as const
const ENDED: ReadonlySet<string> = new Set<RunStatus>(["success", "failed", "cancelled"])
const SAMPLED = 1
const INTERNAL = 0
const OK = 1
const ERROR = 2

export interface Tracing {
  observer: Observer
  event(event: StoreEvent): void
  /** Exports the remaining spans. */
  stop(): Promise<void>
}

/** Returns null when traces are not enabled. */
export const startTracing = async (
  env: { [name: string]: string | undefined },
  { store, log, version }: { store: Pick<Store, "getRun">; log: Logger; version: string },
): Promise<Tracing | null> => {
  if (env["OTEL_SDK_DISABLED"] === "true" || !ENDPOINTS.some((name) => env[name] !== undefined && env[name] !== "")) return null
  const [{ BatchSpanProcessor }, { OTLPTraceExporter }, resources] = await Promise.all([
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
  ]).catch(explainMissing("OpenTelemetry tracing"))
  const own = resources.resourceFromAttributes({ "service.name": "ork", "service.version": version })
  const resource = own.merge(resources.detectResources({ detectors: [resources.envDetector] }))
  // The exporter reads its own variables, but not those of the batch processor.
  const delay = Number(env["OTEL_BSP_SCHEDULE_DELAY"] ?? "")
  const processor = new BatchSpanProcessor({
    exporter: new OTLPTraceExporter(),
    ...(delay > 0 && { scheduledDelayMillis: delay }),
  })
  const span = spanExporter(processor, resource, version)
  return {
    observer: {
      environment: (claim) => ({ TRACEPARENT: traceparent(attemptContext(claim)) }),
      attemptEnded: (claim, node, result) => {
        span({
          name: node.name,
          context: attemptContext(claim),
          parent: claim.kind === "job" ? null : contextOf(claim.runId, claim.runId),
          from: result.startedAt ?? result.finishedAt,
          to: result.finishedAt,
          error: result.state === "success" ? null : (result.error ?? result.state),
          attributes: {
            "ork.run.id": claim.kind === "job" ? "" : claim.runId,
            "ork.workflow": claim.kind === "job" ? "" : claim.run.workflow,
            "ork.task": node.name,
            "ork.path": claim.kind === "job" ? "" : claim.path,
            "ork.attempt": claim.attempt,
            "ork.state": result.state,
            "ork.executor": node.executor,
          },
        })
      },
    },
    event: ({ type, status, runId }) => {
      if (type !== "run" || !ENDED.has(status)) return
      traceRun(store, runId, span).catch((error: unknown) =>
        log.warn({ run: runId, error: String(error) }, "failed to trace the end of a run"),
      )
    },
    stop: () =>
      processor
        .shutdown()
        .catch((error: unknown) => log.warn({ error: String(error) }, "failed to export the remaining traces")),
  }
}

interface SpanData {
  name: string
  context: SpanContext
  parent: SpanContext | null
  from: number
  to: number
  error: string | null
  attributes: Attributes
}

const traceRun = async (store: Pick<Store, "getRun">, runId: RunId, span: (data: SpanData) => void): Promise<void> => {
  const run = await store.getRun(runId)
  if (run === null || run.finishedAt === null) return
  span({
    name: run.workflow,
    context: contextOf(run.id, run.id),
    parent: null,
    from: Date.parse(run.createdAt),
    to: Date.parse(run.finishedAt),
    error: run.status === "success" ? null : (run.error ?? run.status),
    attributes: {
      "ork.run.id": run.id,
      "ork.workflow": run.workflow,
      "ork.version": run.version,
      "ork.trigger": run.trigger,
      "ork.status": run.status,
    },
  })
}

const spanExporter =
  (processor: SpanProcessor, resource: ReadableSpan["resource"], version: string) =>
  ({ name, context, parent, from, to, error, attributes }: SpanData): void =>
    processor.onEnd({
      name,
      kind: INTERNAL,
      spanContext: () => context,
      ...(parent !== null && { parentSpanContext: parent }),
      startTime: hrTime(from),
      endTime: hrTime(to),
      duration: hrTime(Math.max(0, to - from)),
      status: error === null ? { code: OK } : { code: ERROR, message: error },
      attributes,
      links: [],
      events: [],
      ended: true,
      resource,
      instrumentationScope: { name: "ork", version },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    })

const hrTime = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)]

/** Returns the trace id of a run, which has as many bits, and a span id from a hash of `about`. */
const contextOf = (runId: string, about: string): SpanContext => ({
  traceId: runId.replaceAll("-", ""),
  spanId: createHash("sha256").update(about).digest("hex").slice(0, 16),
  traceFlags: SAMPLED,
})

/** Returns the context of an attempt. That of a job has its own trace. */
const attemptContext = (claim: Claim): SpanContext =>
  contextOf(claim.kind === "job" ? claim.attemptId : claim.runId, claim.attemptId)

const traceparent = ({ traceId, spanId }: SpanContext): string => `00-${traceId}-${spanId}-01`
