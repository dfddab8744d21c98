// Handling of Ctrl-C and SIGTERM: the first signal requests an orderly end, the second one an immediate end.

const SIGNALS = ["SIGINT", "SIGTERM"] as const

/** Returns a function that removes the handlers. */
export const onTerminationSignal = (first: () => void, second: () => void): (() => void) => {
  let count = 0
  const handle = (): void => {
    count += 1
    if (count === 1) first()
    else second()
  }
  for (const signal of SIGNALS) process.on(signal, handle)
  return () => {
    for (const signal of SIGNALS) process.off(signal, handle)
  }
}

/** Exits after `ms` even if something still keeps the process alive, such as an unanswered connection. */
export const exitAfter = (ms: number): void => {
  setTimeout(() => process.exit(), ms).unref()
}
