// Rows of API keys, equal in both stores. Lists are stored as JSON.

import type { KeyRow, KeyScope, NewKey } from "../contract/keys.ts"

export type KeyColumns = Omit<KeyRow, "scopes" | "queues" | "limits"> & {
  scopes: string
  queues: string | null
  workflows: string | null
  tags: string | null
}

export const keyOf = ({ scopes, queues, workflows, tags, ...columns }: KeyColumns): KeyRow => ({
  ...columns,
  scopes: JSON.parse(scopes) as KeyScope[],
  queues: listOf(queues),
  limits: workflows === null && tags === null ? null : { workflows: listOf(workflows), tags: listOf(tags) },
})

export const keyTexts = ({ scopes, queues, limits }: Pick<NewKey, "scopes" | "queues" | "limits">) => ({
  scopes: JSON.stringify(scopes),
  queues: textOf(queues),
  workflows: textOf(limits?.workflows ?? null),
  tags: textOf(limits?.tags ?? null),
})

const listOf = (text: string | null): string[] | null => (text === null ? null : (JSON.parse(text) as string[]))

const textOf = (list: readonly string[] | null): string | null => (list === null ? null : JSON.stringify(list))
