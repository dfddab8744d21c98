// Checks answers against the server's own OpenAPI document.

import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import type { OpenApi } from "../http/openapi.ts"

const pointer = (...parts: string[]): string =>
  parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")

export class DocumentChecker {
  readonly #document: OpenApi
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  readonly #known = new Map<string, ValidateFunction>()

  constructor(document: OpenApi) {
    this.#document = document
    this.#ajv.addSchema(document, "ork")
  }

  /** What is wrong with an answer, or null. */
  problem(method: string, path: string, answer: { status: number; type: string; body: unknown }): string | null {
    const operation = this.#document.paths[path]?.[method.toLowerCase()]
    if (operation === undefined) return `${method} ${path} is not in the document`
    const response = operation.responses[String(answer.status)]
    if (response === undefined) return `${method} ${path} answered ${answer.status}, which the document does not know`
    if (response.content === undefined) return answer.body === "" ? null : `${method} ${path} should have no body`
    const type = answer.type.split(";")[0]!
    if (response.content[type] === undefined) return `${method} ${path} answered ${type}`
    if (type !== "application/json") return null
    const ref = `ork#/${pointer("paths", path, method.toLowerCase(), "responses", String(answer.status), "content", type, "schema")}`
    const validate = this.#known.get(ref) ?? this.#ajv.compile({ $ref: ref })
    this.#known.set(ref, validate)
    return validate(answer.body) ? null : `${method} ${path} ${answer.status}: ${this.#ajv.errorsText(validate.errors)}`
  }
}
