// Sends a request to the API: JSON, the session cookie, and errors with advice.

import type { Problem } from "./types.ts"

export type ProblemCode =
  | "NETWORK"
  | "UNAUTHORIZED"
  | "FORBIDDEN"
  | "NOT_FOUND"
  | "CONFLICT"
  | "VALIDATION_ERROR"
  | (string & {})

export class ApiProblem extends Error {
  readonly code: ProblemCode
  /** HTTP status; 0 without a response. */
  readonly status: number
  readonly details: readonly Problem[]

  constructor(code: ProblemCode, message: string, status: number, details: readonly Problem[] = []) {
    super(message)
    this.name = "ApiProblem"
    this.code = code
    this.status = status
    this.details = details
  }
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Request {
  method?: "GET" | "POST" | "PUT" | "DELETE"
  query?: Query
  body?: unknown
  signal?: AbortSignal
}

const PREFIX = "/api/v1"

export const urlOf = (path: string, query: Query = {}): string => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "")
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return `${path.startsWith("/ui/") ? "" : PREFIX}${path}${text === "" ? "" : `?${text}`}`
}

/** Returns the response; throws ApiProblem if the request was rejected or got no response. */
export const open = async (path: string, { method = "GET", query, body, signal }: Request = {}): Promise<Response> => {
  const response = await fetch(urlOf(path, query), {
    method,
    credentials: "same-origin",
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(method !== "GET" && { "x-ork-request": "1" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal !== undefined && { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error
    throw new ApiProblem("NETWORK", "The server does not answer. It may be restarting, or the network is away.", 0)
  })
  if (!response.ok) throw await problemOf(response)
  return response
}

export const json = async <T>(path: string, request: Request = {}): Promise<T> => {
  const response = await open(path, request)
  return (response.status === 204 ? undefined : await response.json()) as T
}

interface ErrorBody {
  error?: { code: string; message: string; details?: Problem[] }
}

const problemOf = async (response: Response): Promise<ApiProblem> => {
  const { status } = response
  const body = (await response.json().catch(() => ({}))) as ErrorBody
  if (body.error !== undefined) {
    const { code, message, details = [] } = body.error
    return new ApiProblem(code, sentence(message), status, details)
  }
  return new ApiProblem(status >= 500 ? "UNAVAILABLE" : "INTERNAL", `The server answered ${status}.`, status)
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const problemText = (error: unknown): string => {
  if (error instanceof ApiProblem) {
    const more = error.details.map(({ path, message }) => `${path}: ${message}`)
    return more.length === 0 ? error.message : `${error.message} (${more.join("; ")})`
  }
  return error instanceof Error ? error.message : String(error)
}
