// Reads the text of a definition (YAML 1.2 core, or JSON) to plain values and their positions. Converts YAML itself, so that no key can
// change a prototype, duplicate keys are reported with both positions, and the expansion of aliases is bounded.

import {
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node as YamlNode,
  type Pair,
  parseDocument,
  type Scalar,
  type YAMLMap,
  type YAMLParseError,
} from "yaml"
import { messageOf } from "../core/values/error-message.ts"
import type { Json, JsonObject } from "../core/values/json.ts"
import type { Path, Problem } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { DUPLICATE_KEY, FORBIDDEN_KEY, jsonTextProblems } from "./json-text.ts"
import { limitProblem, sizeProblem } from "./text-limits.ts"

export interface TextPosition {
  line: number
  column: number
}

export interface TextDocument {
  value: Json
  /** Returns the position of the value at a path, or of its key; for a missing value, the position of what is around it. */
  locate(path: Path, key: boolean): TextPosition
}

/** Maximum number of nodes that all aliases together may add. */
const MAX_EXPANDED = 100_000

export type ReadDocument = { document: TextDocument | null; problems: Problem[] }

/** Reads a document. `document` is null when the text cannot be parsed. Problems may accompany a document: a duplicate key. */
export const readDocument = (text: string, format: "yaml" | "json"): ReadDocument => {
  const large = sizeProblem(text)
  if (large !== null) return { document: null, problems: [{ path: "", message: large }] }
  return format === "json" ? readJson(text) : readYaml(text)
}

const readJson = (text: string): ReadDocument => {
  let value: Json
  try {
    value = JSON.parse(text) as Json
  } catch (error) {
    return { document: null, problems: [jsonSyntaxProblem(text, messageOf(error))] }
  }
  const found = jsonTextProblems(text)
  const problems = found.map(({ path, message, offset, first }) => ({
    path: pathText(path),
    message: first === undefined ? message : `${message}; ${firstAt(positionAt(text, first))}`,
    ...positionAt(text, offset),
  }))
  if (found.some(({ first }) => first === undefined)) return { document: null, problems }
  // JSON is YAML. The tree is needed for positions only, and parsed when there is a problem.
  let parsed: ParsedYaml | undefined
  const locate = (path: Path, key: boolean): TextPosition => {
    parsed ??= parseYaml(text)
    return parsed.positionOf(offsetOf(parsed.contents, path, key))
  }
  return { document: { value, locate }, problems }
}

const readYaml = (text: string): ReadDocument => {
  const exceeded = limitProblem(text)
  if (exceeded !== null) {
    return { document: null, problems: [{ path: "", message: exceeded.message, ...positionAt(text, exceeded.offset) }] }
  }
  const { contents, error, positionOf } = parseYaml(text)
  if (error !== undefined) {
    const message = `the YAML cannot be parsed: ${error.message.split("\n")[0]}${bracesHint(text, error.pos[0])}`
    return { document: null, problems: [{ path: "", message, ...positionOf(error.pos[0]) }] }
  }
  const converter = new YamlConverter(positionOf)
  const value = converter.convert(contents, [])
  const locate = (path: Path, key: boolean): TextPosition => positionOf(offsetOf(contents, path, key))
  return { document: { value, locate }, problems: converter.problems }
}

const QUOTE_BRACES = '; YAML reads {{ … }} as an object: put a value that contains it in quotes, such as "${{ item }}"'

