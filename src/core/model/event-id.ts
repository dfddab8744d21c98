// Ids of events: the number of the commit, and the place in it.

export const EVENT_ID = /^\d{1,15}\.\d{1,9}$/

/** Orders event ids `<batch>.<place>` by commit: by batch, then by place, both as numbers. */
export const compareEventIds = (a: string, b: string): number => {
  const [batchA, placeA] = idParts(a)
  const [batchB, placeB] = idParts(b)
  return batchA === batchB ? placeA - placeB : batchA - batchB
}

const idParts = (id: string): [number, number] => {
  const dot = id.indexOf(".")
  return dot === -1 ? [Number(id), 0] : [Number(id.slice(0, dot)), Number(id.slice(dot + 1))]
}
