// Patterns of names that several parts check.

/** Names of workflows and workers. Such a name cannot lead to another folder. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/

export const QUEUE_NAME = /^[a-zA-Z0-9_]{1,64}$/

export const QUEUE_NAME_HINT = 'use at most 64 letters, digits and "_"'
