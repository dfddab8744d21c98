// Names of the variables that Ork sets for tasks.

export const TASK_VARIABLES = [
  "ORK_RUN_ID",
  "ORK_TASK_ID",
  "ORK_TASK_NAME",
  "ORK_WORKFLOW_NAME",
  "ORK_ATTEMPT",
  "ORK_ATTEMPT_ID",
  "ORK_INPUT",
  "ORK_OUTPUT",
  "ORK_UPSTREAM",
  "ORK_ARTIFACTS",
  "ORK_PARALLEL_INDEX",
  "ORK_PARALLEL_COUNT",
  "ORK_LOGICAL_DATE",
  "ORK_CALLBACK_URL",
  "ORK_CALLBACK_TOKEN",
  "ORK_OWNER",
] as const

export type TaskVariable = (typeof TASK_VARIABLES)[number]

/** Prefixes of variables with names of their own: secrets, values of a command, and variables of tests. */
export const VARIABLE_PREFIXES = ["ORK_SECRET_", "ORK_EXEC_SECRET_", "ORK_VALUE_", "ORK_TEST_"] as const
