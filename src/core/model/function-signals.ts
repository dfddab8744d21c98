// Signals that Ork itself sends to durable functions. The names of users' signals do not begin with `ork:`.

import { isObject, type Json } from "../values/json.ts"

const RESERVED = "ork:"

/** Asks a suspended function to end: it is resumed, and cancelled when it runs. */
export const CANCEL_SIGNAL = `${RESERVED}cancel`

export const isReservedSignal = (name: string): boolean => name.startsWith(RESERVED)

export const SIGNAL_NAME_HINT = `names that begin with "${RESERVED}" are reserved`

/** What an approval step has recorded while it waits. */
export interface ApprovalRequest {
  /** Names the signal with the answer. */
  approval: string
  message?: string
  default: "approve" | "reject"
  /** When the default applies; absent: never. */
  until?: number
}

/** An answer to an approval. `by` is null when nobody answered in time and the default applies. */
export interface ApprovalAnswer {
  approved: boolean
  comment: string | null
  by: string | null
  at: string
}

/** Returns the name of the signal with the answer to an approval. It has one key, so that exactly one answer counts. */
export const approvalSignal = ({ approval }: Pick<ApprovalRequest, "approval">): { name: string; key: string } => ({
  name: `${RESERVED}approval/${approval}`,
  key: "answer",
})

/** Returns the details of an approval step; null for those of another step. */
export const approvalRequestOf = (details: Json): ApprovalRequest | null =>
  isObject(details) && typeof details["approval"] === "string" ? (details as unknown as ApprovalRequest) : null

/** A job or run that a function has started. */
export interface Child {
  kind: "task" | "workflow"
  id: string
  /** It was created, in the transaction that has set this. */
  made?: boolean
}

/** The step of a durable function that creates a job or run. The store notes in its details that it did (`Child`). */
export interface CallStep {
  name: string
  /** Counts the steps of this name, from 0. */
  occurrence: number
}

/** Returns the details of a call step that has started a child; null for those of another step. */
export const childOf = (details: Json): Child | null =>
  isObject(details) && typeof details["id"] === "string" && typeof details["kind"] === "string"
    ? (details as unknown as Child)
    : null
