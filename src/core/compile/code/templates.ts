// Splits texts with `${{ … }}` into literals and expressions. Quotes and braces inside an expression follow CEL. `$${{` is a literal
// `${{`.

import type { Json } from "../../values/json.ts"
import type { Template } from "../../model/workflow.ts"

export type TextPart = string | { expr: string }

/** Reads the expression whose `${{` is at `open`; `end` is after its `}}`. Returns null when there is no `}}`. */
export const readExpression = (text: string, open: number): { source: string; end: number } | null => {
  let depth = 0
  for (let i = open + 3; i < text.length; i++) {
    const char = text[i]!
    if (char === '"' || char === "'") {
      const close = endOfString(text, i)
      if (close === null) return null
      i = close
    } else if (char === "{") {
      depth++
    } else if (char === "}") {
      if (depth > 0) depth--
      else if (text[i + 1] === "}") return { source: text.slice(open + 3, i).trim(), end: i + 2 }
    }
  }
  return null
}

/** Returns the index of the last closing quote of a CEL string; null when the string is not closed. */
const endOfString = (text: string, open: number): number | null => {
  const quote = text[open]!
  const triple = text.startsWith(quote.repeat(3), open)
  const closing = triple ? quote.repeat(3) : quote
  const raw = /[rR]/.test(text[open - 1] ?? "") && !/[A-Za-z0-9_]/.test(text[open - 2] ?? " ")
  for (let i = open + closing.length; i < text.length; i++) {
    if (text[i] === "\\" && !raw) i++
    else if (text.startsWith(closing, i)) return i + closing.length - 1
  }
  return null
}

/** Splits a text. `unclosed`: a `${{` has no `}}`, and the rest is literal. */
export const splitText = (text: string): { parts: TextPart[]; unclosed: boolean } => {
  const parts: TextPart[] = []
  let literal = ""
  let at = 0
  for (;;) {
    const open = text.indexOf("${{", at)
    if (open === -1) break
    if (text[open - 1] === "$" && open - 1 >= at) {
      literal += `${text.slice(at, open - 1)}\${{`
      at = open + 3
      continue
    }
    const expression = readExpression(text, open)
    if (expression === null) return { parts: [...parts, literal + text.slice(at)], unclosed: true }
    literal += text.slice(at, open)
    if (literal !== "") parts.push(literal)
    literal = ""
    parts.push({ expr: expression.source })
    at = expression.end
  }
  literal += text.slice(at)
  if (literal !== "" || parts.length === 0) parts.push(literal)
  return { parts, unclosed: false }
}

/** Called for each expression and each unclosed `${{`, with the path of the text inside the value. */
export interface TemplateVisitor {
  expression(source: string, path: (string | number)[]): void
  unclosed(path: (string | number)[]): void
}

export const toTemplate = (value: Json, visitor: TemplateVisitor, path: (string | number)[] = []): Template => {
  if (typeof value === "string") return textTemplate(value, visitor, path)
  if (value === null || typeof value !== "object") return { lit: value }
  if (Array.isArray(value)) {
    const list = value.map((item, i) => toTemplate(item, visitor, [...path, i]))
    return list.every((item) => "lit" in item) ? { lit: list.map((item) => item.lit) } : { list }
  }
  const entries = Object.entries(value).map(([key, item]) => [key, toTemplate(item, visitor, [...path, key])] as const)
  const literals = entries.flatMap(([key, item]) => ("lit" in item ? [[key, item.lit] as const] : []))
  return literals.length === entries.length ? { lit: Object.fromEntries(literals) } : { map: Object.fromEntries(entries) }
}

const textTemplate = (text: string, visitor: TemplateVisitor, path: (string | number)[]): Template => {
  if (!text.includes("${{")) return { lit: text }
  const { parts, unclosed } = splitText(text)
  if (unclosed) visitor.unclosed(path)
  for (const part of parts) if (typeof part !== "string") visitor.expression(part.expr, path)
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return typeof only === "string" ? { lit: only } : only
  return { text: parts }
}
