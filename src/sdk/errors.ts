// Errors of the SDK. `instanceof` also recognises an error that another copy of the package has thrown, by a mark that all copies share.

const MARK = Symbol.for("ork.sdk.error")

/** Base of all errors of the SDK. */
export class OrkError extends Error {
  static {
    this.prototype.name = "OrkError"
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === "object" && value !== null && namesOf(value).includes(this.prototype.name)
  }

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    const names: string[] = []
    for (let type = Object.getPrototypeOf(this) as Error; type !== Error.prototype; type = Object.getPrototypeOf(type) as Error)
      names.push(type.name)
    Object.defineProperty(this, MARK, { value: names })
  }
}

const namesOf = (value: object): readonly string[] => (MARK in value ? (value[MARK] as readonly string[]) : [])

/** A value does not fit the schema of a task, workflow or signal. Nothing was written. */
export class InvalidInputError extends OrkError {
  static {
    this.prototype.name = "InvalidInputError"
  }

  readonly issues: readonly { path: string; message: string }[]

  constructor(what: string, issues: readonly { path: string; message: string }[]) {
    super(
      `${what} is not valid: ${issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ")}`,
    )
    this.issues = issues
  }
}

/** A problem of a definition, and the place in the user's code or file that has it. */
export interface DefinitionProblem {
  /** Path in the definition, such as `tasks.load.input`; empty for the definition as a whole. */
  readonly path: string
  readonly message: string
  /** Such as `app.ts:12:5`; empty if it is not known. */
  readonly place: string
}

/** A graph or workflow file is not valid. Nothing was written. */
export class InvalidDefinitionError extends OrkError {
  static {
    this.prototype.name = "InvalidDefinitionError"
  }

  readonly problems: readonly DefinitionProblem[]

  constructor(what: string, problems: readonly DefinitionProblem[]) {
    const lines = problems.map(({ place, path, message }) => [place, path, message].filter((part) => part !== "").join(": "))
    super(`${what} is not valid:\n${lines.map((line) => `  ${line}`).join("\n")}`)
    this.problems = problems
  }
}

/** A task, workflow or run of this name or id does not exist. */
export class NotFoundError extends OrkError {
  static {
    this.prototype.name = "NotFoundError"
  }
}

export const noJob = (id: string): NotFoundError => new NotFoundError(`there is no job ${id}`)

/** The error for a job that was created in a transaction of the user. */
export const noJobYet = (id: string): NotFoundError =>
  new NotFoundError(
    `there is no job ${id}: the transaction that creates it has not been committed, or was rolled back; await the commit first`,
  )

export const noFunction = (id: string): NotFoundError => new NotFoundError(`there is no run ${id} of a durable function`)

/** The state of the job or run does not allow the operation, or its key is taken. Nothing was changed. */
export class ConflictError extends OrkError {
  static {
    this.prototype.name = "ConflictError"
  }
}

/** The awaited job or run has failed. */
export class TaskFailedError extends OrkError {
  static {
    this.prototype.name = "TaskFailedError"
  }

  readonly id: string
  readonly task: string

  constructor(task: string, id: string, reason: string) {
    super(`${task} ${id} failed: ${reason}`)
    this.task = task
    this.id = id
  }
}

/** The awaited job or run was cancelled, or the code that waits is being cancelled. */
export class CancelledError extends OrkError {
  static {
    this.prototype.name = "CancelledError"
  }
}

/** The result did not arrive in the time that the caller gave. The job or run goes on. */
export class TimeoutError extends OrkError {
  static {
    this.prototype.name = "TimeoutError"
  }
}

/** The engine was stopped. */
export class StoppedError extends OrkError {
  static {
    this.prototype.name = "StoppedError"
  }

  constructor() {
    super("this Ork was stopped: call Ork.open again")
  }
}

/** The code of a durable function differs from what was recorded. */
export class NonDeterminismError extends OrkError {
  static {
    this.prototype.name = "NonDeterminismError"
  }
}

/** A value cannot be written as JSON: a function, a bigint, a cycle. Nothing was written. */
export class NotJsonError extends OrkError {
  static {
    this.prototype.name = "NotJsonError"
  }
}

/** The database, the object store or the server could not be reached or used. The call may have been committed all the same. */
export class UnavailableError extends OrkError {
  static {
    this.prototype.name = "UnavailableError"
  }
}

/** What a program does after an UnavailableError. */
export const REPEAT = "repeat the call later; it may have been committed, so enqueue with a key, which creates its work once"

/** A newer Ork has migrated the database. Nothing was changed. */
export class NewerDatabaseError extends OrkError {
  static {
    this.prototype.name = "NewerDatabaseError"
  }
}

/** The user's transaction cannot be used: it is on another database, has not begun, or has ended. Nothing was written. */
export class TransactionError extends OrkError {
  static {
    this.prototype.name = "TransactionError"
  }
}
