// Reads streams over a real connection.

import { request } from "node:http"
import type { IncomingMessage } from "node:http"
import { ADMIN_KEY } from "./setup.ts"

export interface Reader {
  response: IncomingMessage
  /** Returns everything that was read so far. */
  text(): string
  /** Resolves with the text when it contains what is wanted. Rejects when the stream ends before. */
  until(wanted: string | RegExp): Promise<string>
  /** Resolves with the text when the stream has ended or was aborted. */
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
  const checkAll = (): void => {
    for (const check of waiting) check()
  }
  response.setEncoding("utf8")
  response.on("data", (chunk: string) => {
    text += chunk
    checkAll()
  })
  response.on("error", () => undefined)
  let closed = false
  response.on("close", () => {
    closed = true
    checkAll()
  })
  const wait = (done: () => boolean, failed: () => boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (!done() && !failed()) return
        waiting.delete(check)
        if (done()) resolve(text)
        else reject(new Error(`the stream ended without the wanted text: ${text}`))
      }
      waiting.add(check)
      check()
    })
  return {
    response,
    text: () => text,
    until: (wanted) =>
      wait(
        () => (typeof wanted === "string" ? text.includes(wanted) : wanted.test(text)),
        () => closed,
      ),
    ended: () =>
      wait(
        () => closed,
        () => false,
      ),
    close: () => void sent.destroy(),
  }
}
