// Pulls images. The engine responds to a pull with status 200 and lines of JSON, the last of which may be an error.

import type { Buffer } from "node:buffer"
import { messageOf } from "../../core/values/error-message.ts"
import { type DockerEngine, EngineError, EngineUnreachable } from "./engine.ts"

const IDLE_MS = 600_000
const MAX_LINE = 1 << 20

/** The image does not exist, so that a retry cannot help. */
export class MissingImage extends Error {}

export interface Pull {
  image: string
  platform: string | undefined
  /** Credentials for the registry, in the engine's base64 format; null when there are none. */
  auth: string | null
  signal: AbortSignal
}

/** Adds the tag `latest` unless the image has a tag or digest: the engine would pull all tags otherwise. */
export const withTag = (image: string): string => {
  const last = image.slice(image.lastIndexOf("/") + 1)
  return last.includes(":") || image.includes("@") ? image : `${image}:latest`
}

const ABSENT = /not found|manifest unknown|does not exist|denied|unauthorized|invalid reference|no such image/i

export const pullImage = async (engine: DockerEngine, { image, platform, auth, signal }: Pull): Promise<void> => {
  let problem: string | null
  try {
    const response = await engine.stream("POST", "/images/create", {
      query: { fromImage: withTag(image), ...(platform !== undefined && { platform }) },
      ...(auth !== null && { headers: { "x-registry-auth": auth } }),
      signal,
      timeoutMs: IDLE_MS,
    })
    problem = await lastProblem(response).catch((error: unknown) => {
      throw new EngineUnreachable(`the connection broke while the image ${image} was pulled: ${messageOf(error)}`, {
        cause: error,
      })
    })
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    problem = error.message
  }
  if (problem === null) return
  const message = `the image ${image} could not be pulled: ${problem}`
  throw ABSENT.test(problem) && !/timeout|toomanyrequests/i.test(problem) ? new MissingImage(message) : new Error(message)
}

const lastProblem = async (lines: AsyncIterable<Buffer>): Promise<string | null> => {
  let rest = ""
  let problem: string | null = null
  for await (const chunk of lines) {
    const parts = (rest + chunk.toString("utf8")).split("\n")
    rest = parts.pop()!.slice(-MAX_LINE)
    for (const part of parts) problem = errorIn(part) ?? problem
  }
  return errorIn(rest) ?? problem
}

const errorIn = (line: string): string | null => {
  if (line.trim() === "") return null
  try {
    const { error } = JSON.parse(line) as { error?: unknown }
    return typeof error === "string" ? error : null
  } catch {
    return null
  }
}
