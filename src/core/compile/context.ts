// What the parts of the compiler share while one definition is compiled: the findings so far, and every expression met with
// the place where it stands, so that references are checked once the whole graph is known.

import type { WorkerProfiles } from "../settings/worker-profiles.ts"
import { ExpressionError, parseExpression, type Reference } from "../expressions/expressions.ts"
import type { Json } from "../model/json.ts"
import { nearest } from "../model/nearest.ts"
import { ProblemCollector, type Path } from "../model/problems.ts"
import type { Template } from "../model/workflow.ts"
import { splitText, toTemplate } from "./templates.ts"

/** Where an expression is judged, which decides what it may name. */
export interface ExpressionSite {
  /** The node that it belongs to; null: the workflow itself (schedule params). */
  node: number | null
  /** `foreach` and `parallel` are judged before there is an item. */
  fan?: true
}

export interface ExpressionUse {
  path: Path
  source: string
  refs: Reference[]
  site: ExpressionSite
}

export interface CompileOptions {
  /** What `worker` may name; undefined: that is known elsewhere, and not judged here. */
  profiles?: WorkerProfiles
  /** Paths of tasks (as text) that lost a field to an earlier problem: what then is missing is not told again. */
  incomplete?: ReadonlySet<string>
}

const MAX_SUGGESTED = 100

export class Context {
  readonly problems = new ProblemCollector()
  readonly uses: ExpressionUse[] = []
  readonly options: CompileOptions

  constructor(options: CompileOptions) {
    this.options = options
  }

  /** The nearest known name, for the first problems: a search for each of 10,000 would take seconds. */
  nearest(name: string, known: Iterable<string>): string | undefined {
    return this.problems.list.length < MAX_SUGGESTED ? nearest(name, known) : undefined
  }

  use(source: string, path: Path, place: ExpressionSite): void {
    try {
      this.uses.push({ path, source, refs: parseExpression(source).refs, site: place })
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error
      this.problems.add(path, error.message)
    }
  }

  template(value: Json, path: Path, place: ExpressionSite): Template {
    return toTemplate(value, {
      expression: (source, below) => this.use(source, [...path, ...below], place),
      unclosed: (below) => this.unclosed([...path, ...below]),
    })
  }

  unclosed(path: Path): void {
    this.problems.add(path, 'a "${{" without its "}}"; write "$${{" for a literal one')
  }

  /** A field that is an expression, with or without braces. Text around braces joins to a string when `join` says so. */
  expression(text: string, path: Path, place: ExpressionSite, join: boolean): string | null {
    const source = this.#source(text, path, join)
    if (source !== null) this.use(source, path, place)
    return source
  }

  #source(text: string, path: Path, join: boolean): string | null {
    if (!text.includes("${{")) return text.trim()
    const { parts, unclosed } = splitText(text.trim())
    if (unclosed) {
      this.unclosed(path)
      return null
    }
    const [only] = parts
    if (parts.length === 1 && typeof only === "object") return only.expr
    if (!join) {
      this.problems.add(path, "takes one expression, with or without ${{ }} around the whole of it")
      return null
    }
    return parts
      .map((part) => (typeof part === "string" ? JSON.stringify(part) : `((${part.expr}) == null ? "" : string(${part.expr}))`))
      .join(" + ")
  }

  /** A field that takes no expressions. */
  literal(text: string, path: Path): string {
    if (text.includes("${{")) this.problems.add(path, "takes no expressions: it must be known before the workflow runs")
    return text
  }
}
