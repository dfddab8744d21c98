// SQL statements with named parameters. `statement` compiles `:name` to the numbered parameters of Postgres once, when its module
// is loaded. A parameter declares its type where it is first used (`:rows::bigint[]`); later uses of the name share it.

import { arrayParam, textArrayParam } from "./array-params.ts"

type Scalar = string | number | boolean | null

/** The value of a parameter. An array without any value but null is sent as NULL, which `unnest` pads with NULLs. */
export type Param = Scalar | readonly Scalar[]

export type Params = Readonly<Record<string, Param>>

/** A value as it is sent. */
export type Value = Scalar

/** Runs statements: a connection, inside or outside of a transaction. */
export interface SqlRunner {
  run<Row>(statement: Statement, params?: Params | readonly Value[]): Promise<Row[]>
}

/** Marks a promise that is awaited after further statements were sent: its failure is handled there. */
export const pipelined = <T>(work: Promise<T>): Promise<T> => {
  work.catch(() => {})
  return work
}

export interface Statement {
  /** Name under which connections prepare it. */
  readonly name: string
  /** SQL with numbered parameters. */
  readonly text: string
  readonly params: readonly { readonly name: string; readonly type: string | undefined }[]
}

/** SQL: a condition that is always true, and makes Postgres run the CTE first. */
export const RUNS_AFTER = (cte: string): string => `(SELECT count(*) FROM ${cte}) >= 0`

/** `:name` or `:name::type`, but neither the cast in `x::type` nor a colon inside of a quoted text such as 'q:default'. */
const PARAMETER = /(?<![:\w]):([a-z]\w*)(?:::(\w+(?:\[\])?))?/gi

const names = new Set<string>()

/** Compiles a statement. Throws when another statement has the name: a connection would prepare them alternately. */
export const statement = (name: string, sql: string): Statement => {
  if (names.has(name)) throw new Error(`two statements are named ${name}`)
  names.add(name)
  const types = new Map<string, string | undefined>()
  for (const [, parameter, type] of sql.matchAll(PARAMETER)) types.set(parameter!, types.get(parameter!) ?? type)
  const parameters = [...types.keys()]
  const text = sql.replaceAll(PARAMETER, (_, parameter: string, type?: string) => {
    const cast = type ?? types.get(parameter)
    return `$${parameters.indexOf(parameter) + 1}${cast === undefined ? "" : `::${cast}`}`
  })
  return { name, text, params: parameters.map((parameter) => ({ name: parameter, type: types.get(parameter) })) }
}

export const hasParam = ({ params }: Statement, name: string): boolean => params.some((param) => param.name === name)

/** Returns the values of the numbered parameters. Throws when one is missing. A list of values is already in their order. */
export const bind = (statement: Statement, params: Params | readonly Value[]): readonly Value[] => {
  if (isList(params)) return params
  return statement.params.map(({ name, type }) => {
    const value = params[name]
    if (value === undefined) throw new Error(`statement ${statement.name} has no value for :${name}`)
    return isArray(value) ? encodeArray(value, type) : value
  })
}

const isList = (params: Params | readonly Value[]): params is readonly Value[] => Array.isArray(params)

const isArray = (value: Param): value is readonly Scalar[] => Array.isArray(value)

const encodeArray = (values: readonly Scalar[], type: string | undefined): string | null => {
  if (values.length === 0) return "{}"
  return type === "text[]" ? textArrayParam(values as readonly (string | null)[]) : arrayParam(values)
}
