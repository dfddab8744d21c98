// The error of a request to a server. Also loaded by the heartbeat thread.

export class ServerError extends Error {
  /** HTTP status; null if no server responded. */
  readonly status: number | null
  /** Error code of an Ork server; null if something else responded, such as a proxy, which knows nothing of the worker. */
  readonly code: string | null

  constructor(status: number | null, message: string, code: string | null = null) {
    super(message)
    this.status = status
    this.code = code
  }

  /** True if an Ork server rejected the request, or the request is too large for a proxy in front of it. */
  get rejected(): boolean {
    const { status, code } = this
    return status === 413 || (code !== null && status !== null && status < 500 && status !== 429)
  }

  /** True if an Ork server does not know the worker any more. */
  get evicted(): boolean {
    const { status, code } = this
    return code !== null && (status === 401 || status === 404 || status === 409)
  }

  /** True if a retry, or another server, may succeed. */
  get transient(): boolean {
    return !this.rejected || this.status === 403
  }
}

export const readServerError = async (response: Response): Promise<ServerError> => {
  const text = await response.text().catch(() => "")
  try {
    const { code, message } = (JSON.parse(text) as { error: { code: string; message: string } }).error
    return new ServerError(response.status, message, code)
  } catch {
    return new ServerError(response.status, `status ${response.status}`)
  }
}
