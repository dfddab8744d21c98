// Order of event ids: `<batch>.<place>`, both numbers, in commit order.

export const compareEventIds = (a: string, b: string): number => {
  const [batchA, placeA] = parts(a)
  const [batchB, placeB] = parts(b)
  return batchA === batchB ? placeA - placeB : batchA - batchB
}

const parts = (id: string): [number, number] => {
  const dot = id.indexOf(".")
  return dot === -1 ? [Number(id), 0] : [Number(id.slice(0, dot)), Number(id.slice(dot + 1))]
}
