// What an expression reads. In a file of its own, so that types that mention it do not depend on the CEL library.

import type { Json, JsonObject } from "../values/json.ts"

/** Values of the variables of an expression. `tasks` is keyed by short names, without the group. */
export interface ExpressionScope {
  params: JsonObject
  /** Names of the params of type number: their values are doubles, also when they are whole. */
  doubles?: readonly string[]
  tasks: { [name: string]: { output: Json; status: string } }
  run: {
    id: string
    workflow: string
    logical_date: string | null
    date: string | null
    trigger: string
    /** What a trigger created the run for; null: no trigger did. */
    cause: Json
    /** Set for hooks. */
    status?: string
    error?: string | null
  }
  item?: Json
  index?: number
  /** Instance of the nearest fanned group around the task. */
  parent?: { item?: Json; index?: number }
  /** The task that a notification is about. */
  task?: Json
  /** Response to a poll of deferred work. */
  response?: Json
  /** Outputs that are too large to be parsed on the server's thread, by task; `tasks` has null for them. */
  texts?: { readonly [task: string]: LargeText }
}

/** A JSON text that is parsed only in a thread of its own. */
export interface LargeText {
  /** Names the text: a text of another content has another key. */
  key: string
  bytes: number
  read(): Promise<Uint8Array>
}
