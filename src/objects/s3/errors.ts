// Explains S3 errors to the user who configured the store, with advice.

import { NETWORK_CODES } from "../shared/retry.ts"

export interface S3ErrorInfo {
  name: string
  message: string
  status: number | null
}

const errorInfo = (error: unknown): S3ErrorInfo => {
  if (!(error instanceof Error)) return { name: "", message: String(error), status: null }
  const metadata = "$metadata" in error ? (error.$metadata as { httpStatusCode?: number }) : {}
  const code = "code" in error && typeof error.code === "string" ? error.code : null
  return { name: code ?? error.name, message: error.message || (code ?? error.name), status: metadata.httpStatusCode ?? null }
}

const ADVICE: Readonly<Record<string, (bucket: string, where: string) => string>> = {
  NoSuchBucket: (bucket) => `there is no bucket ${bucket}: create it, or correct its name`,
  InvalidAccessKeyId: () => "the access key is unknown: check AWS_ACCESS_KEY_ID or the profile, and the endpoint",
  SignatureDoesNotMatch: () => "the secret does not match the access key: check AWS_SECRET_ACCESS_KEY",
  AccessDenied: (bucket) =>
    `these credentials lack permissions: allow s3:ListBucket and s3:ListBucketMultipartUploads on ${bucket}, and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on its objects`,
  ExpiredToken: () => "the session token has expired: get a new one",
  CredentialsProviderError: () =>
    "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role",
  PermanentRedirect: (bucket) => `the bucket ${bucket} is in another region: add ?region=NAME to its address`,
  AuthorizationHeaderMalformed: (bucket) => `the bucket ${bucket} is in another region: add ?region=NAME to its address`,
  ECONNREFUSED: (_, where) => `nothing responds at ${where}: check the endpoint`,
  ENOTFOUND: (_, where) =>
    `the host name of ${where} is unknown: check the endpoint, or path_style=true for a server of your own`,
  EAI_AGAIN: (_, where) => `the host name of ${where} cannot be resolved now`,
  TimeoutError: (_, where) => `${where} does not respond in time`,
  ETIMEDOUT: (_, where) => `${where} does not respond in time`,
}

/** The SDK has no name for this error, only a message. */
const NO_REGION = /region is missing/i

export const explainS3 = (error: unknown, bucket: string, where: string): string => {
  const { name, message, status } = errorInfo(error)
  if (NO_REGION.test(message)) return "the region is unknown: add ?region=NAME to its address, or set AWS_REGION"
  const advice = ADVICE[name] ?? (status === 403 ? ADVICE["AccessDenied"] : undefined)
  if (advice !== undefined) return advice(bucket, where)
  return name === "" || name === "Error" ? message : `${name}: ${message}`
}

export const isMissing = (error: unknown): boolean => {
  const { name, status } = errorInfo(error)
  return name === "NoSuchKey" || (name === "NotFound" && status === 404)
}

/** Returns whether the upload was completed or aborted before. */
export const isMissingUpload = (error: unknown): boolean => errorInfo(error).name === "NoSuchUpload"

/** Errors of the network, and of a store that is overloaded or restarts. */
const TRANSIENT: ReadonlySet<string> = new Set([
  ...NETWORK_CODES,
  "TimeoutError",
  "RequestTimeout",
  "SlowDown",
  "ThrottlingException",
])

export const isTransient = (error: unknown): boolean => {
  const { name, message, status } = errorInfo(error)
  return TRANSIENT.has(name) || status === 429 || (status !== null && status >= 500) || /socket hang up|aborted/.test(message)
}

export const isBeyondEnd = (error: unknown): boolean => {
  const { name, status } = errorInfo(error)
  return name === "InvalidRange" || status === 416
}
