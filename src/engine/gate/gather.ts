// Finishes a container. The output of a fan-out is the list of its instances' outputs in index order, that of a group the object of its
// tasks' outputs by name; null for a child that did not succeed. Children are read in pages, so that memory stays bounded.
//
// A container whose expansion was interrupted by a cancel does not succeed, whatever the results of its children.

import { INLINE_LIMIT, outputKey } from "../attempts/outputs.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change, Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const PAGE = 1000
const MAX_NAMED = 3

type Gathered = Omit<Extract<Change, { kind: "gather" }>, "row" | "attemptId">

export const gather = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Gathered> => {
  const isComplete = claim.childrenCreated === claim.count && claim.childrenFailed === 0
  const status = isComplete ? "success" : claim.run.cancelling === null ? "failed" : "cancelled"
  const error = status === "failed" ? { error: await failureMessage(options, claim, workflow) } : {}
  if (claim.run.depth === 0 && !isRead(workflow, claim.node))
    return { kind: "gather", status, output: { inline: null }, ...error }
  const output = await collectOutputs(options, claim, workflow)
  if (output !== null) return { kind: "gather", status, output, ...error }
  const children = claim.kind === "fan" ? "instances" : "tasks"
  const tooLarge = `the outputs of its ${claim.count} ${children} are together larger than ${options.maxOutputBytes} bytes`
  return { kind: "gather", status: "failed", output: { inline: null }, error: `${tooLarge} (ORK_MAX_OUTPUT)` }
}

/** Tells whether a node reads the container's output, or that of a group around it, which contains it. */
const isRead = (workflow: CompiledWorkflow, index: number): boolean => {
  for (let node: number | null = index; node !== null; node = workflow.nodes[node]!.group) {
    const container = node
    if (workflow.nodes.some(({ reads }) => reads.includes(container))) return true
  }
  return false
}

const failureMessage = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<string> => {
  const failed = claim.childrenFailed
  if (claim.kind === "fan") return `${failed} of ${claim.count} instances failed`
  const names: string[] = []
  for await (const page of childrenOf(options, claim.row)) {
    for (const { node, status } of page) {
      if (status === "failed" || status === "cancelled") names.push(shortName(workflow.nodes[node]!))
    }
    if (names.length >= MAX_NAMED) break
  }
  const named = names.slice(0, MAX_NAMED).join(", ")
  if (failed === 1) return `task ${named} failed`
  const more = failed > MAX_NAMED ? ` and ${failed - MAX_NAMED} more` : ""
  return `tasks ${named}${more} failed`
}

/** Stores the outputs of the children. Returns null when they are too large. */
const collectOutputs = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Output | null> => {
  const key = outputKey(claim.runId, workflow.nodes[claim.node]!.name, claim.attemptId)
  const parts = outputText(options, claim, workflow)
  let head = ""
  for await (const part of parts) {
    head += part
    if (head.length <= INLINE_LIMIT) continue
    const { bytes } = await options.objects.putStream(key, limited(head, parts, options.maxOutputBytes))
    if (bytes <= options.maxOutputBytes) return { key, bytes }
    await options.objects.deletePrefix(key.slice(0, key.lastIndexOf("/") + 1))
    return null
  }
  return { inline: JSON.parse(head) as Json }
}

/** Yields the list or object as parts of a JSON text. */
const outputText = async function* (
  options: EngineOptions,
  claim: TaskClaim,
  workflow: CompiledWorkflow,
): AsyncGenerator<string> {
  const isList = claim.kind === "fan"
  let text = isList ? "[" : "{"
  let separator = ""
  for await (const page of childrenOf(options, claim.row)) {
    for (const { node, output } of page) {
      const name = isList ? "" : `${JSON.stringify(shortName(workflow.nodes[node]!))}:`
      text += separator + name + (await childText(options, output))
      separator = ","
      if (text.length <= INLINE_LIMIT) continue
      yield text
      text = ""
    }
  }
  yield text + (isList ? "]" : "}")
}

type Page = Awaited<ReturnType<EngineOptions["store"]["instanceOutputs"]>>

const childrenOf = async function* (options: EngineOptions, containerRow: number): AsyncGenerator<Page> {
  let after = 0
  for (;;) {
    const page = await options.store.instanceOutputs({ containerRow, after, limit: PAGE })
    yield page
    after = page.at(-1)?.row ?? after
    if (page.length < PAGE) return
  }
}

const childText = async (options: EngineOptions, output: Output | null): Promise<string> => {
  if (output === null) return "null"
  if ("inline" in output) return JSON.stringify(output.inline)
  const bytes = await options.objects.get(output.key)
  return bytes === null ? "null" : Buffer.from(bytes).toString("utf8")
}

/** Stops soon after `max` bytes: the caller then sees more bytes than allowed. */
const limited = async function* (head: string, rest: AsyncGenerator<string>, max: number): AsyncGenerator<Uint8Array> {
  let bytes = Buffer.byteLength(head)
  yield Buffer.from(head)
  for await (const part of rest) {
    const chunk = Buffer.from(part)
    bytes += chunk.length
    yield chunk
    if (bytes > max) return
  }
}
