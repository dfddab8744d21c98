/** A backup that cannot be created or restored. The message says what is wrong and what to do; nothing was stored. */
export class BackupError extends Error {
  override readonly name = "BackupError"
}
