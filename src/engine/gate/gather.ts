// Finishes a container. The output of a fan-out is the list of its instances' outputs in index order, that of a group the object of its
// tasks' outputs by name; null for a child that did not succeed. Children are read in pages, so that memory stays bounded.
//
// A container whose expansion was interrupted by a cancel does not succeed, whatever the results of its children.

import { joinOutputs, type Member } from "../attempts/joined-outputs.ts"
import { outputKey } from "../attempts/outputs.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change, Output } from "../../core/model/change.ts"
import { shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

const PAGE = 1000
const MAX_NAMED = 3

type Gathered = Omit<Extract<Change, { kind: "gather" }>, "row" | "attemptId">

export const gather = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Gathered> => {
  const isComplete = claim.childrenCreated === claim.instanceCount && claim.childrenFailed === 0
  const status = isComplete ? "success" : claim.run.cancelling === null ? "failed" : "cancelled"
  const error = status === "failed" ? { error: await failureMessage(options, claim, workflow) } : {}
  if (claim.run.depth === 0 && !isRead(workflow, claim.node))
    return { kind: "gather", status, output: { inline: null }, ...error }
  const output = await collectOutputs(options, claim, workflow)
  if (output !== null) return { kind: "gather", status, output, ...error }
  const children = claim.kind === "fan" ? "instances" : "tasks"
  const tooLarge = `the outputs of its ${claim.instanceCount} ${children} are together larger than ${options.maxOutputBytes} bytes`
  return { kind: "gather", status: "failed", output: { inline: null }, error: `${tooLarge} (ORK_MAX_OUTPUT)` }
}

/** Returns whether a node reads the container's output, or that of a group around it, which contains it. */
const isRead = (workflow: CompiledWorkflow, index: number): boolean => {
  for (let node: number | null = index; node !== null; node = workflow.nodes[node]!.group) {
    const container = node
    if (workflow.nodes.some(({ reads }) => reads.includes(container))) return true
  }
  return false
}

const failureMessage = async (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<string> => {
  const failed = claim.childrenFailed
  if (claim.kind === "fan") return `${failed} of ${claim.instanceCount} instances failed`
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
const collectOutputs = (options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): Promise<Output | null> => {
  const key = outputKey(claim.runId, workflow.nodes[claim.node]!.name, claim.attemptId)
  return joinOutputs(options, key, claim.kind === "fan" ? "list" : "object", members(options, claim, workflow))
}

async function* members(options: EngineOptions, claim: TaskClaim, workflow: CompiledWorkflow): AsyncGenerator<Member> {
  for await (const page of childrenOf(options, claim.row)) {
    for (const { node, output } of page) yield { name: shortName(workflow.nodes[node]!), output }
  }
}

const childrenOf = ({ store }: EngineOptions, containerRow: number) =>
  rowPages(PAGE, (page) => store.childOutputs({ containerRow, ...page }))
