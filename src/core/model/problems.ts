// Problems of a definition or of params. They are collected, not thrown, so that one report lists all of them.

export type Path = readonly (string | number)[]

/** A problem with the path in the definition where it is; definition/parse.ts adds line and column. */
export interface DefinitionProblem {
  path: Path
  message: string
  suggestion?: string
  /** The key at the path is wrong, rather than its value. */
  key?: true
}

/** A problem as it is shown to users. */
export interface Problem {
  /** `tasks.process.retry`; empty for the document as a whole. */
  path: string
  message: string
  line?: number
  column?: number
  suggestion?: string
}

/** Nobody reads more, and each is located in the author's text. */
const MAX_PROBLEMS = 1000

export class ProblemCollector {
  /** The first `MAX_PROBLEMS`. */
  readonly list: DefinitionProblem[] = []

  add(path: Path, message: string, suggestion?: string): void {
    this.#push(suggestion === undefined ? { path, message } : { path, message, suggestion })
  }

  addKey(path: Path, message: string, suggestion?: string): void {
    this.#push(suggestion === undefined ? { path, message, key: true } : { path, message, suggestion, key: true })
  }

  #push(problem: DefinitionProblem): void {
    if (this.list.length < MAX_PROBLEMS) this.list.push(problem)
  }
}

export const pathText = (path: Path): string => path.join(".")

/** Formats a problem as one line: `flow.yaml:3:5: tasks.a.retry: message (did you mean "x"?)`. */
export const problemText = (problem: Problem, file?: string): string => {
  const location = [file, problem.line, problem.column].filter((part) => part !== undefined).join(":")
  const hint = problem.suggestion === undefined ? "" : ` (did you mean "${problem.suggestion}"?)`
  return [location, problem.path, problem.message + hint].filter((part) => part !== "").join(": ")
}
