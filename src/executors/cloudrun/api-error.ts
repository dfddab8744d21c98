// What Cloud Run said no with, what may be tried again, and what to do about the rest.

import { messageOf } from "../../core/model/error-message.ts"
import { LATE } from "./in-time.ts"
import { partsOf } from "./shapes.ts"

export class ApiError extends Error {
  override readonly name = "ApiError"
  /** Of HTTP; null: there was no answer, or one that broke off. */
  readonly status: number | null

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(message, options)
    this.status = status
  }
}

const DEADLINE_EXCEEDED = 4

/** What the client threw, as one of ours. */
export const errorOf = (error: unknown): ApiError => {
  if (error instanceof ApiError) return error
  const { httpStatusCode, code } = error as { httpStatusCode?: unknown; code?: unknown }
  if (typeof httpStatusCode === "number") return new ApiError(httpStatusCode, messageOf(error), { cause: error })
  return unreachable("Cloud Run", code === DEADLINE_EXCEEDED ? LATE : error)
}

/** There was no answer of that service, or one that broke off. */
export const unreachable = (service: string, error: unknown): ApiError =>
  new ApiError(null, `${service} cannot be reached: ${reasonOf(error)}`, { cause: error })

const reasonOf = (error: unknown): string => {
  if (error instanceof DOMException && error.name === "TimeoutError") return LATE.message
  // What `fetch` throws says why in its cause.
  const message = messageOf(error instanceof TypeError && error.cause !== undefined ? error.cause : error)
  return /Could not load the default credentials/i.test(message)
    ? "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or give the machine a service account"
    : message
}

export const isStatus = (error: unknown, ...statuses: number[]): boolean =>
  error instanceof ApiError && error.status !== null && statuses.includes(error.status)

/** More is asked for than Google allows. */
export const isBusy = (error: ApiError): boolean => error.status === 429

/** It was turned away and has done nothing: to be sent again as it is. 409: the job was changed at the same time. */
const isTurnedAway = (error: ApiError): boolean => error.status === 409 || isBusy(error)

/** It may have been carried out all the same. */
export const isUnsure = (error: ApiError): boolean => error.status === null || error.status === 408 || error.status >= 500

export const isPassing = (error: ApiError): boolean => isTurnedAway(error) || isUnsure(error)

/** The same for what Cloud Logging said no with. */
export const logInWords = (error: ApiError, execution: string): string => {
  switch (error.status) {
    case 403:
      return (
        `Google does not allow it (403: ${error.message}): give the server's account roles/logging.viewer on the project ` +
        `${partsOf(execution).project}; the Cloud Logging API must be enabled`
      )
    case 404:
      return `${error.message} (404)`
    default:
      return inWords(error, execution)
  }
}

/** With what to do about it. `job`: its whole name. */
export const inWords = (error: ApiError, job: string): string => {
  const { project, region, job: name } = partsOf(job)
  switch (error.status) {
    case 401:
      return `Google does not know who asks (401: ${error.message}): check the credentials of the server`
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
