// The error of an object store that cannot be used: names the store, the reason and what to do. Shown to users unchanged.

export class ObjectStoreError extends Error {
  override readonly name = "ObjectStoreError"

  /** `where`: address or folder of the store. */
  constructor(where: string, reason: string, options: { cause: unknown }) {
    super(`the object store ${where} cannot be used: ${reason}`, options)
  }
}
