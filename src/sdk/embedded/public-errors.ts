// Errors of the engine as users of the SDK know them.

import { ObjectStoreError } from "../../objects/errors.ts"
import { Conflict, NotFound, StoreUnavailable } from "../../store/contract/errors.ts"
import { ConflictError, NotFoundError, REPEAT, UnavailableError } from "../errors.ts"

/** Throws the error of the SDK for one of the engine, and other errors as they are. */
export const throwPublicError = (error: unknown): never => {
  if (error instanceof Conflict) throw new ConflictError(error.message)
  if (error instanceof NotFound) throw new NotFoundError(error.message)
  if (error instanceof StoreUnavailable || error instanceof ObjectStoreError)
    throw new UnavailableError(`${error.message}; ${REPEAT}`, { cause: error })
  throw error
}
