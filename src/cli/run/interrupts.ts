// Ctrl-C and SIGTERM: the first asks for an orderly end, the second is not to be waited for.

const SIGNALS = ["SIGINT", "SIGTERM"] as const

/** Gives a function that stops listening. */
export const onInterrupt = (first: () => void, second: () => void): (() => void) => {
  let count = 0
  const heard = (): void => {
    count += 1
    if (count === 1) first()
    else second()
  }
  for (const signal of SIGNALS) process.on(signal, heard)
  return () => {
    for (const signal of SIGNALS) process.off(signal, heard)
  }
}

/** All that was to be done is done, or given up: what is still open (a connection that nobody answers) keeps the process no longer than this. */
export const exitWithin = (ms: number): void => {
  setTimeout(() => process.exit(), ms).unref()
}
