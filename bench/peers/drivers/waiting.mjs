// Waiting for a condition of a store.

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Resolves when `counted` returns this many: handlers of this process count without a query. */
export const untilRan = async (counted, count) => {
  while (counted() < count) await sleep(5)
}

/** Resolves when the query returns a row whose first column is at least `count`. */
export const untilCount = async (client, query, count, everyMs = 5) => {
  for (;;) {
    const { rows } = await client.query({ text: query, rowMode: "array" })
    if (Number(rows[0][0]) >= count) return
    await sleep(everyMs)
  }
}

/** Runs `count` calls, at most `atOnce` at a time. */
export const inParallel = async (count, atOnce, call) => {
  let next = 0
  const results = []
  const one = async () => {
    while (next < count) {
      const index = next++
      results[index] = await call(index)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return results
}

/** Sizes of the batches of a bulk interface. */
export const batches = (count, size = 1000) =>
  Array.from({ length: Math.ceil(count / size) }, (_, i) => Math.min(size, count - i * size))
