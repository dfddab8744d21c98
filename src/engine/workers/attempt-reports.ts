// What workers say of their attempts, as changes for the engine's inbox. Facts of an attempt are kept from its claim; when that went
// through another server they are read by its fence.

import { cancellingOf, nodeOf, objectPrefixOf } from "../attempts/claims.ts"
import { ChangeBuilder } from "../attempts/change-builder.ts"
import type { Engine } from "../engine.ts"
import type { AssignmentBuilder } from "../attempts/assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import type { AttemptResult, Change, Fence } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"
import type { Json } from "../../core/model/json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Claim } from "../../store/contract/store.ts"
import type { z } from "zod"

type Report = z.output<typeof wire.reportBody>
type Entry = Report["entries"][number]
type Result = z.output<typeof wire.result>

const REMEMBERED = 20_000
/** Clocks that differ by less are taken to be the same. */
const SKEW_MS = 1000

export interface Place {
  claim: Claim
  workflow: CompiledWorkflow
  prefix: string
  outputKey: string
}

export class AttemptReports {
  readonly #engine: Pick<Engine, "report">
  readonly #parts: EngineOptions
  readonly #conclusions: ChangeBuilder
  readonly #ended: (prefix: string) => void
  readonly #claims = new Map<AttemptId, Claim>()

  /** `ended` is told where the objects of an attempt lie whose end was committed. */
  constructor(
    engine: Pick<Engine, "report">,
    parts: EngineOptions,
    inputs: AssignmentBuilder,
    ended: (prefix: string) => void,
  ) {
    this.#engine = engine
    this.#ended = ended
    this.#parts = parts
    this.#conclusions = new ChangeBuilder(parts, inputs)
  }

  remember(claim: Claim): void {
    this.#claims.set(claim.attemptId, claim)
    if (this.#claims.size > REMEMBERED) this.#claims.delete(this.#claims.keys().next().value!)
  }

  /** Resolves after the commit, with the attempts that were refused. */
  async take({ now, entries }: Report, proven: (entry: Entry) => boolean): Promise<string[]> {
    const skew = this.#parts.clock.now() - now
    const shift = Math.abs(skew) < SKEW_MS ? 0 : skew
    const refused = new Set<string>()
    const good = entries.filter((entry) => proven(entry) || (refused.add(entry.attempt_id), false))
    const claims = await this.#claimsOf(good)
    const changes: Change[] = []
    for (const entry of good) {
      const claim = claims.get(entry.attempt_id)
      const change = claim === undefined ? null : await this.#change(claim, entry, shift)
      if (change === null) refused.add(entry.attempt_id)
      else changes.push(change)
    }
    for (const { attemptId } of await this.#engine.report(changes)) refused.add(attemptId)
    for (const { kind, attempt_id } of entries) {
      const claim = claims.get(attempt_id)
      if (kind === "ended" && claim !== undefined && !refused.has(attempt_id)) {
        this.#ended(objectPrefixOf(claim, nodeOf(this.#parts.store, claim).node))
      }
      if (kind === "ended" || kind === "released" || refused.has(attempt_id)) this.#claims.delete(attempt_id as AttemptId)
    }
    return [...refused]
  }

  /** An attempt that could not even be given to its worker. */
  async fail(claim: Claim, error: string, retryable: boolean): Promise<void> {
    const failed = { state: "failed", startedAt: null, finishedAt: this.#parts.clock.now(), error } as const
    const result: AttemptResult = retryable ? failed : { ...failed, retryable }
    await this.#engine.report([await this.#conclusions.toChange(claim, result, false)])
  }

  /** Where the objects of a live attempt lie; null: it is not live. */
  async placeOf(fence: Fence): Promise<Place | null> {
    let claim = this.#claims.get(fence.attemptId)
    if (claim === undefined) {
      claim = (await this.#parts.store.readClaims([fence]))[0]
      if (claim === undefined) return null
      this.remember(claim)
    }
    const { workflow, node } = nodeOf(this.#parts.store, claim)
    const prefix = objectPrefixOf(claim, node)
    return { claim, workflow, prefix, outputKey: `${prefix}output.json` }
  }

  /** Failures are judged by how their run stands now: it may be being cancelled. */
  async #claimsOf(entries: readonly Entry[]): Promise<Map<string, Claim>> {
    const found = new Map<string, Claim>()
    const asked: Fence[] = []
    for (const entry of entries) {
      const attemptId = entry.attempt_id as AttemptId
      const known = this.#claims.get(attemptId)
      const fresh = entry.kind === "ended" && entry.result.state !== "success"
      if (known !== undefined && !fresh) found.set(attemptId, known)
      else asked.push({ row: entry.row, attemptId })
    }
    if (asked.length > 0) for (const claim of await this.#parts.store.readClaims(asked)) found.set(claim.attemptId, claim)
    return found
  }

  async #change(claim: Claim, entry: Entry, shift: number): Promise<Change | null> {
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
        const result = await this.#result(claim, entry.result, shift)
        return this.#conclusions.toChange(claim, result, cancellingOf(claim) !== null)
      }
      default:
        return entry satisfies never
    }
  }

  async #result(claim: Claim, told: Result, shift: number): Promise<AttemptResult> {
    const { output, started_at, finished_at, exit_code, external_id, retry_after_ms } = told
    const result: AttemptResult = {
      state: told.state,
      startedAt: started_at === null ? null : started_at + shift,
      finishedAt: finished_at + shift,
      ...(told.error !== undefined && { error: told.error }),
      ...(exit_code !== undefined && { exitCode: exit_code }),
      ...(external_id !== undefined && { externalId: external_id }),
      ...(told.usage !== undefined && { usage: told.usage as NonNullable<AttemptResult["usage"]> }),
      ...(told.retryable !== undefined && { retryable: told.retryable }),
      ...(retry_after_ms !== undefined && { retryAfterMs: retry_after_ms }),
    }
    if (output === undefined) return result
    if ("inline" in output) return { ...result, output: { inline: output.inline as Json } }
    const { outputKey } = (await this.placeOf(claim))!
    if ((await this.#parts.objects.size(outputKey)) === output.bytes) {
      return { ...result, output: { key: outputKey, bytes: output.bytes } }
    }
    return { ...result, state: "failed", error: `its output of ${output.bytes} bytes did not arrive at the server` }
  }
}
