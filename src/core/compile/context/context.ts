// State shared by the parts of the compiler while one definition is compiled: the problems so far, and every expression with the site
// of its use, so that references are checked once the graph is complete.

import type { WorkerProfiles } from "../../settings/worker-profiles.ts"
import { ExpressionError, parseExpression, type Reference } from "../../expressions/expressions.ts"
import type { Json } from "../../values/json.ts"
import { nearest } from "../../values/nearest.ts"
import { type Path, ProblemCollector } from "../../model/problems.ts"
import type { Template } from "../../model/workflow.ts"
import type { CommandFile } from "../code/command-files.ts"
import { splitText, type TextPart, toTemplate } from "../code/templates.ts"

/** Determines which variables an expression may use. */
export interface ExpressionSite {
  /** Index of the node; null: the workflow itself (params of a schedule, texts of a notification). */
  node: number | null
  /** Set in texts of a notification, which is sent after the start of a run: what it is about. */
  notify?: "run" | "task"
  /** Set in `foreach` and `parallel`, which are evaluated before there is an item. */
  fan?: true
  /** Set in `until` of a wait, which reads the `response` of a URL. */
  response?: true
}

export interface ExpressionUse {
  path: Path
  source: string
  refs: Reference[]
  site: ExpressionSite
}

export interface CompileOptions {
  /** Worker profiles that `worker` may name; undefined: they are not known here, and `worker` is not checked. */
  profiles?: WorkerProfiles
  /** Paths of tasks (as text) that lost a field to an earlier problem: their missing fields are not reported. */
  incomplete?: ReadonlySet<string>
}

/** Searching the nearest name for 10,000 problems would take seconds. */
const MAX_SUGGESTIONS = 100

export class CompileContext {
  readonly problems = new ProblemCollector()
  readonly uses: ExpressionUse[] = []
  /** Files that commands may name. */
  readonly files: CommandFile[] = []
  readonly options: CompileOptions

  constructor(options: CompileOptions) {
    this.options = options
  }

  /** Returns a suggestion for an unknown name, unless there are many problems already. */
  nearest(name: string, known: Iterable<string>): string | undefined {
    return this.problems.list.length < MAX_SUGGESTIONS ? nearest(name, known) : undefined
  }

  /** Records the use of an expression, or reports that it cannot be parsed. */
  use(source: string, path: Path, site: ExpressionSite): void {
    try {
      this.uses.push({ path, source, refs: parseExpression(source).refs, site })
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error
      this.problems.add(path, error.message)
    }
  }

  template(value: Json, path: Path, site: ExpressionSite): Template {
    return toTemplate(value, {
      expression: (source, below) => this.use(source, [...path, ...below], site),
      unclosed: (below) => this.unclosed([...path, ...below]),
    })
  }

  unclosed(path: Path): void {
    this.problems.add(path, 'contains "${{" without a closing "}}"; write "$${{" for a literal "${{"')
  }

  /** Compiles a field that is one expression, with or without `${{ }}`. Returns null after a problem. */
  expression(text: string, path: Path, site: ExpressionSite): string | null {
    const parts = this.#parts(text, path)
    if (parts === null) return null
    const [only] = parts
    if (parts.length !== 1 || typeof only !== "object") {
      this.problems.add(path, "must be a single expression, with or without ${{ }} around it")
      return null
    }
    this.use(only.expr, path, site)
    return only.expr
  }

  /** Compiles a field like `expression`, or a text with `${{ }}` in it to an expression that joins the parts. */
  textExpression(text: string, path: Path, site: ExpressionSite): string | null {
    const parts = this.#parts(text, path)
    if (parts === null) return null
    const [only] = parts
    const source = parts.length === 1 && typeof only === "object" ? only.expr : parts.map(partExpression).join(" + ")
    this.use(source, path, site)
    return source
  }

  /** Splits a field that is an expression if it contains no `${{`. Returns null after a problem. */
  #parts(text: string, path: Path): TextPart[] | null {
    if (!text.includes("${{")) return [{ expr: text.trim() }]
    const { parts, unclosed } = splitText(text.trim())
    if (!unclosed) return parts
    this.unclosed(path)
    return null
  }

  /** Checks a field that must not contain expressions. */
  literal(text: string, path: Path): string {
    if (text.includes("${{")) {
      this.problems.add(path, "must not contain an expression: its value must be known before the workflow runs")
    }
    return text
  }
}

/** Converts a part of a text to an expression; null becomes an empty text. */
const partExpression = (part: TextPart): string =>
  typeof part === "string" ? JSON.stringify(part) : `((${part.expr}) == null ? "" : string(${part.expr}))`
