// Turns what workers report about their attempts into changes. The claim of an attempt is cached; if another server made it, it is read
// from the store by its fence.

import type { ChangeBuilder } from "../attempts/change-builder.ts"
import { cancellingOf, nodeOf, objectPrefixOf } from "../attempts/claims.ts"
import type { Engine } from "../engine.ts"
import type { EngineOptions } from "../ports.ts"
import type { AttemptResult, Change, Fence } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { writeArtifactList } from "../../objects/artifacts/artifact-list.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Claim } from "../../store/contract/store.ts"
import type { z } from "zod"
import { BoundedMap } from "../../core/values/bounded-map.ts"

type Report = z.output<typeof wire.reportBody>
type Entry = Report["entries"][number]
type WireResult = z.output<typeof wire.attemptResult>

const MAX_CACHED = 20_000
/** Smaller differences between the clocks of worker and server are ignored. */
const MIN_SKEW_MS = 1000

interface ReportOptions extends Pick<EngineOptions, "store" | "objects" | "clock"> {
  engine: Pick<Engine, "report">
  changes: ChangeBuilder
  /** Called after the commit of an attempt's end, with the prefix of its objects. */
  ended(prefix: string): void
}

/** An attempt in flight, with the keys of its objects. */
export interface ReportedAttempt {
  claim: Claim
  workflow: CompiledWorkflow
  prefix: string
  outputKey: string
}

export class AttemptReports {
  readonly #options: ReportOptions
  readonly #claims = new BoundedMap<AttemptId, Claim>(MAX_CACHED)

  constructor(options: ReportOptions) {
    this.#options = options
  }

  remember(claim: Claim): void {
    this.#claims.set(claim.attemptId, claim)
  }

  /**
   * Commits a report. Returns the attempts of rejected entries: those that are not authentic, or whose fence no longer held. `submitted` is
   * called when the changes are on their way to the store.
   */
  async report(
    { now, entries }: Report,
    isAuthentic: (entry: Entry) => boolean,
    submitted: () => void = () => {},
  ): Promise<string[]> {
    const { clock, engine } = this.#options
    const skew = clock.now() - now
    const shift = Math.abs(skew) < MIN_SKEW_MS ? 0 : skew
    const authentic = entries.filter(isAuthentic)
    const rejected = new Set<string>()
    if (authentic.length < entries.length) {
      for (const entry of entries) if (!authentic.includes(entry)) rejected.add(entry.attempt_id)
    }
    const claims = await this.#claimsOf(authentic)
    const changes: Change[] = []
    for (const entry of authentic) {
      const claim = claims.get(entry.attempt_id)
      if (claim === undefined) rejected.add(entry.attempt_id)
      else changes.push(await this.#change(claim, entry, shift))
    }
    const committed = engine.report(changes)
    submitted()
    for (const { attemptId } of await committed) rejected.add(attemptId)
    this.#committed(entries, claims, rejected)
    return [...rejected]
  }

  #committed(entries: readonly Entry[], claims: ReadonlyMap<string, Claim>, rejected: ReadonlySet<string>): void {
    for (const { kind, attempt_id } of entries) {
      const claim = claims.get(attempt_id)
      if (kind === "ended" && claim !== undefined && !rejected.has(attempt_id)) {
        this.#options.ended(objectPrefixOf(claim, nodeOf(this.#options.store, claim).node))
      }
      if (kind === "ended" || kind === "released" || rejected.has(attempt_id)) this.#claims.delete(attempt_id as AttemptId)
    }
  }

  /** Fails an attempt that could not be given to its worker. */
  async fail(claim: Claim, error: string, retryable: boolean): Promise<void> {
    const { clock, engine, changes } = this.#options
    const failed = { state: "failed", startedAt: null, finishedAt: clock.now(), error } as const
    const result: AttemptResult = retryable ? failed : { ...failed, retryable }
    await engine.report([await changes.toChange(claim, result, false)])
  }

