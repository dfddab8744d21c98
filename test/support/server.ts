// `ork serve` of the built command as a live process, and calls to it over HTTP.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type OrkProcess, startOrk } from "./ork-process.ts"

export interface Answer {
  status: number
  body: Record<string, unknown> & { error?: { code: string; message: string } }
  text: string
}

/** Calls to a server, whoever started it. */
export interface Calls {
  url: string
  key: string
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  deploy(definition: object): Promise<void>
  trigger(workflow: string, body?: object): Promise<string>
  /** Resolves with the run once it has one of these statuses; asks again and again. */
  reaches(runId: string, ...statuses: string[]): Promise<Record<string, unknown>>
}

export interface Server extends Calls {
  process: OrkProcess
}

const READY = /is ready at (http:\S+)/

/** Resolves when it says that it is ready. */
export const startServer = async (
  args: string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): Promise<Server> => {
  const process = startOrk(["serve", "--port", "0", ...args], { cwd, env: { ORK_LOG: "info", ...env } })
  await process.printed(READY)
  const url = READY.exec(process.stdout)![1]!
  const key = env["ORK_API_KEY"] ?? readFileSync(join(cwd, ".ork/admin.key"), "utf8").trim()
  return { process, ...serverAt(url, key) }
}

export const serverAt = (url: string, key: string): Calls => {
  const call: Calls["call"] = async (method, path, body, headers = {}) => {
    const answer = await fetch(url + path, {
      method,
      headers: { "x-api-key": key, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, text, body: asJson(text) }
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

const asJson = (text: string): Answer["body"] => {
  try {
    return JSON.parse(text) as Answer["body"]
  } catch {
    return {}
  }
}

/** Asks until there is an answer; the test's own timeout ends it. */
export const probe = async <T>(ask: () => Promise<T | null> | T | null, everyMs = 25): Promise<T> => {
  for (;;) {
    const found = await ask()
    if (found !== null) return found
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}
