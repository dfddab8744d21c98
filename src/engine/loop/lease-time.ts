// Times of the lease of a server or `ork run`.

export const LEASE_MS = 10_000
export const RENEW_MS = 3000

/**
 * Time without a sign of life after which the tasks of a process must have ended: before its lease, renewed up to RENEW_MS earlier, expires
 * and another server runs them.
 */
export const SILENCE_MS = LEASE_MS - RENEW_MS - 1000
