// The fields of an entry of the audit log.

export interface AuditFields {
  at: string
  keyId: string | null
  actor: string | null
  /** The OpenID provider's id of the user. Names of users are not unique. */
  subject: string | null
  address: string | null
  action: string
  target: string
  result: string | null
  details: string | null
  /** Id of the request, which has one entry. null: an entry without a request, or a refusal. */
  request: string | null
}
