// What is wrong with a definition or with params: collected, never thrown, so that all of it is told at once.

export type Path = readonly (string | number)[]

/** A problem as the compiler finds it; definition/parse.ts adds line and column. */
export interface DefinitionProblem {
  path: Path
  message: string
  suggestion?: string
  /** Points at the key itself rather than at its value: the key is what is wrong. */
  key?: true
}

/** A problem as it is shown. */
export interface Problem {
  /** `tasks.process.retry`; empty for the document as a whole. */
  path: string
  message: string
  line?: number
  column?: number
  suggestion?: string
}

export class ProblemCollector {
  readonly list: DefinitionProblem[] = []

  add(path: Path, message: string, suggestion?: string): void {
    this.list.push(suggestion === undefined ? { path, message } : { path, message, suggestion })
  }

  addKey(path: Path, message: string, suggestion?: string): void {
    this.list.push(suggestion === undefined ? { path, message, key: true } : { path, message, suggestion, key: true })
  }
}

export const pathText = (path: Path): string => path.join(".")

/** `flow.yaml:3:5: tasks.a.retry: message (did you mean "x"?)`: one line for people. */
export const problemText = (problem: Problem, file?: string): string => {
  const place = [file, problem.line, problem.column].filter((part) => part !== undefined).join(":")
  const hint = problem.suggestion === undefined ? "" : ` (did you mean "${problem.suggestion}"?)`
  return [place, problem.path, problem.message + hint].filter((part) => part !== "").join(": ")
}
