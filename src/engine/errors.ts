// What a caller did wrong, told apart so that the API and the command line can answer each in its way.

export class NotFoundError extends Error {
  override readonly name = "NotFoundError"
}

/** The thing is in a state that does not allow it. */
export class ConflictError extends Error {
  override readonly name = "ConflictError"
}
