// Which names are allowed. Task and param names are variables of expressions, so the words of CEL and the names of its scope
// are taken; dots and slashes never appear, for names become keys, paths and addresses.

import { EXPRESSION_VARIABLES } from "../expressions/expressions.ts"

const WORKFLOW_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/
const TASK_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/

const CEL_KEYWORDS = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
)
const RESERVED: ReadonlySet<string> = new Set(EXPRESSION_VARIABLES)

/** Each gives what is wrong, or null. */
export const workflowNameProblem = (name: string): string | null => {
  if (!WORKFLOW_NAME.test(name)) {
    return `${quote(name)} is no workflow name: letters, digits, "_", "." and "-", at most 128, the first a letter or digit`
  }
  return name.includes("..") ? `${quote(name)} is no workflow name: ".." is not allowed` : null
}

export const taskNameProblem = (name: string): string | null => {
  if (!TASK_NAME.test(name) || name === "__proto__") {
    return `${quote(name)} is no task name: letters, digits, "_" and "-", at most 64, the first a letter or "_"`
  }
  if (RESERVED.has(name)) return `the name ${quote(name)} is taken: expressions use it`
  return CEL_KEYWORDS.has(name) ? `the name ${quote(name)} is taken: it is a keyword of expressions` : null
}

export const paramNameProblem = (name: string): string | null =>
  TASK_NAME.test(name) && name !== "__proto__"
    ? null
    : `${quote(name)} is no param name: letters, digits, "_" and "-", at most 64, the first a letter or "_"`

/** Set by Ork for every task; a definition cannot say otherwise. */
const OWN_ENV =
  /^ORK_(RUN_ID|TASK_ID|TASK_NAME|WORKFLOW_NAME|ATTEMPT|PARALLEL_INDEX|PARALLEL_COUNT|LOGICAL_DATE|INPUT|OUTPUT|UPSTREAM|VALUE_\d+)$/

export const envNameProblem = (name: string): string | null => {
  if (!ENV_NAME.test(name) || name === "__proto__") {
    return `${quote(name)} is no environment variable name: letters, digits and "_", not a digit first`
  }
  return OWN_ENV.test(name) ? `${name} is set by Ork itself` : null
}

export const quote = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