/** Returns a hint if the line of an error contains braces that YAML may have read as an object. */
const bracesHint = (text: string, offset: number): string => {
  const start = text.lastIndexOf("\n", offset - 1) + 1
  const end = text.indexOf("\n", offset)
  return /\{\{/.test(text.slice(start, end === -1 ? text.length : end)) ? QUOTE_BRACES : ""
}

interface ParsedYaml {
  contents: YamlNode | null
  error: YAMLParseError | undefined
  positionOf(offset: number): TextPosition
}

const parseYaml = (text: string): ParsedYaml => {
  const lines = new LineCounter()
  const positionOf = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  // A bad text may have an error for every token; collecting their stack traces would take most of the time.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    const options = { version: "1.2", schema: "core", uniqueKeys: false, lineCounter: lines, prettyErrors: false } as const
    const { contents, errors } = parseDocument(text, options)
    return { contents, error: errors[0], positionOf }
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

const firstAt = ({ line, column }: TextPosition): string => `the first one is in line ${line}, column ${column}`

class YamlConverter {
  readonly problems: Problem[] = []
  readonly #positionOf: (offset: number) => TextPosition
  readonly #anchors = new Map<string, YamlNode>()
  /** Collections that are being converted: an alias of one of them would expand endlessly. */
  readonly #open = new Set<YamlNode>()
  #expanding = 0
  #expanded = 0

  constructor(positionOf: (offset: number) => TextPosition) {
    this.#positionOf = positionOf
  }

  convert(node: YamlNode | null | undefined, path: Path): Json {
    if (node === null || node === undefined) return null
    if (this.#expanding > 0 && ++this.#expanded > MAX_EXPANDED) return null
    if (isAlias(node)) return this.#alias(node.source, node, path)
    if (isScalar(node)) {
      if (node.anchor !== undefined) this.#anchors.set(node.anchor, node)
      return this.#scalar(node.value, node, path)
    }
    if (!isCollection(node)) return null
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    this.#open.add(node)
    const value = isSeq(node)
      ? node.items.map((item, i) => this.convert(item as YamlNode, [...path, i]))
      : this.#map(node.items, path)
    this.#open.delete(node)
    return value
  }

  #add(node: YamlNode, path: Path, message: string): void {
    this.problems.push({ path: pathText(path), message, ...this.#positionOf(node.range?.[0] ?? 0) })
  }

  #alias(name: string, node: YamlNode, path: Path): Json {
    const target = this.#anchors.get(name)
    if (target === undefined) {
      this.#add(node, path, `there is no anchor &${name} before the alias *${name}`)
      return null
    }
    if (this.#open.has(target)) {
      this.#add(node, path, `the alias *${name} is inside its own anchor`)
      return null
    }
    this.#expanding++
    const value = this.convert(target, path)
    this.#expanding--
    if (this.#expanded > MAX_EXPANDED && this.#expanding === 0)
      this.#add(node, path, "aliases expand the document to more than 100,000 nodes")
    return value
  }

  #scalar(value: unknown, node: YamlNode, path: Path): Json {
    if (value === undefined || value === null) return null
    if (typeof value === "string" || typeof value === "boolean") return value
    if (typeof value === "number" && Number.isFinite(value)) return value
    this.#add(node, path, `${typeof value === "number" ? value : "this value"} cannot be written as JSON`)
    return null
  }

  #map(items: readonly unknown[], path: Path): JsonObject {
    const object: JsonObject = {}
    const seen = new Map<string, YamlNode>()
    for (const pair of items) {
      if (!isPair(pair)) continue
      const key = pair.key as YamlNode
      const value = pair.value as YamlNode | null
      if (isScalar(key) && key.value === "<<" && key.type === "PLAIN") {
        this.#merge(object, value, path)
        continue
      }
      const name = isScalar(key) ? scalarName(key) : null
      if (name === null) {
        this.#add(key, path, isMap(key) ? `a key must be a text${QUOTE_BRACES}` : "a key must be a text")
        continue
      }
      const first = seen.get(name)
      if (first !== undefined) {
        this.#add(key, [...path, name], `${DUPLICATE_KEY}; ${firstAt(this.#positionOf(first.range?.[0] ?? 0))}`)
        continue
      }
      seen.set(name, key)
      if (name === "__proto__") this.#add(key, [...path, name], FORBIDDEN_KEY)
      else object[name] = this.convert(value, [...path, name])
    }
    return object
  }

  /** Merges `<<`. Keys of the map itself win, before or after it; earlier maps win over later ones. */
  #merge(object: JsonObject, value: YamlNode | null, path: Path): void {
    const merged = this.convert(value, path)
    for (const source of Array.isArray(merged) ? merged : [merged]) {
      if (source === null || typeof source !== "object" || Array.isArray(source)) continue
      for (const [name, inner] of Object.entries(source)) if (!Object.hasOwn(object, name)) object[name] = inner
    }
  }
}

const scalarName = (key: Pick<Scalar, "value" | "source">): string | null =>
  typeof key.value === "string" ? key.value : key.value === null ? null : (key.source ?? null)

/** Returns the offset of the value at a path, or of its key; collections and null values are at their key. */
const offsetOf = (root: YamlNode | null, path: Path, atKey: boolean): number => {
  let node = root
  let offset = root?.range?.[0] ?? 0
  for (const [depth, step] of path.entries()) {
    if (isMap(node)) {
      const pair = pairsOf(node).get(String(step))
      if (pair === undefined) return offset
      const key = pair.key as YamlNode
      const value = pair.value as YamlNode | null
      const last = depth === path.length - 1
      const shown = (last && atKey) || value === null || isCollection(value) ? key : value
      offset = shown.range?.[0] ?? offset
      node = value
    } else if (isSeq(node)) {
      const item = node.items[Number(step)] as YamlNode | undefined
      if (item === undefined) return offset
      offset = item.range?.[0] ?? offset
      node = item
    } else return offset
  }
  return offset
}

const pairs = new WeakMap<YamlNode, Map<string, Pair>>()

/** Returns the pairs of a map by key. Cached, because many problems may be in one large map. */
const pairsOf = (map: YAMLMap): Map<string, Pair> => {
  let byKey = pairs.get(map)
  if (byKey === undefined) {
    byKey = new Map()
    for (const pair of map.items.toReversed()) {
      const name = isScalar(pair.key) ? scalarName(pair.key) : null
      if (name !== null) byKey.set(name, pair)
    }
    pairs.set(map, byKey)
  }
  return byKey
}

const jsonSyntaxProblem = (text: string, message: string): Problem => {
  const at = /\(line (\d+) column (\d+)\)/.exec(message)
  const position = at === null ? positionAt(text, text.length) : { line: Number(at[1]), column: Number(at[2]) }
  return { path: "", message: `the JSON cannot be parsed: ${message.replace(/ in JSON at position.*$/s, "")}`, ...position }
}

const positionAt = (text: string, offset: number): TextPosition => {
  const before = text.slice(0, offset)
  const newline = before.lastIndexOf("\n")
  return { line: before.split("\n").length, column: offset - newline }
}
