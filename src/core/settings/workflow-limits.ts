// Limits of a key or role to some workflows, by patterns of their names and by tags.

/** Patterns of names and tags. A workflow must match each that is set; null: all workflows. */
export interface WorkflowLimits {
  workflows: readonly string[] | null
  tags: readonly string[] | null
}

/** A name of a workflow in which `*` stands for any text. */
export const WORKFLOW_PATTERN = /^[A-Za-z0-9_.*-]{1,128}$/

/** Parses `workflows` and `tags`. Returns null without limits, undefined when they are not valid. */
export const parseLimits = (map: { readonly [name: string]: unknown }): WorkflowLimits | null | undefined => {
  const { workflows = null, tags = null, ...others } = map
  if (Object.keys(others).length > 0 || !isList(workflows) || !isList(tags)) return undefined
  if (workflows?.some((pattern) => !WORKFLOW_PATTERN.test(pattern))) return undefined
  return workflows === null && tags === null ? null : { workflows, tags }
}

const isList = (value: unknown): value is readonly string[] | null =>
  value === null || (Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "string" && each !== ""))

/** Describes limits for people: `sales-*`, `tag sales`, or both. */
export const describeLimits = ({ workflows, tags }: WorkflowLimits): string =>
  [...(workflows === null ? [] : [workflows.join(", ")]), ...(tags === null ? [] : [`tag ${tags.join(", ")}`])].join(" with ")
