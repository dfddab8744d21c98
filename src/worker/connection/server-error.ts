// What a server, or something in front of it, says when it does not do what it was asked. Loaded by the heartbeat's thread too.

/** The server said no; status `null`: no server answered. */
export class ServerError extends Error {
  readonly status: number | null
  /** Of a server of ours; null: something else answered, such as a proxy, and that says nothing of the worker. */
  readonly code: string | null

  constructor(status: number | null, message: string, code: string | null = null) {
    super(message)
    this.status = status
    this.code = code
  }

  /** A server of ours has looked at it, and will not have it; or it is too large for what stands before it. */
  get rejected(): boolean {
    const { status, code } = this
    return status === 413 || (code !== null && status !== null && status < 500 && status !== 429)
  }

  /** A server of ours does not know the worker any more. */
  get evicted(): boolean {
    const { status, code } = this
    return code !== null && (status === 401 || status === 404 || status === 409)
  }

  /** Another try, or another server, may get another answer. */
  get transient(): boolean {
    return !this.rejected || this.status === 403
  }
}

/** Of an answer that is no success. */
export const readServerError = async (answer: Response): Promise<ServerError> => {
  const text = await answer.text().catch(() => "")
  try {
    const { code, message } = (JSON.parse(text) as { error: { code: string; message: string } }).error
    return new ServerError(answer.status, message, code)
  } catch {
    return new ServerError(answer.status, `status ${answer.status}`)
  }
}
