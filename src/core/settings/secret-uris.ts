// Secrets that live with a manager, by URI, as `secrets` in ork.yaml names them: `gcp://projects/P/secrets/S/versions/V` (without the
// version: the latest), `aws://REGION/SECRET-ID`. After `#`, the key of a JSON object that the manager keeps as the value.

import { isObject } from "../model/json.ts"

export type SecretUri =
  | { kind: "gcp"; name: string; key: string | null }
  | { kind: "aws"; region: string; id: string; key: string | null }

export type SecretUris = { [name: string]: SecretUri }

export const SECRET_URIS_HINT =
  'a map of names, each with an address such as "gcp://projects/P/secrets/S/versions/latest" or "aws://REGION/SECRET-ID#JSON-KEY"'

/** A name of a secret: also that of a variable and of a file. */
export const SECRET_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

/** The map, or the same as JSON in one text. null: not understood. */
export const parseSecretUris = (value: unknown): SecretUris | null => {
  const given = typeof value === "string" ? parseJson(value) : value
  if (!isObject(given)) return null
  const uris: SecretUris = {}
  for (const [name, text] of Object.entries(given)) {
    const uri = SECRET_NAME.test(name) && typeof text === "string" ? parseSecretUri(text) : null
    if (uri === null) return null
    uris[name] = uri
  }
  return uris
}

const GCP = /^gcp:\/\/(projects\/[^/#]+\/secrets\/[^/#]+)(?:\/versions\/([^/#]+))?(?:#(.+))?$/
const AWS = /^aws:\/\/([a-z0-9-]+)\/([^#]+)(?:#(.+))?$/

const parseSecretUri = (text: string): SecretUri | null => {
  const gcp = GCP.exec(text)
  if (gcp !== null) return { kind: "gcp", name: `${gcp[1]}/versions/${gcp[2] ?? "latest"}`, key: gcp[3] ?? null }
  const aws = AWS.exec(text)
  return aws === null ? null : { kind: "aws", region: aws[1]!, id: aws[2]!, key: aws[3] ?? null }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
