// Deferred work. A successful attempt whose output is only `{ "ork_defer": … }` continues elsewhere; the output tells how Ork learns
// of the result: by polling a URL, or by a callback. Tasks write this output, so every mistake in it is a problem of the task, and it may
// send only the secrets that the author gave to the task, to hosts that the author lists.

import { ExpressionError, parseExpression } from "../../expressions/expressions.ts"
import { isObject, type Json, type JsonObject } from "../../values/json.ts"
import { nearest } from "../../values/nearest.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import { DURATION_HINT, parseDuration } from "../../values/quantities.ts"
import type { Poll } from "../../model/waiting-on.ts"

export type Deferral = { poll: Poll } | { callback: { timeoutMs?: number } }

const KEY = "ork_defer"

export const isDeferral = (output: Json): output is JsonObject =>
  isObject(output) && Object.hasOwn(output, KEY) && Object.keys(output).length === 1

/** Minimum interval between two polls. */
const MIN_EVERY_MS = 100
const MAX_HEADERS = 64

const POLL_FIELDS = ["url", "method", "headers", "body", "every", "done_when", "fail_when", "output", "timeout"]

class Mistake extends Error {}

const mistake = (where: string, what: string): never => {
  throw new Mistake(`${where} ${what}`)
}

/** Permissions that the author of a task gives its deferrals. */
export interface DeferralLimits {
  secrets: readonly string[]
  /** Hosts that secrets may be sent to. */
  hosts: readonly string[]
}

export const readDeferral = (output: JsonObject, limits: DeferralLimits): Deferral | { problem: string } => {
  try {
    const defer = objectAt(output[KEY], KEY, ["poll", "callback"])
    const [kind] = Object.keys(defer)
    if (Object.keys(defer).length !== 1) mistake(KEY, "needs either poll or callback")
    return kind === "poll" ? { poll: readPoll(defer["poll"], limits) } : { callback: readCallback(defer["callback"]) }
  } catch (error) {
    if (error instanceof Mistake || error instanceof ExpressionError) return { problem: error.message }
    throw error
  }
}

const readCallback = (value: Json | undefined): { timeoutMs?: number } => {
  const fields = objectAt(value, `${KEY}.callback`, ["timeout"])
  return omitUndefined({ timeoutMs: durationAt(fields, "timeout", `${KEY}.callback`) })
}

const readPoll = (value: Json | undefined, limits: DeferralLimits): Poll => {
  const where = `${KEY}.poll`
  const fields = objectAt(value, where, POLL_FIELDS)
  const url = textAt(fields, "url", where) ?? mistake(where, "needs url")
  if (!/^https?:\/\/./i.test(url) || !URL.canParse(url)) mistake(`${where}.url`, "must start with http:// or https://")
  const everyMs = durationAt(fields, "every", where) ?? mistake(where, `needs every: ${DURATION_HINT}`)
  const doneWhen = expressionAt(fields, "done_when", where) ?? mistake(where, "needs done_when, an expression over `response`")
  const failWhen = expressionAt(fields, "fail_when", where)
  const output = expressionAt(fields, "output", where)
  const timeoutMs = durationAt(fields, "timeout", where)
  const method = textAt(fields, "method", where) ?? "GET"
  if (!/^[A-Za-z]{3,20}$/.test(method)) mistake(`${where}.method`, "must be an HTTP method such as GET or POST")
  const headers = headersAt(fields["headers"], `${where}.headers`)
  checkSecrets(headers, url, `${where}.headers`, limits)
  return omitUndefined({
    url,
    method: method.toUpperCase(),
    headers,
    body: fields["body"],
    everyMs: Math.max(MIN_EVERY_MS, everyMs),
    doneWhen,
    failWhen,
    output,
    timeoutMs,
  })
}

const objectAt = (value: Json | undefined, where: string, known: readonly string[]): JsonObject => {
  if (!isObject(value)) return mistake(where, "must be an object")
  for (const field of Object.keys(value)) {
    if (known.includes(field)) continue
    const near = nearest(field, known)
    mistake(where, `has no field ${JSON.stringify(field)}${near === undefined ? "" : `; did you mean ${near}?`}`)
  }
  return value
}

const textAt = (fields: JsonObject, field: string, where: string): string | undefined => {
  const value = fields[field]
  if (value === undefined) return undefined
  return typeof value === "string" && value !== "" ? value : mistake(`${where}.${field}`, "must be a non-empty text")
}

const durationAt = (fields: JsonObject, field: string, where: string): number | undefined => {
  if (fields[field] === undefined) return undefined
  return parseDuration(fields[field]) ?? mistake(`${where}.${field}`, `must be a duration: ${DURATION_HINT}`)
}

/** Reads an expression, with or without `${{ }}` around it. */
const expressionAt = (fields: JsonObject, field: string, where: string): string | undefined => {
  const text = textAt(fields, field, where)
  if (text === undefined) return undefined
  const source = /^\s*\$\{\{([\s\S]*)\}\}\s*$/.exec(text)?.[1] ?? text
  for (const { root } of parseExpression(source).refs) {
    if (root !== "response") mistake(`${where}.${field}`, `can use \`response\` only, not ${root}`)
  }
  return source.trim()
}

const headersAt = (value: Json | undefined, where: string): Poll["headers"] => {
  const headers: Poll["headers"] = {}
  if (value === undefined) return headers
  if (!isObject(value) || Object.keys(value).length > MAX_HEADERS) {
    return mistake(where, `must be an object of at most ${MAX_HEADERS} headers`)
  }
  for (const [name, text] of Object.entries(value)) {
    if (isObject(text) && typeof text["secret"] === "string") headers[name] = { secret: text["secret"] }
    else if (typeof text === "string") headers[name] = text
    else mistake(`${where}.${name}`, "must be a text or { secret: NAME }")
  }
  return headers
}

const checkSecrets = (headers: Poll["headers"], url: string, where: string, { secrets, hosts }: DeferralLimits): void => {
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === "string") continue
    if (!secrets.includes(value.secret)) {
      const advice = "add it to `env` of the task"
      mistake(`${where}.${name}`, `uses the secret ${value.secret}, which the task does not declare; ${advice}`)
    }
    const { host } = new URL(url)
    if (!hosts.some((allowed) => isHost(new URL(url), allowed.toLowerCase()))) {
      mistake(`${where}.${name}`, `sends a secret to ${host}, which is not in \`defer_hosts\` of the task`)
    }
  }
}

/** Returns whether a URL is on an allowed host. `allowed`: a host, or `*.` and a domain, with an optional port. */
const isHost = ({ hostname, port, protocol }: URL, allowed: string): boolean => {
  const withPort = `${hostname}:${port === "" ? (protocol === "https:" ? "443" : "80") : port}`
  return [hostname, withPort].some((host) => (allowed.startsWith("*.") ? host.endsWith(allowed.slice(1)) : host === allowed))
}
