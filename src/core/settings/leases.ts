// Lengths of leases, and the times that depend on them.

/** Lease of a server or `ork run`. */
export const SERVER_LEASE_MS = 8000
/** A shorter lease would leave no time to notice that it cannot be renewed. */
export const MIN_SERVER_LEASE_MS = 4000
export const WORKER_LEASE_MS = 10_000
export const MIN_WORKER_LEASE_MS = 500

const RENEWALS_PER_LEASE = 4
/** Time to stop the tasks of a process, before others may run them. */
const STOP_MS = 1000

/** Returns the time between two renewals of the lease of a server. */
export const renewalMs = (leaseMs: number): number => leaseMs / RENEWALS_PER_LEASE

/**
 * Returns the time without a response after which the tasks of a server must have ended: before its lease, which it may have renewed
 * a whole interval earlier, expires and another server runs them.
 */
export const silenceMs = (leaseMs: number): number => leaseMs - renewalMs(leaseMs) - STOP_MS

/** Time for which handlers may block the event loop of their process before others take over its work. */
export const STALL_LIMIT_MS = 60_000
export const MIN_STALL_LIMIT_MS = 1000

const CHECKS_PER_LEASE = 8

/** Returns the time between two checks of an event loop: a blocked one is found early enough to renew its lease. */
export const stallCheckMs = (leaseMs: number, stallMs: number): number => Math.min(leaseMs / CHECKS_PER_LEASE, stallMs / 2)
