// Databases that `wait` tasks may query (`connections` in ork.yaml): each name has the address of a Postgres database, or the secret
// that contains it.

import { mapSetting } from "./map-setting.ts"
import { isObject } from "../values/json.ts"

export type Connections = { [name: string]: { url: string } | { secret: string } }

export const CONNECTIONS_HINT =
  'a map of names, each with an address such as "postgres://user@host/database", or { secret: NAME } of a secret that contains it'

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

export const parseConnections = (value: unknown): Connections | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const connections: Connections = {}
  for (const [name, given] of Object.entries(map)) {
    const connection = NAME.test(name) ? parseConnection(given) : null
    if (connection === null) return null
    connections[name] = connection
  }
  return connections
}

const parseConnection = (given: unknown): Connections[string] | null => {
  if (typeof given === "string") return /^postgres(?:ql)?:\/\/./.test(given) ? { url: given } : null
  if (!isObject(given) || Object.keys(given).length !== 1) return null
  const { secret } = given
  return typeof secret === "string" && NAME.test(secret) ? { secret } : null
}
