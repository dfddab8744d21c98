// Checks that a stream of bytes is one JSON value, in constant memory (one bit per level of nesting) and without building it. Used for
// outputs that are kept as objects: they may be large, and nobody here needs their value.

const MAX_DEPTH = 10_000

const SPACE = /[ \t\n\r]/
const LITERALS: { [first: string]: string } = { t: "true", f: "false", n: "null" }
const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/
const MAX_NUMBER = 1024

type Expect = "value" | "firstValue" | "firstKey" | "key" | "colon" | "commaOrEnd" | "nothing"

export class JsonCheck {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  readonly #closers: string[] = []
  #expect: Expect = "value"
  #mode: "between" | "string" | "escape" | "unicode" | "word" = "between"
  #word = ""
  #left = 0
  #stringIsKey = false
  #problem: string | null = null

  /** Gives the problem as soon as there is one. */
  push(chunk: Uint8Array): string | null {
    if (this.#problem !== null) return this.#problem
    try {
      this.#problem = this.#scan(this.#decoder.decode(chunk, { stream: true }))
    } catch {
      this.#problem = "it is not valid UTF-8"
    }
    return this.#problem
  }

  end(): string | null {
    if (this.#problem !== null) return this.#problem
    try {
      this.#decoder.decode()
    } catch {
      return "it ends inside a UTF-8 character"
    }
    if (this.#mode === "word") this.#problem = this.#endWord()
    if (this.#problem === null && (this.#mode !== "between" || this.#expect !== "nothing")) this.#problem = "it ends too early"
    return this.#problem
  }

  #scan(text: string): string | null {
    for (let i = 0; i < text.length; i++) {
      if (this.#mode === "string") {
        const code = text.charCodeAt(i)
        if (code === 0x22) this.#endString()
        else if (code === 0x5c) this.#mode = "escape"
        else if (code < 0x20) return "a control character stands in a string"
        continue
      }
      const problem = this.#step(text[i]!)
      if (problem !== null) return problem
    }
    return null
  }

  #step(char: string): string | null {
    switch (this.#mode) {
      case "escape":
        if (char === "u") {
          this.#mode = "unicode"
          this.#left = 4
          return null
        }
        this.#mode = "string"
        return '"\\/bfnrt'.includes(char) ? null : `bad escape \\${char}`
      case "unicode":
        if (!/[0-9a-fA-F]/.test(char)) return "bad \\u escape"
        if (--this.#left === 0) this.#mode = "string"
        return null
      case "word":
        if (/[A-Za-z0-9.+-]/.test(char)) {
          this.#word += char
          return this.#word.length > MAX_NUMBER ? "a number is too long" : null
        }
        return this.#endWord() ?? this.#between(char)
      default:
        return this.#between(char)
    }
  }

  #between(char: string): string | null {
    if (SPACE.test(char)) return null
    switch (this.#expect) {
      case "value":
      case "firstValue":
        if (char === "]" && this.#expect === "firstValue") return this.#close(char)
        return this.#beginValue(char)
      case "firstKey":
      case "key":
        if (char === "}" && this.#expect === "firstKey") return this.#close(char)
        if (char !== '"') return `expected a key, found ${JSON.stringify(char)}`
        this.#mode = "string"
        this.#stringIsKey = true
        return null
      case "colon":
        if (char !== ":") return `expected ":", found ${JSON.stringify(char)}`
        this.#expect = "value"
        return null
      case "commaOrEnd":
        if (char !== ",") return this.#close(char)
        this.#expect = this.#closers.at(-1) === "}" ? "key" : "value"
        return null
      case "nothing":
        return `something follows the value: ${JSON.stringify(char)}`
      default:
        return this.#expect satisfies never
    }
  }

  #beginValue(char: string): string | null {
    if (char === '"') {
      this.#mode = "string"
      this.#stringIsKey = false
    } else if (char === "{" || char === "[") {
      if (this.#closers.length >= MAX_DEPTH) return `it is nested deeper than ${MAX_DEPTH} levels`
      this.#closers.push(char === "{" ? "}" : "]")
      this.#expect = char === "{" ? "firstKey" : "firstValue"
    } else if (/[-0-9a-z]/.test(char)) {
      this.#mode = "word"
      this.#word = char
    } else {
      return `expected a value, found ${JSON.stringify(char)}`
    }
    return null
  }

  #close(char: string): string | null {
    if (this.#closers.at(-1) !== char) return `expected "," or the end of a list or object, found ${JSON.stringify(char)}`
    this.#closers.pop()
    this.#endValue()
    return null
  }

  #endString(): void {
    this.#mode = "between"
    if (this.#stringIsKey) this.#expect = "colon"
    else this.#endValue()
  }

  #endWord(): string | null {
    const word = this.#word
    this.#mode = "between"
    if (LITERALS[word[0]!] !== word && !NUMBER.test(word)) return `unknown value ${JSON.stringify(word)}`
    this.#endValue()
    return null
  }

  #endValue(): void {
    this.#expect = this.#closers.length > 0 ? "commaOrEnd" : "nothing"
  }
}
