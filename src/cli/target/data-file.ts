// Parses YAML and JSON files that hold one object: ork.yaml and --params-file. Loaded only if there is such a file.

import { InputError } from "../terminal/errors.ts"
import { isObject, type JsonObject } from "../../core/values/json.ts"
import { problemText } from "../../core/model/problems.ts"
import { readDocument } from "../../definition/text-document.ts"

export const parseDataFile = (text: string, name: string): JsonObject => {
  const { document, problems } = readDocument(text, name.endsWith(".json") ? "json" : "yaml")
  if (problems.length > 0) throw new InputError(problems.map((problem) => problemText(problem, name)).join("\n"))
  const value = document?.value ?? null
  if (value === null) return {}
  if (!isObject(value)) throw new InputError(`${name}: must hold names with values, such as \`limit: 5\``)
  return value
}