  /** Returns an attempt in flight; null when its fence no longer holds. */
  async find(fence: Fence): Promise<ReportedAttempt | null> {
    const { store } = this.#options
    let claim = this.#claims.get(fence.attemptId)
    if (claim === undefined) {
      claim = (await store.readClaims([fence]))[0]
      if (claim === undefined) return null
      this.remember(claim)
    }
    const { workflow, node } = nodeOf(store, claim)
    const prefix = objectPrefixOf(claim, node)
    return { claim, workflow, prefix, outputKey: `${prefix}output.json` }
  }

  /** Reads the claims of failed attempts again: their run may be being cancelled by now. */
  async #claimsOf(entries: readonly Entry[]): Promise<Map<string, Claim>> {
    const found = new Map<string, Claim>()
    const unknown: Fence[] = []
    for (const entry of entries) {
      const attemptId = entry.attempt_id as AttemptId
      const cached = this.#claims.get(attemptId)
      const mayBeStale = entry.kind === "ended" && entry.result.state !== "success"
      if (cached !== undefined && !mayBeStale) found.set(attemptId, cached)
      else unknown.push({ row: entry.row, attemptId })
    }
    if (unknown.length > 0) for (const claim of await this.#options.store.readClaims(unknown)) found.set(claim.attemptId, claim)
    return found
  }

  /** Turns an entry of a report into a change. `shift`: milliseconds from the worker's clock to the server's. */
  async #change(claim: Claim, entry: Entry, shift: number): Promise<Change> {
    const { row, attemptId } = claim
    switch (entry.kind) {
      case "started": {
        const { external_id: externalId } = entry
        return { row, attemptId, kind: "started", at: entry.at + shift, ...(externalId !== undefined && { externalId }) }
      }
      case "progress":
        return { row, attemptId, kind: "progress", fraction: entry.fraction, details: (entry.details ?? null) as Json }
      case "released":
        return { row, attemptId, kind: "release" }
      case "ended": {
        const received = await this.#withOutput(claim, entry.result, toResult(entry.result, shift))
        const result = await this.#withArtifacts(claim, entry.result, received)
        return this.#options.changes.toChange(claim, result, cancellingOf(claim) !== null)
      }
      default:
        return entry satisfies never
    }
  }

  /** Writes the list of the artifacts that were sent before. Fails an attempt of a worker that has sent none, although it should. */
  async #withArtifacts(claim: Claim, { artifacts }: WireResult, result: AttemptResult): Promise<AttemptResult> {
    const { store, objects } = this.#options
    const { node } = nodeOf(store, claim)
    if (node.artifacts === undefined || result.state !== "success") return result
    if (artifacts === undefined) {
      const { output: _, ...rest } = result
      return {
        ...rest,
        state: "failed",
        error: "its artifacts did not arrive at the server; is the worker older than the server?",
      }
    }
    await writeArtifactList(objects, objectPrefixOf(claim, node), artifacts)
    return result
  }

  /** Adds the output. Fails the attempt when an output that was sent before is not stored completely. */
  async #withOutput(claim: Claim, { output }: WireResult, result: AttemptResult): Promise<AttemptResult> {
    if (output === undefined) return result
    if ("inline" in output) return { ...result, output: { inline: output.inline as Json } }
    const { outputKey } = (await this.find(claim))!
    if ((await this.#options.objects.size(outputKey)) === output.bytes) {
      return { ...result, output: { key: outputKey, bytes: output.bytes } }
    }
    return { ...result, state: "failed", error: `its output of ${output.bytes} bytes did not arrive at the server` }
  }
}

const toResult = (wireResult: WireResult, shift: number): AttemptResult => {
  const { state, error, usage, retryable, started_at, finished_at, exit_code, external_id, retry_after_ms } = wireResult
  return {
    state,
    startedAt: started_at === null ? null : started_at + shift,
    finishedAt: finished_at + shift,
    ...(error !== undefined && { error }),
    ...(exit_code !== undefined && { exitCode: exit_code }),
    ...(external_id !== undefined && { externalId: external_id }),
    ...(usage !== undefined && { usage: usage as NonNullable<AttemptResult["usage"]> }),
    ...(retryable !== undefined && { retryable }),
    ...(retry_after_ms !== undefined && { retryAfterMs: retry_after_ms }),
  }
}
