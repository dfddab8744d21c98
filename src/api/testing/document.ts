// Checks responses against the server's OpenAPI document.

import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import type { OpenApi } from "../http/openapi.ts"

const pointer = (...parts: string[]): string =>
  parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")

export class DocumentChecker {
  readonly #document: OpenApi
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  readonly #validators = new Map<string, ValidateFunction>()

  constructor(document: OpenApi) {
    this.#document = document
    this.#ajv.addSchema(document, "ork")
  }

  /** Returns how a response differs from the document, or null. */
  problem(method: string, path: string, sent: { status: number; type: string; body: unknown }): string | null {
    const operation = this.#document.paths[path]?.[method.toLowerCase()]
    if (operation === undefined) return `${method} ${path} is not in the document`
    const response = operation.responses[String(sent.status)]
    if (response === undefined) return `${method} ${path} sent the status ${sent.status}, which the document does not list`
    if (response.content === undefined) return sent.body === "" ? null : `${method} ${path} should have no body`
    const type = sent.type.split(";")[0]!
    if (response.content[type] === undefined) return `${method} ${path} sent ${type}`
    if (type !== "application/json") return null
    const ref = `ork#/${pointer("paths", path, method.toLowerCase(), "responses", String(sent.status), "content", type, "schema")}`
    const validate = this.#validators.get(ref) ?? this.#ajv.compile({ $ref: ref })
    this.#validators.set(ref, validate)
    return validate(sent.body) ? null : `${method} ${path} ${sent.status}: ${this.#ajv.errorsText(validate.errors)}`
  }
}
