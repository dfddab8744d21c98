/** A check that fails in a way that a later check cannot fix, such as a query with a syntax error. Fails the task that waits. */
export class BrokenCondition extends Error {
  // The engine tells it by this name (BROKEN_CONDITION in engine/ports.ts).
  override readonly name = "BrokenCondition"
}
