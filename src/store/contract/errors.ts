// Errors of stores. Each message says what is wrong, where, and what to do.

export class NotFound extends Error {
  override readonly name = "NotFound"
}

/** The state of the row does not allow the operation. Nothing was changed. */
export class Conflict extends Error {
  override readonly name = "Conflict"
}

/** A newer Ork has migrated the database. */
export class SchemaTooNew extends Error {
  override readonly name = "SchemaTooNew"

  constructor(where: string, found: number, known: number) {
    super(
      `the database ${where} has schema version ${found}, but this Ork knows versions up to ${known}: ` +
        `run the newer Ork that wrote it, or point ORK_DATABASE_URL at another database`,
    )
  }
}

/** A value of a change cannot be stored: the same change would be rejected again. Nothing was written. */
export class InvalidValue extends Error {
  override readonly name = "InvalidValue"
}

/** The database could not be read or written (disk full, I/O error, locked for too long, connection gone). Nothing was written. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable"

  constructor(where: string, reason: string, options?: ErrorOptions) {
    super(`the database ${where} is not available: ${reason}`, options)
  }
}

/** A user's transaction cannot be used: it is on another database, has not begun or has ended. Nothing was written. */
export class UnusableTransaction extends Error {
  override readonly name = "UnusableTransaction"
}
