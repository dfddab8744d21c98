// `ork serve` of the built command as a live process, and HTTP requests to it.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type OrkProcess, startOrk } from "./ork-process.ts"

export interface ApiResponse {
  status: number
  body: Record<string, unknown> & { error?: { code: string; message: string } }
  text: string
}

/** Requests to a server. */
export interface Calls {
  url: string
  key: string
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse>
  deploy(definition: object): Promise<void>
  trigger(workflow: string, body?: object): Promise<string>
  /** Polls until the run has one of these statuses; resolves with the run. */
  reaches(runId: string, ...statuses: string[]): Promise<Record<string, unknown>>
}

export interface Server extends Calls {
  process: OrkProcess
}

const READY = /is ready at (http:\S+)/

/** Starts a server; resolves when it is ready. */
export const startServer = async (
  args: string[],
  { env = {}, ...options }: { cwd: string; env?: Record<string, string>; command?: string[] },
): Promise<Server> => {
  const process = startOrk(["serve", "--port", "0", ...args], { ...options, env: { ORK_LOG: "info", ...env } })
  await process.printed(READY)
  const url = READY.exec(process.stdout)![1]!
  const key = env["ORK_API_KEY"] ?? readFileSync(join(options.cwd, ".ork/admin.key"), "utf8").trim()
  return { process, ...serverAt(url, key) }
}

/** A server that does not answer a request within a minute has a fault. */
const REQUEST_MS = 60_000

export const serverAt = (url: string, key: string, timeoutMs = REQUEST_MS): Calls => {
  const call: Calls["call"] = async (method, path, body, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { "x-api-key": key, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const text = await response.text()
    return { status: response.status, text, body: asJson(text) }
  }
  return {
    url,
    key,
    call,
    async deploy(definition) {
      const { status, text } = await call("POST", "/workflows", definition)
      if (status >= 300) throw new Error(`could not deploy: ${text}`)
    },
    async trigger(workflow, body = {}) {
      const { status, text, body: run } = await call("POST", `/workflows/${workflow}/runs`, body)
      if (status !== 201) throw new Error(`could not trigger ${workflow}: ${text}`)
      return run["id"] as string
    },
    async reaches(runId, ...statuses) {
      return await probe(async () => {
        const { body } = await call("GET", `/runs/${runId}`)
        return statuses.includes(body["status"] as string) ? body : null
      })
    },
  }
}

const asJson = (text: string): ApiResponse["body"] => {
  try {
    return JSON.parse(text) as ApiResponse["body"]
  } catch {
    return {}
  }
}

/** Polls until the result is not null. The timeout of the test bounds it. */
export const probe = async <T>(poll: () => Promise<T | null> | T | null, everyMs = 25): Promise<T> => {
  for (;;) {
    const found = await poll()
    if (found !== null) return found
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}
