// Ends a container. The output of a fan-out is the list of its instances' outputs in index order, that of a group the object of
// its tasks' outputs by name; null where one did not succeed. Made in pages, so that a hundred thousand instances do not pass
// through memory at once.
//
// A cancel may have cut its expansion off: then it did not succeed, whatever its children came to.

import { INLINE_LIMIT } from "../attempts/outputs.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change, Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const PAGE = 1000
const MOST_BLAMED = 3

type Gathered = Omit<Extract<Change, { kind: "gather" }>, "row" | "attemptId">

export const gather = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Gathered> => {
  const failed = claim.childrenFailed
  const whole = claim.childrenCreated === claim.count
  const status = failed === 0 && whole ? "success" : claim.run.cancelling === null ? "failed" : "cancelled"
  const error = status === "failed" ? { error: await blame(options, claim, workflow) } : {}
  if (claim.run.depth === 0 && !isNeeded(workflow, claim.node))
    return { kind: "gather", status, output: { inline: null }, ...error }
  const output = await collect(options, claim, workflow)
  if (output !== null) return { kind: "gather", status, output, ...error }
  const children = claim.kind === "fan" ? "instances" : "tasks"
  const tooLarge = `the outputs of its ${claim.count} ${children} are together larger than ${options.maxOutputBytes} bytes`
  return { kind: "gather", status: "failed", output: { inline: null }, error: `${tooLarge} (ORK_MAX_OUTPUT)` }
}

/** Whether somebody reads it: itself, or as a part of the output of a group around it. */
const isNeeded = (workflow: CompiledWorkflow, index: number): boolean => {
  for (let node: number | null = index; node !== null; node = workflow.nodes[node]!.group) {
    const read = node
    if (workflow.nodes.some(({ reads }) => reads.includes(read))) return true
  }
  return false
}

const blame = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<string> => {
  const failed = claim.childrenFailed
  if (claim.kind === "fan") return `${failed} of ${claim.count} instances failed`
  const names: string[] = []
  for await (const page of childrenOf(options, claim.row)) {
    for (const { node, status } of page) {
      if (status === "failed" || status === "cancelled") names.push(shortName(workflow.nodes[node]!))
    }
    if (names.length >= MOST_BLAMED) break
  }
  const told = names.slice(0, MOST_BLAMED).join(", ")
  return failed === 1
    ? `task ${told} failed`
    : `tasks ${told}${failed > MOST_BLAMED ? ` and ${failed - MOST_BLAMED} more` : ""} failed`
}

/** null: over the cap. */
const collect = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Output | null> => {
  const folder = `runs/${claim.runId}/${workflow.nodes[claim.node]!.name}/gathered/`
  const parts = outputText(options, claim, workflow)
  let head = ""
  for await (const part of parts) {
    head += part
    if (head.length <= INLINE_LIMIT) continue
    const key = `${folder}${claim.row}.json`
    const { bytes } = await options.objects.putStream(key, capped(head, parts, options.maxOutputBytes))
    if (bytes <= options.maxOutputBytes) return { key, bytes }
    await options.objects.deletePrefix(key)
    return null
  }
  return { inline: JSON.parse(head) as Json }
}

/** The list or the object as JSON text, a part at a time. */
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

/** Ends early once the cap is passed: the caller sees more bytes than allowed. */
const capped = async function* (head: string, rest: AsyncGenerator<string>, cap: number): AsyncGenerator<Uint8Array> {
  let bytes = Buffer.byteLength(head)
  yield Buffer.from(head)
  for await (const part of rest) {
    const chunk = Buffer.from(part)
    bytes += chunk.length
    yield chunk
    if (bytes > cap) return
  }
}
