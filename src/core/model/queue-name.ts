export const QUEUE_NAME = /^[a-zA-Z0-9_]{1,64}$/

export const QUEUE_NAME_HINT = 'use at most 64 letters, digits and "_"'
