import { isObject } from "../values/json.ts"

/** Returns a setting that is a map in ork.yaml, or a JSON object in an environment variable; null for anything else. */
export const mapSetting = (value: unknown): Record<string, unknown> | null => {
  const map = typeof value === "string" ? parseJson(value) : value
  return isObject(map) ? map : null
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
