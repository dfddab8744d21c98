/** Returns the smaller of two instants or delays in milliseconds; null stands for never. */
export function soonest(a: number, b: number | null): number
export function soonest(a: number | null, b: number | null): number | null
export function soonest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b)
}
