// The error of an object store that cannot be used: names the store, the reason and what to do. Shown to users unchanged.

export class ObjectStoreError extends Error {
  override readonly name = "ObjectStoreError"

  /** True when the store may work again soon. */
  readonly transient: boolean

  /** `where`: address or folder of the store. */
  constructor(where: string, reason: string, { cause, transient = false }: { cause: unknown; transient?: boolean }) {
    super(`the object store ${where} cannot be used: ${reason}`, { cause })
    this.transient = transient
  }
}
