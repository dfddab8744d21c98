// Finds out where the expressions of an SQL text are. They become parameters, so each must stand where SQL accepts a value: not in a
// quoted text, a quoted name or a comment.

import type { TextPart } from "./templates.ts"

/** The beginnings of the parts of an SQL text in which nothing is syntax, with the text that ends them. */
const QUOTES: readonly { begin: RegExp; end(begin: string): string; name: string }[] = [
  { begin: /'/y, end: () => "'", name: "a quoted text" },
  { begin: /"/y, end: () => '"', name: "a quoted name" },
  { begin: /--/y, end: () => "\n", name: "a comment" },
  { begin: /\/\*/y, end: () => "*/", name: "a comment" },
  { begin: /\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$/y, end: (begin) => begin, name: "a quoted text" },
]

interface Open {
  end: string
  name: string
}

/** Returns why an expression of the text cannot be a parameter; null when all of them can. */
export const sqlExpressionProblem = (parts: readonly TextPart[]): string | null => {
  if (parts.length === 1 && typeof parts[0] === "object")
    return "must be a query; an expression in it stands for a value, not for the query"
  let open: Open | null = null
  for (const part of parts) {
    if (typeof part === "string") open = openAfter(part, open)
    else if (open !== null) {
      return `contains an expression inside ${open.name}; write it without quotes, such as \`where day = \${{ run.date }}\`: Ork passes its value as a parameter`
    }
  }
  return null
}

/** Returns the quote or comment that is open at the end of the text, if one was open at its start or begins in it. */
const openAfter = (text: string, open: Open | null): Open | null => {
  let at = 0
  while (at < text.length) {
    if (open !== null) {
      const end = text.indexOf(open.end, at)
      if (end === -1) return open
      at = end + open.end.length
      open = null
      continue
    }
    const found = QUOTES.map((quote) => ({ quote, begin: matchAt(quote.begin, text, at) })).find(({ begin }) => begin !== null)
    if (found === undefined) at += 1
    else {
      open = { end: found.quote.end(found.begin!), name: found.quote.name }
      at += found.begin!.length
    }
  }
  return open
}

const matchAt = (pattern: RegExp, text: string, at: number): string | null => {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}
