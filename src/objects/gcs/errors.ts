// What Google's errors mean to the person who set the store up, and what to do about them.

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && (typeof error.code === "number" || typeof error.code === "string")
    ? String(error.code)
    : ""

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const NO_BUCKET = /bucket does not exist/i
const NO_CREDENTIALS = /could not load the default credentials|no credentials/i

export const isMissing = (error: unknown): boolean => codeOf(error) === "404" && !NO_BUCKET.test(messageOf(error))

export const isBeyondEnd = (error: unknown): boolean => codeOf(error) === "416"

export const explainGcs = (error: unknown, bucket: string): string => {
  const message = messageOf(error)
  if (NO_BUCKET.test(message)) return `there is no bucket ${bucket}: make it, or correct its name`
  if (NO_CREDENTIALS.test(message)) {
    return "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS to a key file, or give the machine a service account"
  }
  switch (codeOf(error)) {
    case "401":
      return "the credentials are not taken: check GOOGLE_APPLICATION_CREDENTIALS or the service account"
    case "403":
      return `these credentials may not do that: give them the role Storage Object User (roles/storage.objectUser) on ${bucket}`
    case "ECONNREFUSED":
    case "ENOTFOUND":
    case "EAI_AGAIN":
    case "ETIMEDOUT":
      return `Google Cloud Storage cannot be reached (${codeOf(error)}): check the network, and STORAGE_EMULATOR_HOST if it is set`
    default:
      return message
  }
}
