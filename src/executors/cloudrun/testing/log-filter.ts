// Parses a part of Cloud Logging's query language (https://cloud.google.com/logging/docs/view/logging-query-language):
// comparisons of fields with strings or lists of strings, log_id, AND, OR and parentheses. Throws for anything else.

export type Matches = (entry: object) => boolean

const TOKEN =
  /\s*(?:(AND|OR)\b|([()])|(>=|<=|=)|"((?:[^"\\]|\\.)*)"|(log_id)\b|([A-Za-z_][\w]*(?:\.(?:[A-Za-z_]\w*|"[^"]+"))*))/y

type Kind = "word" | "paren" | "operator" | "text" | "function" | "field"
interface Token {
  kind: Kind
  text: string
}

const KINDS: readonly Kind[] = ["word", "paren", "operator", "text", "function", "field"]

const tokensOf = (filter: string): Token[] => {
  const tokens: Token[] = []
  for (let at = 0; at < filter.trimEnd().length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at
    const match = TOKEN.exec(filter)
    if (match === null) throw new Error(`Unparseable filter: syntax error at line 1, column ${at + 1}`)
    const index = KINDS.findIndex((_, group) => match[group + 1] !== undefined)
    tokens.push({ kind: KINDS[index]!, text: match[index + 1]! })
  }
  return tokens
}

export const parseFilter = (filter: string): Matches => {
  const tokens = tokensOf(filter)
  let at = 0
  const next = (kind: Kind, text?: string): string => {
    const token = tokens[at]
    if (token?.kind !== kind || (text !== undefined && token.text !== text))
      throw new Error(`Unparseable filter: ${text ?? kind} expected, but there is ${token?.text ?? "its end"}`)
    at += 1
    return token.text
  }
  const has = (kind: Kind, text: string): boolean => {
    const found = tokens[at]?.kind === kind && tokens[at]?.text === text
    if (found) at += 1
    return found
  }
  const disjunction = (): Matches => {
    const parts = [conjunction()]
    while (has("word", "OR")) parts.push(conjunction())
    return (entry) => parts.some((part) => part(entry))
  }
  const conjunction = (): Matches => {
    const parts = [term()]
    while (has("word", "AND")) parts.push(term())
    return (entry) => parts.every((part) => part(entry))
  }
  const term = (): Matches => {
    if (has("paren", "(")) {
      const inner = disjunction()
      next("paren", ")")
      return inner
    }
    if (has("function", "log_id")) {
      next("paren", "(")
      const id = encodeURIComponent(next("text"))
      next("paren", ")")
      const read = readerOf("logName")
      return (entry) => read(entry).endsWith(`/logs/${id}`)
    }
    return comparison(next("field"), next("operator"))
  }
  const comparison = (field: string, operator: string): Matches => {
    const values: string[] = []
    if (has("paren", "(")) {
      do values.push(next("text"))
      while (has("word", "OR"))
      next("paren", ")")
    } else values.push(next("text"))
    const read = readerOf(field)
    if (operator === "=") {
      const wanted = new Set(values)
      return (entry) => wanted.has(read(entry))
    }
    const [limit = Number.NaN, ...others] = values.map((value) => Date.parse(value))
    if (Number.isNaN(limit) || others.length > 0) throw new Error(`Unparseable filter: ${values.join()} is not a timestamp`)
    return (entry) => (operator === ">=" ? Date.parse(read(entry)) >= limit : Date.parse(read(entry)) <= limit)
  }
  const all = disjunction()
  if (at < tokens.length) throw new Error(`Unparseable filter: unexpected ${tokens[at]?.text}`)
  return all
}

const readerOf = (field: string): ((entry: object) => string) => {
  const path = [...field.matchAll(/"([^"]+)"|([^."]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "")
  return (entry) => {
    let value: unknown = entry
    for (const name of path) value = (value as { [name: string]: unknown } | undefined)?.[name]
    return typeof value === "string" ? value : ""
  }
}
