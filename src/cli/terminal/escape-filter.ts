// Removes escape sequences and control characters from a stream of text, so that a log cannot change the terminal, its title or its
// clipboard. Colours (SGR), tabs and line ends stay. A sequence may be split between two pieces.

const ESCAPE = "\u001b"
const BELL = "\u0007"
/** Longest colour sequence that is kept. */
const MAX_SEQUENCE = 64

/** `string`: inside OSC, DCS, APC, PM or SOS, up to its terminator. */
type State = "text" | "escape" | "intermediate" | "csi" | "string" | "string-escape"

/** The second byte of an escape sequence, and the C1 character that stands for both. */
const STATES: Readonly<Record<string, State>> = {
  "[": "csi",
  "\u009b": "csi",
  ...Object.fromEntries(
    ["]", "P", "_", "^", "X", "\u009d", "\u0090", "\u009f", "\u009e", "\u0098"].map((char) => [char, "string"]),
  ),
}

export class EscapeFilter {
  readonly #decoder = new TextDecoder()
  #state: State = "text"
  #sequence = ""

  /** Returns what may be printed of the next piece. */
  add(bytes: Uint8Array): string {
    let out = ""
    for (const char of this.#decoder.decode(bytes, { stream: true })) out += this.#next(char)
    return out
  }

  #next(char: string): string {
    switch (this.#state) {
      case "text":
        if (char === ESCAPE) this.#state = "escape"
        else if (STATES[char] !== undefined && char > "\u007f") this.#begin(STATES[char])
        else return isControl(char) ? "" : char
        return ""
      case "escape":
        if (STATES[char] !== undefined) this.#begin(STATES[char])
        else if (char !== ESCAPE) this.#state = char >= " " && char <= "/" ? "intermediate" : "text"
        return ""
      case "intermediate":
        if (!(char >= " " && char <= "/")) this.#state = "text"
        return ""
      case "csi":
        return this.#inCsi(char)
      case "string":
        if (char === BELL || char === "\u009c") this.#state = "text"
        else if (char === ESCAPE) this.#state = "string-escape"
        return ""
      case "string-escape":
        this.#state = char === "\\" ? "text" : char === ESCAPE ? "string-escape" : "string"
        return ""
      default:
        return this.#state satisfies never
    }
  }

  #begin(state: State): void {
    this.#state = state
    this.#sequence = ""
  }

  #inCsi(char: string): string {
    if (char >= " " && char <= "?") {
      this.#sequence += this.#sequence.length < MAX_SEQUENCE ? char : ""
      return ""
    }
    this.#state = char === ESCAPE ? "escape" : "text"
    return char === "m" && /^[\d;:]*$/.test(this.#sequence) ? `${ESCAPE}[${this.#sequence}m` : char === "\n" ? char : ""
  }
}

const isControl = (char: string): boolean =>
  (char < " " && char !== "\n" && char !== "\t" && char !== "\r") || (char >= "\u007f" && char <= "\u009f")
