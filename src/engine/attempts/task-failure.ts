import { ExpressionError } from "../../core/expressions/expressions.ts"

/** A fault of the task itself: the task cannot run as it stands, so a retry does not help. */
export class TaskFailure extends Error {
  override readonly name = "TaskFailure"
}

/** Returns whether the task is at fault (its expressions, its input), and not the engine or its store. */
export const isTaskFault = (error: unknown): error is Error => error instanceof TaskFailure || error instanceof ExpressionError
