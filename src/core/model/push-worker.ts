// The external id of an attempt on a push worker: the worker's address and, after `#`, the id that it reports with the result. No other
// external id is an address.

export const pushExternalId = (address: string, workerId: string | null): string =>
  workerId === null ? address : `${address}#${workerId}`

/** Returns the name of the push worker: the id that it reported, else its address. Null if the attempt ran elsewhere. */
export const pushWorkerName = (externalId: string | null): string | null => {
  if (externalId === null || !/^https?:\/\//.test(externalId)) return null
  const separator = externalId.indexOf("#")
  return separator === -1 ? externalId : externalId.slice(separator + 1)
}
