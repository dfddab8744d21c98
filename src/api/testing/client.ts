// A reader of streams over a real connection.

import { request } from "node:http"
import type { IncomingMessage } from "node:http"
import { ADMIN_KEY } from "./setup.ts"

export interface Reader {
  response: IncomingMessage
  /** All that was read so far. */
  text(): string
  /** Resolves with the text when it holds what is looked for. */
  until(wanted: string | RegExp): Promise<string>
  /** Resolves with the text at the stream's end, also when it was cut off. */
  ended(): Promise<string>
  close(): void
}

export const openStream = async (url: string, headers: Record<string, string> = {}): Promise<Reader> => {
  const sent = request(url, { headers: { "x-api-key": ADMIN_KEY, ...headers }, agent: false })
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve)
    sent.once("error", reject)
    sent.end()
  })
  let text = ""
  const waiting = new Set<() => void>()
  const tell = (): void => {
    for (const look of waiting) look()
  }
  response.setEncoding("utf8")
  response.on("data", (chunk: string) => {
    text += chunk
    tell()
  })
  response.on("error", () => undefined)
  let over = false
  response.on("close", () => {
    over = true
    tell()
  })
  const wait = (done: () => boolean, failed: () => boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!done() && !failed()) return
        waiting.delete(look)
        if (done()) resolve(text)
        else reject(new Error(`the stream ended without it: ${text}`))
      }
      waiting.add(look)
      look()
    })
  return {
    response,
    text: () => text,
    until: (wanted) =>
      wait(
        () => (typeof wanted === "string" ? text.includes(wanted) : wanted.test(text)),
        () => over,
      ),
    ended: () =>
      wait(
        () => over,
        () => false,
      ),
    close: () => void sent.destroy(),
  }
}
