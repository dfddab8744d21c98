// Builds a request from the fields of an http task. Throws a BadRequest for invalid fields, which no retry can change.

import type { Json } from "../../core/values/json.ts"
import { isObject } from "../../core/values/json.ts"
import { parseMemory } from "../../core/values/quantities.ts"
import type { Assignment } from "../executor.ts"
import { DEFAULT_REDIRECTS } from "./guarded-fetch.ts"

export class BadRequest extends Error {}

export interface HttpRequest {
  url: string
  /** Returns an address for messages, without its parts that may be secret. */
  redact(url: string | URL): string
  method: string
  headers: { [name: string]: string }
  body: string | null
  expect: StatusSet
  retryOn: StatusSet
  redirects: number
  maxBody: number
}

export type StatusSet = (status: number) => boolean

const DEFAULT_BODY = 2 ** 20
const FORM = "application/x-www-form-urlencoded"
const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/
/** Methods without a body. */
const BODILESS = new Set(["GET", "HEAD"])

/** Parses a list such as `[200, "3xx"]`. */
const statusSet = (list: readonly Json[]): StatusSet => {
  const patterns = list.map(String)
  return (status) => patterns.some((pattern) => pattern === String(status) || pattern === `${Math.floor(status / 100)}xx`)
}

export const httpRequest = ({
  fields,
  secrets,
  maxOutputBytes,
}: Pick<Assignment, "fields" | "secrets" | "maxOutputBytes">): HttpRequest => {
  const options = isObject(fields["http"]) ? fields["http"] : {}
  const url = fields["url"]
  if (typeof url !== "string" || !URL.canParse(url))
    throw new BadRequest("the url is not an address such as https://example.org/")
  const headers = headersOf(fields["headers"] ?? {})
  const body = bodyOf(fields["body"] ?? null, headers)
  const method = methodOf(fields["method"], body)
  if (body !== null && BODILESS.has(method)) throw new BadRequest(`a ${method} request takes no body`)
  return {
    url,
    redact: secrets.some((secret) => secret !== "" && url.includes(secret)) ? originOf : addressOf,
    method,
    headers,
    body,
    expect: statusSet(listOf(options["expect"]) ?? ["2xx"]),
    retryOn: statusSet(listOf(options["retry_on"]) ?? [408, 429, "5xx"]),
    redirects: typeof options["redirects"] === "number" ? options["redirects"] : DEFAULT_REDIRECTS,
    maxBody: Math.min(parseMemory(options["max_body"]) ?? DEFAULT_BODY, maxOutputBytes),
  }
}

const originOf = (url: string | URL): string => `${new URL(url).origin}/…`

const addressOf = (url: string | URL): string => {
  const { origin, pathname, search } = new URL(url)
  return `${origin}${pathname}${search === "" ? "" : "?…"}`
}

const listOf = (value: Json | undefined): Json[] | null => (Array.isArray(value) ? value : null)

const methodOf = (given: Json | undefined, body: string | null): string => {
  if (given === undefined) return body === null ? "GET" : "POST"
  if (typeof given !== "string" || !/^[A-Za-z]{3,20}$/.test(given)) throw new BadRequest("the method is not an HTTP method")
  return given.toUpperCase()
}

const headersOf = (given: Json): { [name: string]: string } => {
  if (!isObject(given)) throw new BadRequest("the headers are not a map")
  const headers: { [name: string]: string } = {}
  for (const [name, value] of Object.entries(given)) {
    if (value === null) continue
    if (typeof value === "object") throw new BadRequest(`the header ${name} is not a string`)
    if (!NAME.test(name)) throw new BadRequest(`${JSON.stringify(name)} is not a valid header name`)
    const text = String(value)
    if (/[\r\n\0]/.test(text)) throw new BadRequest(`the header ${name} contains a newline`)
    headers[name.toLowerCase()] = text
  }
  headers["user-agent"] ??= "ork"
  return headers
}

/**
 * Encodes the body: a string as it is, a map as a form if the headers say so, everything else as JSON; null when there is none.
 */
const bodyOf = (body: Json, headers: { [name: string]: string }): string | null => {
  if (body === null || typeof body === "string") return body
  if (isObject(body) && headers["content-type"]?.startsWith(FORM) === true) {
    const form = new URLSearchParams()
    for (const [key, value] of Object.entries(body)) {
      if (value !== null) form.append(key, typeof value === "object" ? JSON.stringify(value) : String(value))
    }
    return form.toString()
  }
  headers["content-type"] ??= "application/json"
  return JSON.stringify(body)
}
