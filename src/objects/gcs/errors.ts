// Explains errors of Google Cloud Storage to the user who configured the store, with advice.

import { messageOf } from "../../core/model/error-message.ts"
import { GcsError } from "./client.ts"

const NO_BUCKET = /bucket does not exist/i
const NO_CREDENTIALS = /could not load the default credentials|no credentials/i

export const isMissing = (error: unknown): boolean =>
  error instanceof GcsError && error.status === 404 && !NO_BUCKET.test(error.message)

export const isBeyondEnd = (error: unknown): boolean => error instanceof GcsError && error.status === 416

export const explainGcs = (error: unknown, bucket: string): string => {
  const message = messageOf(error)
  if (NO_BUCKET.test(message)) return `there is no bucket ${bucket}: create it, or correct its name`
  if (NO_CREDENTIALS.test(message)) {
    return "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS to a key file, or give the machine a service account"
  }
  if (error instanceof GcsError && error.status === 401) {
    return "the credentials are rejected: check GOOGLE_APPLICATION_CREDENTIALS or the service account"
  }
  if (error instanceof GcsError && error.status === 403) {
    return `these credentials lack permissions: give them the role Storage Object User (roles/storage.objectUser) on ${bucket}`
  }
  if (error instanceof TypeError || error instanceof DOMException) {
    const reason = error.cause instanceof Error ? error.cause.message : message
    return `Google Cloud Storage cannot be reached (${reason}): check the network, and STORAGE_EMULATOR_HOST if it is set`
  }
  return message
}
