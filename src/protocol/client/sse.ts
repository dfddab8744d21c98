// Parser of server-sent events (https://html.spec.whatwg.org/#server-sent-events).

export interface SseMessage {
  /** The last id so far, including ids of messages without data. */
  id: string
  event: string
  /** Empty for a message that has only an id, which reports a position. */
  data: string
}

/** Body of a response. */
export type ByteStream = ReadableStream<Uint8Array>

/** A longer line is not from an Ork server. */
const MAX_LINE = 16 * 2 ** 20

export class SseParser {
  #rest = ""
  #id = ""
  #hasId = false
  #event = ""
  #data: string[] = []

  /** Adds text; returns the messages that it completes. */
  push(text: string): SseMessage[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ""
    if (this.#rest.length > MAX_LINE) throw new Error("a line of an event stream is too long")
    return lines.flatMap((line) => this.#line(line) ?? [])
  }

  #line(line: string): SseMessage | null {
    if (line === "") return this.#end()
    const colon = line.indexOf(":")
    if (colon === 0) return null
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "")
    if (field === "event") this.#event = value
    if (field === "data") this.#data.push(value)
    if (field === "id" && !value.includes("\0")) {
      this.#id = value
      this.#hasId = true
    }
    return null
  }

  #end(): SseMessage | null {
    const message = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") }
    const empty = this.#data.length === 0 && !this.#hasId
    this.#event = ""
    this.#data = []
    this.#hasId = false
    return empty ? null : message
  }
}

/** Yields the messages of a body until it ends; throws when the connection breaks. */
export async function* readSse(body: ByteStream): AsyncGenerator<SseMessage> {
  const parser = new SseParser()
  const decoder = new TextDecoder()
  for await (const bytes of body) yield* parser.push(decoder.decode(bytes, { stream: true }))
}
