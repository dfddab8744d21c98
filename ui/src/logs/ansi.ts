// ANSI colours in log text: SGR sequences become styled spans, other escape sequences are removed, and control characters become
// visible symbols. Pure; creates no HTML.

/** Index 0 to 255 of the terminal's palette, or `#rrggbb`. */
export type Colour = number | string

export interface Style {
  readonly fg?: Colour
  readonly bg?: Colour
  readonly bold?: true
  readonly dim?: true
  readonly italic?: true
  readonly underline?: true
  readonly strike?: true
  readonly inverse?: true
}

export interface Span {
  text: string
  style: Style
}

export const PLAIN: Style = {}

const ESC = "\u001b"
/** CSI, OSC (terminated by BEL or ST) or short sequences, including one that is truncated at the end of the text. */
const SEQUENCE = new RegExp(
  `${ESC}(?:\\[([0-9:;<=>?]*)[ -/]*([@-~]?)|\\][^\\u0007${ESC}]*(?:\\u0007|${ESC}\\\\)?|[ -/]*[0-~]?)`,
  "g",
)

/** Returns the spans of a line and the initial style of the next line. */
export const parseAnsi = (text: string, begin: Style = PLAIN): { spans: Span[]; end: Style } => {
  if (!text.includes(ESC)) return { spans: text === "" ? [] : [{ text: visible(text), style: begin }], end: begin }
  const spans: Span[] = []
  let style = begin
  let at = 0
  const take = (end: number): void => {
    if (end > at) spans.push({ text: visible(text.slice(at, end)), style })
  }
  for (const match of text.matchAll(SEQUENCE)) {
    take(match.index)
    at = match.index + match[0].length
    if (match[2] === "m") style = applySgr(style, match[1] ?? "")
  }
  take(text.length)
  return { spans, end: style }
}

/** Returns the text without escape sequences, for searching. */
export const stripAnsi = (text: string): string => visible(text.includes(ESC) ? text.replace(SEQUENCE, "") : text)

const DELETE = 0x7f
const FIRST_PICTURE = 0x2400
const DELETE_PICTURE = "\u2421"

/** Replaces control characters with symbols (␀, ␇, ␍) and bidirectional ones with their code points; keeps tabs. */
const visible = (text: string): string =>
  HIDDEN.test(text)
    ? text.replace(EACH_HIDDEN, (each) => {
        const code = each.charCodeAt(0)
        if (code === DELETE) return DELETE_PICTURE
        return code < 0x20
          ? String.fromCharCode(FIRST_PICTURE + code)
          : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`
      })
    : text

const HIDDEN_CHARACTERS = "[\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]"
const HIDDEN = new RegExp(HIDDEN_CHARACTERS)
const EACH_HIDDEN = new RegExp(HIDDEN_CHARACTERS, "g")

const FLAGS: Readonly<Record<number, Style>> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
}

const ENDS: Readonly<Record<number, readonly (keyof Style)[]>> = {
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
  27: ["inverse"],
  29: ["strike"],
  39: ["fg"],
  49: ["bg"],
}

const without = (style: Style, names: readonly (keyof Style)[]): Style =>
  Object.fromEntries(Object.entries(style).filter(([name]) => !names.includes(name as keyof Style)))

const applySgr = (style: Style, params: string): Style => {
  const codes = params.split(/[;:]/).map((each) => (each === "" ? 0 : Number(each)))
  let next = style
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!
    if (code === 38 || code === 48) {
      const { colour, used } = extended(codes.slice(i + 1))
      if (colour !== null) next = { ...next, [code === 38 ? "fg" : "bg"]: colour }
      i += used
    } else next = simple(next, code)
  }
  return next
}

const simple = (style: Style, code: number): Style => {
  if (code === 0) return PLAIN
  if (code >= 30 && code <= 37) return { ...style, fg: code - 30 }
  if (code >= 40 && code <= 47) return { ...style, bg: code - 40 }
  if (code >= 90 && code <= 97) return { ...style, fg: code - 82 }
  if (code >= 100 && code <= 107) return { ...style, bg: code - 92 }
  const ends = ENDS[code]
  return ends === undefined ? { ...style, ...FLAGS[code] } : without(style, ends)
}

const isByte = (value: number | undefined): value is number => value !== undefined && value >= 0 && value <= 255

/** Parses the arguments of 38 or 48: `5;N` or `2;R;G;B`. */
const extended = ([kind, ...rest]: readonly number[]): { colour: Colour | null; used: number } => {
  if (kind === 5) return { colour: isByte(rest[0]) ? rest[0] : null, used: 2 }
  if (kind !== 2) return { colour: null, used: 1 }
  const [red, green, blue] = rest
  const known = isByte(red) && isByte(green) && isByte(blue)
  return { colour: known ? `#${[red, green, blue].map(hex).join("")}` : null, used: 4 }
}

const hex = (value: number): string => value.toString(16).padStart(2, "0")

/** Colours 16 to 255 of the palette: a cube of 6 × 6 × 6, then 24 greys. The first 16 are the theme's. */
export const paletteColour = (index: number): string => {
  if (index >= 232) {
    const grey = hex(8 + 10 * (index - 232))
    return `#${grey}${grey}${grey}`
  }
  const step = (value: number): string => hex(value === 0 ? 0 : 55 + 40 * value)
  const cube = index - 16
  return `#${step(Math.floor(cube / 36))}${step(Math.floor(cube / 6) % 6)}${step(cube % 6)}`
}
