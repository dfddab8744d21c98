// Ends a container: its output is the list of its instances' outputs in index order, null where one did not succeed. Made in
// pages, so that a hundred thousand instances do not pass through memory at once.

import type { EngineOptions } from "./ports.ts"
import type { Change, Output } from "../core/change.ts"
import type { Json } from "../core/json.ts"
import type { CompiledWorkflow } from "../core/workflow.ts"
import type { Claim } from "../store/store.ts"

const PAGE = 1000
const INLINE_LIMIT = 64 * 1024

type Gathered = Omit<Extract<Change, { kind: "gather" }>, "row" | "attemptId">

export const gather = async (options: EngineOptions, claim: Claim, workflow: CompiledWorkflow): Promise<Gathered> => {
  const failed = claim.childrenFailed
  const status = failed === 0 ? "success" : claim.run.cancelling === null ? "failed" : "cancelled"
  const error = status === "failed" ? { error: `${failed} of ${claim.count} instances failed` } : {}
  if (!workflow.nodes.some((node) => node.needs.includes(claim.node))) {
    return { kind: "gather", status, output: { inline: null }, ...error }
  }
  const output = await collect(options, claim, workflow.nodes[claim.node]!.name)
  if (output !== null) return { kind: "gather", status, output, ...error }
  const tooLarge = `the outputs of its ${claim.count} instances are together larger than ${options.maxOutputBytes} bytes`
  return { kind: "gather", status: "failed", output: { inline: null }, error: `${tooLarge} (ORK_MAX_OUTPUT)` }
}

/** null: over the cap. */
const collect = async (options: EngineOptions, claim: Claim, name: string): Promise<Output | null> => {
  const folder = `runs/${claim.runId}/${name}/gathered/`
  const parts = listText(options, claim.row)
  let head = ""
  for await (const part of parts) {
    head += part
    if (head.length <= INLINE_LIMIT) continue
    const key = `${folder}${claim.row}.json`
    const { bytes } = await options.objects.putStream(key, capped(head, parts, options.maxOutputBytes))
    if (bytes <= options.maxOutputBytes) return { key, bytes }
    await options.objects.deletePrefix(folder)
    return null
  }
  return { inline: JSON.parse(head) as Json }
}

/** The list as JSON text, a part at a time. */
const listText = async function* (options: EngineOptions, containerRow: number): AsyncGenerator<string> {
  let after = 0
  let separator = "["
  for (;;) {
    const page = await options.store.instanceOutputs({ containerRow, after, limit: PAGE })
    let text = ""
    for (const { row, output } of page) {
      after = row
      text += separator + (await outputText(options, output))
      separator = ","
      if (text.length > INLINE_LIMIT) {
        yield text
        text = ""
      }
    }
    if (page.length < PAGE) {
      yield `${text}]`
      return
    }
    yield text
  }
}

const outputText = async (options: EngineOptions, output: Output | null): Promise<string> => {
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
