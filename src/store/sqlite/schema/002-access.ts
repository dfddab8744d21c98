// Sessions, expiry and rotation of keys, the chain of the audit log, and who created what.

export const ACCESS = `
-- queues: JSON list of the queues that a worker's key may serve, NULL for all. previous_hash is accepted until previous_until.
ALTER TABLE api_keys ADD COLUMN queues TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at TEXT;
ALTER TABLE api_keys ADD COLUMN created_by TEXT;
ALTER TABLE api_keys ADD COLUMN previous_hash TEXT;
ALTER TABLE api_keys ADD COLUMN previous_until TEXT;

-- key_id: the key that registered the worker, NULL for the server's own.
ALTER TABLE holders ADD COLUMN key_id TEXT;

-- hash: of the cookie. subject: the key or the user.
CREATE TABLE sessions (
  hash TEXT PRIMARY KEY,
  subject TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_expired ON sessions (expires_at);

-- Messages of webhooks whose runs were removed while a copy of the message would still be accepted.
CREATE TABLE used_messages (
  key TEXT PRIMARY KEY,
  used_at TEXT NOT NULL
) STRICT;
CREATE INDEX used_messages_at ON used_messages (used_at);

-- actor: name of the key or user. hash: SHA-256 over the hash of the entry before it and the fields of this one, NULL in entries of
-- earlier versions.
ALTER TABLE audit ADD COLUMN actor TEXT;
ALTER TABLE audit ADD COLUMN address TEXT;
ALTER TABLE audit ADD COLUMN result TEXT;
ALTER TABLE audit ADD COLUMN hash TEXT;

ALTER TABLE runs ADD COLUMN created_by TEXT;
ALTER TABLE versions ADD COLUMN created_by TEXT;
ALTER TABLE jobs ADD COLUMN created_by TEXT;
`
