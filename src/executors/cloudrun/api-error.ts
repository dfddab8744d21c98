// Errors of Cloud Run and Cloud Logging: whether a retry may help, and what to do about the others.

import { messageOf } from "../../core/values/error-message.ts"
import { partsOf } from "./shapes.ts"

export class GoogleApiError extends Error {
  override readonly name = "GoogleApiError"
  /** HTTP status; null when there was no response, or an incomplete one. */
  readonly status: number | null

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(message, options)
    this.status = status
  }
}

export const TIMED_OUT = "it did not respond in time"

/** Converts any error of a call of Cloud Run. */
export const errorOf = (error: unknown): GoogleApiError =>
  error instanceof GoogleApiError ? error : unreachable("Cloud Run", error)

/** Builds the error for a missing or incomplete response of a service. */
export const unreachable = (service: string, error: unknown): GoogleApiError =>
  new GoogleApiError(null, `${service} cannot be reached: ${reasonOf(error)}`, { cause: error })

const reasonOf = (error: unknown): string => {
  if (error instanceof DOMException && error.name === "TimeoutError") return TIMED_OUT
  // `fetch` puts the reason into the cause.
  const message = messageOf(error instanceof TypeError && error.cause !== undefined ? error.cause : error)
  return /Could not load the default credentials/i.test(message)
    ? "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or give the machine a service account"
    : message
}

export const isStatus = (error: unknown, ...statuses: number[]): boolean =>
  error instanceof GoogleApiError && error.status !== null && statuses.includes(error.status)

export const isRateLimited = (error: GoogleApiError): boolean => error.status === 429

/** Returns true when the request was rejected without effect. 409: the job was changed at the same time. */
const isConflict = (error: GoogleApiError): boolean => error.status === 409 || isRateLimited(error)

/** Returns true when the request may have been carried out. */
export const mayHaveSucceeded = (error: GoogleApiError): boolean =>
  error.status === null || error.status === 408 || error.status >= 500

export const isTransient = (error: GoogleApiError): boolean => isConflict(error) || mayHaveSucceeded(error)

/** Returns the message of an error of Cloud Logging, with advice. `execution`: its full name. */
export const describeLogError = (error: GoogleApiError, execution: string): string => {
  switch (error.status) {
    case 403:
      return (
        `Google does not allow it (403: ${error.message}): give the server's account roles/logging.viewer on the project ` +
        `${partsOf(execution).project}; the Cloud Logging API must be enabled`
      )
    case 404:
      return `${error.message} (404)`
    default:
      return describeError(error, execution)
  }
}

/** Returns the message of an error of Cloud Run, with advice. `job`: its full name. */
export const describeError = (error: GoogleApiError, job: string): string => {
  const { project, region, job: name } = partsOf(job)
  switch (error.status) {
    case 401:
      return `Google rejects the server's credentials (401: ${error.message}): check them`
    case 403:
      return (
        `Google does not allow it (403: ${error.message}): give the server's account roles/run.developer on the job ${name}, and ` +
        "roles/iam.serviceAccountUser on the account that the job runs as; the Cloud Run Admin API must be enabled"
      )
    case 404:
      return (
        `there is no job ${name} in ${region} of project ${project} (404: ${error.message}): ` +
        "create it (`gcloud run jobs create`), or check `job`, cloudrun_project and cloudrun_region"
      )
    case null:
      return error.message
    default:
      return `${error.message} (${error.status})`
  }
}
