/** Something about the task itself makes it impossible to run; trying again as it stands cannot help. */
export class TaskFailure extends Error {
  override readonly name = "TaskFailure"
}
