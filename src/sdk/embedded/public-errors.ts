// Errors of the engine as users of the SDK know them.

import { Conflict, NotFound } from "../../store/contract/errors.ts"
import { ConflictError, NotFoundError } from "../errors.ts"

/** Throws the error of the SDK for one of the engine, and other errors as they are. */
export const throwPublicError = (error: unknown): never => {
  if (error instanceof Conflict) throw new ConflictError(error.message)
  if (error instanceof NotFound) throw new NotFoundError(error.message)
  throw error
}
