// Renders the OpenAPI document as an HTML page without scripts.

import type { JsonSchema, OpenApi, Operation } from "./openapi.ts"

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }
const escape = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => ESCAPES[char]!)
const anchor = (text: string): string => text.replaceAll(/[^A-Za-z0-9]+/g, "-")

export const STYLE = `
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1.5rem 4rem }
h1 { margin-bottom: 0 } h2 { border-bottom: 1px solid #8886; margin-top: 2.5rem; text-transform: capitalize }
code, pre { font: 13px/1.5 ui-monospace, monospace } pre { background: #8881; overflow-x: auto; padding: .75rem }
details { border-bottom: 1px solid #8883; padding: .4rem 0 } summary { cursor: pointer }
summary b { display: inline-block; font: 700 12px ui-monospace, monospace; width: 4rem }
summary span { opacity: .75; padding-left: .75rem } table { border-collapse: collapse; width: 100% }
th, td { border-top: 1px solid #8883; padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top }
nav a { margin-right: 1rem }`

/** Returns the type of a schema as text: `string`, `Run`, `integer or null`, `list of Task`. */
const typeText = (schema: JsonSchema): string => {
  const { $ref, type, anyOf, items, enum: values } = schema
  if (typeof $ref === "string") return $ref.split("/").at(-1)!
  if (Array.isArray(values)) return values.map(String).join(", ")
  if ("const" in schema) return JSON.stringify(schema["const"])
  if (Array.isArray(anyOf)) return anyOf.map((each) => typeText(each as JsonSchema)).join(" or ")
  if (type === "array") return `list of ${typeText((items ?? {}) as JsonSchema)}`
  if (Array.isArray(type)) return type.map(String).join(" or ")
  return typeof type === "string" ? type : "any"
}

interface Field {
  name: string
  type: string
  required: boolean
  description: string
}

const describe = (schema: JsonSchema): string => {
  const parts = [
    typeof schema["description"] === "string" ? schema["description"] : "",
    schema["default"] === undefined ? "" : `default ${JSON.stringify(schema["default"])}`,
    schema["minimum"] === undefined || schema["maximum"] === undefined || Number(schema["maximum"]) > 1e15
      ? ""
      : `${Number(schema["minimum"])} to ${Number(schema["maximum"])}`,
    typeof schema["pattern"] === "string" ? schema["pattern"] : "",
  ]
  return parts.filter((part) => part !== "").join("; ")
}

const fieldsOf = (schema: JsonSchema): Field[] => {
  const required = (schema["required"] ?? []) as string[]
  return Object.entries((schema["properties"] ?? {}) as { [name: string]: JsonSchema }).map(([name, field]) => ({
    name,
    type: typeText(field),
    required: required.includes(name),
    description: describe(field),
  }))
}

const table = (fields: readonly Field[]): string =>
  fields.length === 0
    ? ""
    : `<table>${fields
        .map(
          (field) =>
            `<tr><td><code>${escape(field.name)}</code>${field.required ? " *" : ""}</td><td>${escape(field.type)}</td><td>${escape(field.description)}</td></tr>`,
        )
        .join("")}</table>`

const body = (operation: Operation): string => {
  const content = operation.requestBody?.content ?? {}
  return Object.entries(content)
    .map(([type, { schema, example }]) => {
      const sample = typeof example === "string" ? `<pre>${escape(example)}</pre>` : ""
      return `<h4>Body: ${escape(type)}</h4>${table(fieldsOf(schema))}${sample}`
    })
    .join("")
}

const responses = (operation: Operation): string =>
  `<h4>Responses</h4><table>${Object.entries(operation.responses)
    .map(([status, { description, content = {} }]) => {
      const kinds = Object.entries(content).map(([type, { schema }]) => (type === "application/json" ? typeText(schema) : type))
      return `<tr><td><code>${status}</code></td><td>${escape(description)}</td><td>${escape(kinds.join(", "))}</td></tr>`
    })
    .join("")}</table>`

const operationHtml = (path: string, method: string, operation: Operation): string => {
  const parameters = operation.parameters.map((parameter) => ({
    name: parameter.name,
    type: `${typeText(parameter.schema)} (${parameter.in})`,
    required: parameter.required,
    description: [parameter.description ?? "", describe(parameter.schema)].filter((part) => part !== "").join("; "),
  }))
  const scope = operation["x-scope"] === null ? "no key required" : `scope ${operation["x-scope"]}`
  return `<details id="${operation.operationId}"><summary><b>${method.toUpperCase()}</b> <code>${escape(path)}</code><span>${escape(operation.summary)}</span></summary>
<p>${scope}</p>${table(parameters)}${body(operation)}${responses(operation)}</details>`
}

export const docsPage = (document: OpenApi): string => {
  const sections = document.tags.map(({ name }) => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => operation.tags.includes(name))
        .map(([method, operation]) => operationHtml(path, method, operation)),
    )
    return `<h2 id="${anchor(name)}">${escape(name)}</h2>${operations.join("\n")}`
  })
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${anchor(name)}"><summary><code>${escape(name)}</code></summary>${table(fieldsOf(schema))}</details>`,
  )
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Ork API ${escape(document.info.version)}</title><style>${STYLE}</style></head><body>
<h1>Ork API</h1><p>Version ${escape(document.info.version)}. ${escape(document.info.description)}
Every route exists below <code>${escape(document.servers[0]!.url)}</code> and at the root. Send a key as <code>X-API-Key</code> or
<code>Authorization: Bearer</code>. This page is generated from <a href="/openapi.json">openapi.json</a>.</p>
<nav>${document.tags.map(({ name }) => `<a href="#${anchor(name)}">${escape(name)}</a>`).join("")}<a href="#schemas">schemas</a></nav>
${sections.join("\n")}<h2 id="schemas">Schemas</h2>${schemas.join("\n")}</body></html>`
}
