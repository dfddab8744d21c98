// Text of a definition (YAML 1.2 core, or JSON) to plain values, with the place of each in the text. Own conversion, so that no
// key can touch a prototype, doubled keys are told with both places, and aliases cannot multiply beyond a bound.

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
import { messageOf } from "../core/model/error-message.ts"
import type { Json, JsonObject } from "../core/model/json.ts"
import type { Path, Problem } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { jsonFaults } from "../protocol/wire/json-text.ts"
import { limitProblem, sizeProblem } from "../protocol/wire/limits.ts"

export interface TextPosition {
  line: number
  column: number
}

export interface TextDocument {
  value: Json
  /** Where a path stands; of what is not there, the nearest thing around it. `key`: of the key itself. */
  locate(path: Path, key: boolean): TextPosition
}

/** Nodes that aliases may add in all. */
const MAX_EXPANDED = 100_000

export type ReadDocument = { document: TextDocument | null; problems: Problem[] }

/** `document` is null when the text cannot be read at all; problems may stand beside one (a key that stands twice). */
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
    return { document: null, problems: [jsonProblem(text, messageOf(error))] }
  }
  const faults = jsonFaults(text)
  const problems = faults.map(({ path, message, offset, first }) => ({
    path: pathText(path),
    message: first === undefined ? message : `${message}; ${firstPlace(positionAt(text, first))}`,
    ...positionAt(text, offset),
  }))
  if (faults.some(({ first }) => first === undefined)) return { document: null, problems }
  // JSON is YAML: its tree is made for places only, when there is a problem to tell.
  let root: Parsed | undefined
  const locate = (path: Path, key: boolean): TextPosition =>
    (root ??= parseYaml(text)).place(offsetOf(root.contents, path, key))
  return { document: { value, locate }, problems }
}

const readYaml = (text: string): ReadDocument => {
  const broken = limitProblem(text)
  if (broken !== null) {
    return { document: null, problems: [{ path: "", message: broken.message, ...positionAt(text, broken.offset) }] }
  }
  const { contents, error, place } = parseYaml(text)
  if (error !== undefined) {
    const message = `the YAML cannot be read: ${error.message.split("\n")[0]}`
    return { document: null, problems: [{ path: "", message, ...place(error.pos[0]) }] }
  }
  const converter = new Converter(place)
  const value = converter.convert(contents, [])
  const locate = (path: Path, key: boolean): TextPosition => place(offsetOf(contents, path, key))
  return { document: { value, locate }, problems: converter.problems }
}

interface Parsed {
  contents: YamlNode | null
  error: YAMLParseError | undefined
  place(offset: number): TextPosition
}

const parseYaml = (text: string): Parsed => {
  const lines = new LineCounter()
  const place = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  // A broken text can make an error of every token; their stacks would take most of the time.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    const options = { version: "1.2", schema: "core", uniqueKeys: false, lineCounter: lines, prettyErrors: false } as const
    const { contents, errors } = parseDocument(text, options)
    return { contents, error: errors[0], place }
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

const firstPlace = ({ line, column }: TextPosition): string => `the first is in line ${line}, column ${column}`

class Converter {
  readonly problems: Problem[] = []
  readonly #place: (offset: number) => TextPosition
  readonly #anchors = new Map<string, YamlNode>()
  /** Collections that are being converted: an alias of one of these would never end. */
  readonly #open = new Set<YamlNode>()
  #expanding = 0
  #expanded = 0

  constructor(place: (offset: number) => TextPosition) {
    this.#place = place
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
    this.problems.push({ path: pathText(path), message, ...this.#place(node.range?.[0] ?? 0) })
  }

  #alias(name: string, node: YamlNode, path: Path): Json {
    const target = this.#anchors.get(name)
    if (target === undefined) {
      this.#add(node, path, `there is no anchor &${name} before this alias`)
      return null
    }
    if (this.#open.has(target)) {
      this.#add(node, path, `the alias *${name} stands inside of its own anchor`)
      return null
    }
    this.#expanding++
    const value = this.convert(target, path)
    this.#expanding--
    if (this.#expanded > MAX_EXPANDED && this.#expanding === 0) this.#add(node, path, "aliases make the document too large")
    return value
  }

  #scalar(value: unknown, node: YamlNode, path: Path): Json {
    if (value === undefined || value === null) return null
    if (typeof value === "string" || typeof value === "boolean") return value
    if (typeof value === "number" && Number.isFinite(value)) return value
    this.#add(node, path, `${typeof value === "number" ? value : "this value"} has no JSON form`)
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
        this.#add(key, path, "a key must be a plain text")
        continue
      }
      const first = seen.get(name)
      if (first !== undefined) {
        this.#add(key, [...path, name], `stands here twice; ${firstPlace(this.#place(first.range?.[0] ?? 0))}`)
        continue
      }
      seen.set(name, key)
      if (name === "__proto__") this.#add(key, [...path, name], '"__proto__" is not allowed as a name')
      else object[name] = this.convert(value, [...path, name])
    }
    return object
  }

  /** `<<`: keys that stand in the map itself win, wherever they are; earlier maps win over later ones. */
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

/** By key, kept: many problems in one large map must not search it from the start each. */
const pairsOf = (map: YAMLMap): Map<string, Pair> => {
  let known = pairs.get(map)
  if (known === undefined) {
    known = new Map()
    for (const pair of map.items.toReversed()) {
      const name = isScalar(pair.key) ? scalarName(pair.key) : null
      if (name !== null) known.set(name, pair)
    }
    pairs.set(map, known)
  }
  return known
}

const jsonProblem = (text: string, message: string): Problem => {
  const at = /\(line (\d+) column (\d+)\)/.exec(message)
  const position = at === null ? positionAt(text, text.length) : { line: Number(at[1]), column: Number(at[2]) }
  return { path: "", message: `the JSON cannot be read: ${message.replace(/ in JSON at position.*$/s, "")}`, ...position }
}

const positionAt = (text: string, offset: number): TextPosition => {
  const before = text.slice(0, offset)
  const newline = before.lastIndexOf("\n")
  return { line: before.split("\n").length, column: offset - newline }
}
