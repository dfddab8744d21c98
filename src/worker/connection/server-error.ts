// What an error of the client means for a worker. Also loaded by the heartbeat thread.

import type { ClientError } from "../../protocol/client/errors.ts"

/** False if something else responded, such as a proxy, which knows nothing of the worker. */
const isFromServer = ({ code }: ClientError): boolean => code !== "UNREACHABLE" && code !== "UNREADABLE"

/** Returns whether an Ork server rejected the request, or the request is too large for a proxy in front of it. */
export const isRejected = (error: ClientError): boolean =>
  error.status === 413 || (isFromServer(error) && error.status! < 500 && error.status !== 429)

/** Returns whether an Ork server does not know the worker any more. */
export const isEvicted = (error: ClientError): boolean => isFromServer(error) && [401, 404, 409].includes(error.status!)

/** Returns whether a retry, or another server, may succeed. */
export const isTransient = (error: ClientError): boolean => !isRejected(error) || error.status === 403
