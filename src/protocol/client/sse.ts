// Server-sent events as they come over the wire: bytes in, messages out (https://html.spec.whatwg.org/#server-sent-events).

export interface SseMessage {
  /** The last id that was sent, also by messages without data. */
  id: string
  event: string
  /** Empty: only an id. Such a message tells a position and nothing else. */
  data: string
}

/** The body of an answer, as it comes. */
export type ByteStream = ReadableStream<Uint8Array>

/** A line longer than this is no event of Ork's. */
const MAX_LINE = 16 * 2 ** 20

export class SseParser {
  #rest = ""
  #id = ""
  #named = false
  #event = ""
  #data: string[] = []

  /** Messages that are whole with this text. */
  take(text: string): SseMessage[] {
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
      this.#named = true
    }
    return null
  }

  #end(): SseMessage | null {
    const message = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") }
    const empty = this.#data.length === 0 && !this.#named
    this.#event = ""
    this.#data = []
    this.#named = false
    return empty ? null : message
  }
}

/** The messages of a body, until it ends or breaks. */
export async function* readSse(body: ByteStream): AsyncGenerator<SseMessage> {
  const parser = new SseParser()
  const decoder = new TextDecoder()
  for await (const bytes of body) yield* parser.take(decoder.decode(bytes, { stream: true }))
}
