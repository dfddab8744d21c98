// Explains why a server or a listening worker cannot use its address.

import { InputError } from "../terminal/errors.ts"

interface Listening {
  host: string
  port: number
  /** Options that set the port. */
  options: string
}

/** Converts a system error about the address into an InputError with advice; returns other errors unchanged. */
export const explainListenError = (error: unknown, { host, port, options }: Listening): unknown => {
  if (!(error instanceof Error) || !("code" in error)) return error
  switch (error.code) {
    case "EADDRINUSE":
      return new InputError(`port ${port} is in use; choose another with ${options}`)
    case "EACCES":
      return new InputError(`this user may not listen on port ${port}; choose one above 1023 with ${options}`)
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new InputError(`${host} is not an address of this machine; choose another with --host or ORK_HOST`)
    default:
      return error
  }
}
