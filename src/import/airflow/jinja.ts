// Converts the Jinja templates of Airflow to expressions.

import { literalText } from "../imported.ts"

const EXPRESSIONS: Record<string, string> = {
  ds: "run.date",
  ds_nodash: 'run.date.replace("-", "")',
  ts: "run.logical_date",
  logical_date: "run.logical_date",
  execution_date: "run.logical_date",
  data_interval_start: "run.logical_date",
  run_id: "run.id",
  "dag.dag_id": "run.workflow",
  "dag_run.run_id": "run.id",
}

const PARAM = /^(?:params|dag_run\.conf)(?:\.(\w+)|\[["'](\w+)["']\]|\.get\(["'](\w+)["']\))$/
const XCOM = /^(?:ti|task_instance)\.xcom_pull\((?:task_ids=)?\[?["'](\w+)["']\]?\)(?:\[["'](\w+)["']\])?$/

export interface ConvertedText {
  text: string
  /** Names of the params that the text reads. */
  params: string[]
  /** Templates that have no counterpart; they stay in the text. */
  unknown: string[]
}

export const convertJinja = (written: string): ConvertedText => {
  const params: string[] = []
  const unknown: string[] = []
  const text = literalText(written).replaceAll(/\{\{-?\s*(.*?)\s*-?\}\}/gs, (whole, source: string) => {
    const expression = expressionOf(source)
    if (expression === null) {
      unknown.push(whole)
      return whole
    }
    const [, param] = /^params\.(\w+)$/.exec(expression) ?? []
    if (param !== undefined) params.push(param)
    return `\${{ ${expression} }}`
  })
  if (/\{%/.test(written)) unknown.push("{% … %}")
  return { text, params, unknown }
}

const expressionOf = (source: string): string | null => {
  const [, attribute, key, get] = PARAM.exec(source) ?? []
  const param = attribute ?? key ?? get
  if (param !== undefined) return `params.${param}`
  const [, task, field] = XCOM.exec(source) ?? []
  if (task !== undefined) return `tasks.${task}.output${field === undefined ? "" : `.${field}`}`
  return EXPRESSIONS[source] ?? null
}
