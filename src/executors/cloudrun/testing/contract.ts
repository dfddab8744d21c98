// The published contract of Cloud Run's API, read from the definitions that Google's client ships: the routes of requests
// (google.api.http) and the fields of messages. Only the contract of Cloud Logging is written by hand (logging-contract.ts).

import { createRequire } from "node:module"
import protobuf from "protobufjs"
import { LOGGING } from "./logging-contract.ts"

const json = createRequire(import.meta.url)("@google-cloud/run/build/protos/protos.json") as protobuf.INamespace
const root = protobuf.Root.fromJSON(json)
root.define("google.logging.v2").addJSON(LOGGING.nested ?? {})
root.resolveAll()
const PACKAGE = "google.cloud.run.v2"

export interface Route {
  /** `Jobs.RunJob` */
  name: string
  verb: string
  /** Captures the values of `fields`. */
  pattern: RegExp
  fields: string[]
  /** `*` when the body is the whole message; null when there is none. */
  body: string | null
  request: protobuf.Type
  response: protobuf.Type
}

interface HttpRule {
  get?: string
  post?: string
  patch?: string
  delete?: string
  body?: string
}

const VERBS = ["get", "post", "patch", "delete"] as const

export const routesOf = (inPackage: string, ...services: string[]): Route[] =>
  services.flatMap((service) =>
    root.lookupService(`${inPackage}.${service}`).methodsArray.map((method): Route => {
      method.resolve()
      const options = (method.parsedOptions ?? []) as { [name: string]: unknown }[]
      const rule = options.find((option) => "(google.api.http)" in option)?.["(google.api.http)"] as HttpRule
      const verb = VERBS.find((one) => rule[one] !== undefined) ?? "get"
      const fields: string[] = []
      const pattern = (rule[verb] ?? "").replaceAll(/\{([\w.]+)=([^}]+)\}/g, (_, field: string, glob: string) => {
        fields.push(field)
        return `(${glob.replaceAll("*", "[^/:]+")})`
      })
      return {
        name: `${service}.${method.name}`,
        verb: verb.toUpperCase(),
        pattern: new RegExp(`^${pattern}$`),
        fields,
        body: rule.body ?? null,
        request: method.resolvedRequestType as protobuf.Type,
        response: method.resolvedResponseType as protobuf.Type,
      }
    }),
  )

export const messageType = (name: string): protobuf.Type => root.lookupType(`${PACKAGE}.${name}`)

const WELL_KNOWN: { [type: string]: RegExp } = {
  "google.protobuf.Duration": /^-?\d+(\.\d{1,9})?s$/,
  "google.protobuf.Timestamp": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/,
}

/** Returns why a value is not valid JSON of this message; null when it is. `required`: checks for missing required fields. */
export const problemOf = (type: protobuf.Type, value: unknown, required: boolean, at = "body"): string | null => {
  const name = type.fullName.slice(1)
  const text = WELL_KNOWN[name]
  if (text !== undefined)
    return typeof value === "string" && text.test(value) ? null : `${at}: not a ${name}: ${JSON.stringify(value)}`
  if (name === "google.protobuf.Any") return anyProblem(value, at)
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `${at}: not an object`
  // Any JSON object.
  if (type.name === "Struct") return null
  for (const [key, part] of Object.entries(value)) {
    const field = type.fields[key]
    if (field === undefined) return `${at}: Unknown name "${key}": Cannot find field.`
    const problem = fieldProblem(field.resolve(), part, required, `${at}.${key}`)
    if (problem !== null) return problem
  }
  const missing = required ? type.fieldsArray.find((field) => isRequired(field) && !(field.name in value)) : undefined
  return missing === undefined ? null : `${at}.${missing.name}: required`
}

const isRequired = (field: protobuf.Field): boolean => JSON.stringify(field.options ?? {}).includes('"REQUIRED"')

const anyProblem = (value: unknown, at: string): string | null => {
  const { "@type": address, ...rest } = value as { "@type": string }
  const type = root.lookupType(address.slice(address.lastIndexOf("/") + 1))
  return problemOf(type, rest, false, at)
}

const fieldProblem = (field: protobuf.Field, value: unknown, required: boolean, at: string): string | null => {
  if (field.map) {
    if (typeof value !== "object" || value === null) return `${at}: not a map`
    return first(Object.entries(value), ([key, part]) => valueProblem(field, part, required, `${at}[${key}]`))
  }
  if (!field.repeated) return valueProblem(field, value, required, at)
  if (!Array.isArray(value)) return `${at}: not a list`
  return first(value, (part, index) => valueProblem(field, part, required, `${at}[${index}]`))
}

const first = <T>(items: T[], check: (item: T, index: number) => string | null): string | null => {
  for (const [index, item] of items.entries()) {
    const problem = check(item, index)
    if (problem !== null) return problem
  }
  return null
}

const isInteger = (value: unknown, bits: number): boolean => {
  const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isInteger(number) && Math.abs(number) <= 2 ** (bits - 1)
}

const valueProblem = ({ type, resolvedType }: protobuf.Field, value: unknown, required: boolean, at: string): string | null => {
  if (resolvedType instanceof protobuf.Type) return problemOf(resolvedType, value, required, at)
  const fits =
    resolvedType instanceof protobuf.Enum
      ? typeof value === "number"
        ? value in resolvedType.valuesById
        : String(value) in resolvedType.values
      : scalarFits(type, value)
  return fits ? null : `${at}: Invalid value (${type}), ${JSON.stringify(value)}`
}

const scalarFits = (type: string, value: unknown): boolean => {
  switch (type) {
    case "string":
    case "bytes":
      return typeof value === "string"
    case "bool":
      return typeof value === "boolean"
    case "int32":
    case "uint32":
    case "sint32":
      return isInteger(value, 32)
    case "int64":
    case "uint64":
      return isInteger(value, 64)
    case "float":
    case "double":
      return typeof value === "number"
    default:
      throw new Error(`no check for the type ${type}`)
  }
}

/** Returns why a query string is not valid for this message; null when it is. */
export const queryProblem = (type: protobuf.Type, query: URLSearchParams): string | null => {
  for (const [key, value] of query) {
    if (key.startsWith("$")) continue
    const field = type.fields[key]
    if (field === undefined) return `Invalid JSON payload received. Unknown name "${key}": Cannot bind query parameter.`
    const parsed = field.type === "bool" ? value === "true" : value
    const problem = fieldProblem(field.resolve(), parsed, true, key)
    if (problem !== null) return problem
  }
  return null
}
