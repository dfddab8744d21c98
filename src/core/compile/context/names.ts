// Rules for names. Names of tasks and params are variables of expressions, so the words of CEL and the variables of expressions are
// reserved. Dots and slashes are not allowed, because names become keys, paths and addresses. Each function returns the problem of a
// name, or null.

import { EXPRESSION_VARIABLES } from "../../expressions/expressions.ts"
import { NAME } from "../../model/names.ts"

const TASK_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const TASK_NAME_HINT = 'use at most 64 letters, digits, "_" and "-", beginning with a letter or "_"'
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/

const CEL_KEYWORDS = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
)
const RESERVED: ReadonlySet<string> = new Set(EXPRESSION_VARIABLES)

export const workflowNameProblem = (name: string): string | null => {
  if (!NAME.test(name)) {
    return `${quote(name)} is not a valid workflow name: use at most 128 letters, digits, "_", "." and "-", beginning with a letter or digit`
  }
  return name.includes("..") ? `${quote(name)} is not a valid workflow name: it must not contain ".."` : null
}

export const taskNameProblem = (name: string): string | null => {
  if (!TASK_NAME.test(name) || name === "__proto__") return `${quote(name)} is not a valid task name: ${TASK_NAME_HINT}`
  if (RESERVED.has(name)) return `${quote(name)} is a variable of expressions; choose another name`
  return CEL_KEYWORDS.has(name) ? `${quote(name)} is a keyword of expressions; choose another name` : null
}

export const paramNameProblem = (name: string): string | null =>
  TASK_NAME.test(name) && name !== "__proto__" ? null : `${quote(name)} is not a valid param name: ${TASK_NAME_HINT}`

/** Variables that Ork sets for every task; a definition cannot set them. */
const OWN_ENV =
  /^ORK_(RUN_ID|TASK_ID|TASK_NAME|WORKFLOW_NAME|ATTEMPT|PARALLEL_INDEX|PARALLEL_COUNT|LOGICAL_DATE|INPUT|OUTPUT|UPSTREAM|VALUE_\d+)$/

export const envNameProblem = (name: string): string | null => {
  if (!ENV_NAME.test(name) || name === "__proto__") {
    return `${quote(name)} is not a valid name of an environment variable: use letters, digits and "_", not beginning with a digit`
  }
  return OWN_ENV.test(name) ? `${name} is set by Ork; choose another name` : null
}

/** Quotes a text for a message; long texts are cut. */
export const quote = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
