// The error of an object store that does not do what it was asked: says which one, why, and what to do. Shown to people as it is.

export class ObjectStoreError extends Error {
  override readonly name = "ObjectStoreError"

  /** `where`: its address, or its folder. */
  constructor(where: string, reason: string, options: { cause: unknown }) {
    super(`the object store ${where} cannot be used: ${reason}`, options)
  }
}
