// URIs of secrets in secret managers, as `secrets` in ork.yaml lists them: `gcp://projects/P/secrets/S/versions/V` (default: the
// latest version), `aws://REGION/SECRET-ID`. `#KEY` selects a field of a secret whose value is a JSON object.

import { mapSetting } from "./map-setting.ts"

export type SecretUri =
  | { kind: "gcp"; name: string; key: string | null }
  | { kind: "aws"; region: string; id: string; key: string | null }

export type SecretUris = { [name: string]: SecretUri }

export const SECRET_URIS_HINT =
  'a map of names, each with an address such as "gcp://projects/P/secrets/S/versions/latest" or "aws://REGION/SECRET-ID#JSON-KEY"'

/** Allowed names of secrets; they are names of variables and files too. */
export const SECRET_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

export const parseSecretUris = (value: unknown): SecretUris | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const uris: SecretUris = {}
  for (const [name, text] of Object.entries(map)) {
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
