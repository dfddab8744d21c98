// Files of attempts that workers send to and get from the server: logs, large outputs, artifacts. Every call names the fence of an
// attempt and its token; nothing is read or written for an attempt that the worker does not own.

import type { AttemptReports, ReportedAttempt } from "./attempt-reports.ts"
import { isAttemptToken } from "./credentials.ts"
import type { WorkerLogs } from "./worker-logs.ts"
import type { WorkerRegistry } from "./worker-registry.ts"
import { MAX_ARTIFACT_BYTES } from "../attempts/assignment-builder.ts"
import { visibleOutput } from "../attempts/expression-scope.ts"
import { outputBytes } from "../attempts/outputs.ts"
import { artifactBytes } from "../attempts/upstream-artifacts.ts"
import type { EngineOptions } from "../ports.ts"
import type { Fence } from "../../core/model/change.ts"
import { type AttemptId, type HolderId, isUuid } from "../../core/model/ids.ts"
import { shortName } from "../../core/model/task-path.ts"
import { artifactKey } from "../../objects/artifacts/artifact-list.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import type { logReply } from "../../protocol/api/workers.ts"
import type { Frame } from "../../protocol/wire/log-frames.ts"
import type { z } from "zod"

export type FencedToken = Fence & { token: string }

/** A worker sends more than an output or an artifact may have. */
export class OutputTooLarge extends Error {}

interface AttemptFilesOptions extends Pick<EngineOptions, "objects" | "maxOutputBytes" | "maxArtifactBytes"> {
  registry: Pick<WorkerRegistry, "get">
  attempts: Pick<AttemptReports, "find">
  logs: Pick<WorkerLogs, "append">
}

export class AttemptFiles {
  readonly #options: AttemptFilesOptions

  constructor(options: AttemptFilesOptions) {
    this.#options = options
  }

  /** Returns where each log continues; null for an attempt that the worker does not own. */
  async appendLogs(id: HolderId, frames: readonly Frame[]): Promise<z.output<typeof logReply>["logs"]> {
    const { registry, attempts, logs } = this.#options
    const { stored } = await registry.get(id)
    const positions: { attempt_id: string; next: number | null }[] = []
    for (const frame of frames) {
      const fence = { row: frame.row, attemptId: frame.attempt_id as AttemptId }
      const isAuthentic = isAttemptToken(stored, frame.attempt_id, frame.token)
      const attempt = isAuthentic ? await attempts.find(fence) : null
      const next = attempt === null ? null : await logs.append(attempt.prefix, frame)
      positions.push({ attempt_id: frame.attempt_id, next })
    }
    return positions
  }

  /** Stores an output and returns its size; null when the worker does not own the attempt. Throws `OutputTooLarge`. */
  async putOutput(id: HolderId, fence: FencedToken, data: AsyncIterable<Uint8Array>): Promise<number | null> {
    const attempt = await this.#authenticated(id, fence)
    if (attempt === null) return null
    const { objects, maxOutputBytes } = this.#options
    const tooLarge = new OutputTooLarge(`an output has at most ${maxOutputBytes} bytes (ORK_MAX_OUTPUT)`)
    const { bytes } = await objects.putStream(attempt.outputKey, limited(data, maxOutputBytes, tooLarge))
    return bytes
  }

  /** Returns an upstream output of the attempt in pieces; null when there is none, or when the worker does not own the attempt. */
  async upstream(id: HolderId, fence: FencedToken, task: string): Promise<AsyncIterable<Uint8Array> | null> {
    const attempt = await this.#authenticated(id, fence)
    if (attempt === null || attempt.claim.kind === "job") return null
    const { claim, workflow } = attempt
    const index = workflow.nodes[claim.node]!.upstream.find((each) => shortName(workflow.nodes[each]!) === task)
    const state = index === undefined ? undefined : claim.reads.get(index)
    const output = state === undefined ? null : visibleOutput(workflow.nodes[index!]!, state)
    if (output === null) return null
    return "inline" in output ? once(JSON.stringify(output.inline)) : outputBytes(this.#options.objects, output)
  }

  /** Stores an artifact and returns its size; null when the worker does not own the attempt. Throws `OutputTooLarge`. */
  async putArtifact(id: HolderId, fence: FencedToken, path: string, data: AsyncIterable<Uint8Array>): Promise<number | null> {
    const attempt = await this.#authenticated(id, fence)
    if (attempt === null) return null
    const max = this.#options.maxArtifactBytes ?? MAX_ARTIFACT_BYTES
    const tooLarge = new OutputTooLarge(`the artifacts of an attempt have at most ${max} bytes together (ORK_MAX_ARTIFACTS)`)
    const key = artifactKey(attempt.prefix, path)
    return (await this.#options.objects.putStream(key, limited(data, max, tooLarge))).bytes
  }

  /** Returns an artifact of an upstream task in pieces; null when the attempt may not have it, or when the worker does not own it. */
  async upstreamArtifact(
    id: HolderId,
    fence: FencedToken,
    { prefix, file }: { prefix: string; file: string },
  ): Promise<AsyncIterable<Uint8Array> | null> {
    const attempt = await this.#authenticated(id, fence)
    if (attempt === null || attempt.claim.kind === "job") return null
    const { claim, workflow } = attempt
    const sources = (workflow.nodes[claim.node]!.artifactsFrom ?? []).map((index) => workflow.nodes[index]!.name)
    const attemptId = prefix.split("/").at(-2) ?? ""
    if (!isUuid(attemptId) || !sources.some((name) => attemptPrefix(claim.runId, name, attemptId) === prefix)) return null
    return artifactBytes(this.#options.objects, { folder: prefix, prefix }, file)
  }

  async #authenticated(id: HolderId, fence: FencedToken): Promise<ReportedAttempt | null> {
    const { registry, attempts } = this.#options
    const { stored } = await registry.get(id)
    return isAttemptToken(stored, fence.attemptId, fence.token) ? attempts.find(fence) : null
  }
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

async function* limited(data: AsyncIterable<Uint8Array>, max: number, tooLarge: Error): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of data) {
    bytes += piece.byteLength
    if (bytes > max) throw tooLarge
    yield piece
  }
}
