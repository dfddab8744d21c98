// Converts the sensors of Airflow to tasks that wait.

import type { TaskDefinition } from "../../core/model/definition.ts"
import { sqlExpressionProblem } from "../../core/compile/code/sql-text.ts"
import { splitText } from "../../core/compile/code/templates.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { type AirflowTask, isObject, secondsOf } from "./read.ts"

/** The part of the import of a DAG that sensors use. */
export interface SensorContext {
  /** Converts a text with templates. */
  text(value: Json | undefined): string
  problem(message: string): void
}

/** Arguments of every sensor that `waitFields` converts, and those that say how Airflow waits. */
const COMMON = ["poke_interval", "timeout", "soft_fail", "mode", "deferrable", "exponential_backoff", "max_wait"]

interface Sensor {
  /** Returns what the task waits for; null when it cannot be converted. */
  target(args: JsonObject, context: SensorContext, id: string): TaskDefinition | null
  used: readonly string[]
}

const SENSORS: { readonly [operator: string]: Sensor } = {
  FileSensor: {
    target: ({ filepath }, { text }) => ({ path: text(filepath) }),
    used: ["filepath", "fs_conn_id", "recursive"],
  },
  S3KeySensor: {
    target: ({ bucket_key: key, bucket_name: bucket }, { text }) => {
      const [only, ...others] = [key].flat()
      if (typeof only !== "string" || others.length > 0) return null
      const name = text(only)
      if (name.startsWith("s3://")) return { path: name }
      return typeof bucket === "string" ? { path: `s3://${text(bucket)}/${name}` } : null
    },
    used: ["bucket_key", "bucket_name", "wildcard_match", "aws_conn_id", "verify"],
  },
  GCSObjectExistenceSensor: {
    target: ({ bucket, object }, { text }) => ({ path: `gs://${text(bucket)}/${text(object)}` }),
    used: ["bucket", "object", "google_cloud_conn_id", "gcp_conn_id"],
  },
  GCSObjectsWithPrefixExistenceSensor: {
    target: ({ bucket, prefix }, { text }) => ({ path: `gs://${text(bucket)}/${text(prefix)}*` }),
    used: ["bucket", "prefix", "google_cloud_conn_id", "gcp_conn_id"],
  },
  HttpSensor: {
    target: ({ endpoint, http_conn_id: connection, response_check: check }, { text, problem }, id) => {
      const address = text(endpoint)
      if (check !== undefined)
        problem(`response_check of ${id} is not converted; write it as until, an expression over response`)
      if (/^https?:\/\//.test(address)) return { url: address }
      const host = typeof connection === "string" ? connection : "http_default"
      problem(`${id} uses the connection ${host}; write its host into the url`)
      return { url: `https://${host}/${address.replace(/^\//, "")}` }
    },
    used: ["endpoint", "http_conn_id", "method", "response_check"],
  },
  SqlSensor: {
    target: ({ sql, conn_id: connection }, { text, problem }, id) => {
      // Ork passes values as parameters, which stand without quotes.
      const query = text(sql).replaceAll(/'(\$\{\{[^{}]*\}\})'/g, "$1")
      if (sqlExpressionProblem(splitText(query).parts) !== null) return null
      const name = typeof connection === "string" ? connection : "default"
      problem(`${id} needs the connection ${name} in ork.yaml, and the first column of its query must be true or false`)
      return { sql: query, connection: name }
    },
    used: ["sql", "conn_id"],
  },
  ExternalTaskSensor: {
    target: (args, { text, problem }, id) => {
      const { external_dag_id: dag, external_task_id: task, external_task_ids: tasks, execution_delta: delta } = args
      if (task != null || tasks != null) problem(`${id} waits for the whole run of ${text(dag)}, not for one of its tasks`)
      if (delta != null) problem(`execution_delta of ${id} is not converted; it waits for the run with the same logical date`)
      return { workflow: text(dag), logical_date: "${{ run.logical_date }}" }
    },
    used: ["external_dag_id", "external_task_id", "external_task_ids", "execution_delta", "check_existence"],
  },
  BashSensor: {
    target: ({ bash_command: command }, { text }) => ({ command: text(command), shell: ["bash", "-c"] }),
    used: ["bash_command"],
  },
}

/** Returns the task that waits as a sensor does, and the arguments that this covers; null for other operators. */
export const sensorWork = (task: AirflowTask, context: SensorContext): { own: TaskDefinition; used: string[] } | null => {
  const { operator, args, id } = task
  const sensor = Object.hasOwn(SENSORS, operator) ? SENSORS[operator]! : null
  const target = sensor?.target(args, context, id) ?? null
  if (sensor === null || target === null) return null
  return { own: { executor: "wait", ...target, ...waitFields(args) }, used: [...sensor.used, ...COMMON] }
}

const waitFields = ({ poke_interval: interval, timeout, soft_fail: softFail }: JsonObject): TaskDefinition => ({
  every: duration(interval) ?? 60,
  ...(duration(timeout) !== null && { timeout: duration(timeout)! }),
  ...(softFail === true && { soft_fail: true }),
})

/** Returns seconds, given as a number or a timedelta. */
const duration = (value: Json | undefined): number | null => {
  if (typeof value === "number") return value > 0 ? value : null
  return isObject(value) ? secondsOf(value) : null
}
