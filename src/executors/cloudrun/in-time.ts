// An end for calls that have none of their own: Google's libraries fetch credentials without a limit, before the limit of the call itself counts.

export const LATE = new Error("it did not answer in time")

/** Rejects with LATE after `ms`. */
export const inTime = async <T>(call: Promise<T>, ms: number): Promise<T> => {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(LATE), ms)
  try {
    return await Promise.race([call, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
