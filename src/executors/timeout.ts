// A time limit for promises that have none of their own, such as credentials that a library or a plugin fetches.

/** Rejects with an error of this message when the promise is not settled within `ms`. */
export const withTimeout = async <T>(promise: Promise<T> | T, ms: number, message: string): Promise<T> => {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new Error(message)), ms)
  try {
    return await Promise.race([promise, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
