// Sessions, expiry and rotation of keys, the chain of the audit log, and who created what.

export const ACCESS = `
-- queues: JSON list of the queues that a worker's key may serve, NULL for all. previous_hash is accepted until previous_until.
ALTER TABLE api_keys ADD COLUMN queues text;
ALTER TABLE api_keys ADD COLUMN expires_at timestamptz(3);
ALTER TABLE api_keys ADD COLUMN created_by text;
ALTER TABLE api_keys ADD COLUMN previous_hash text;
ALTER TABLE api_keys ADD COLUMN previous_until timestamptz(3);

-- key_id: the key that registered the worker, NULL for the server's own.
ALTER TABLE holders ADD COLUMN key_id text;

-- hash: of the cookie. subject: the key or the user.
CREATE TABLE sessions (
  hash text PRIMARY KEY,
  subject text NOT NULL,
  created_at timestamptz(3) NOT NULL,
  expires_at timestamptz(3) NOT NULL
);
CREATE INDEX sessions_expired ON sessions (expires_at);

-- Messages of webhooks whose runs were removed while a copy of the message would still be accepted.
CREATE TABLE used_messages (
  key text PRIMARY KEY,
  used_at timestamptz(3) NOT NULL
);
CREATE INDEX used_messages_at ON used_messages (used_at);

-- actor: name of the key or user. hash: SHA-256 over the hash of the entry before it and the fields of this one, NULL in entries of
-- earlier versions.
ALTER TABLE audit ADD COLUMN actor text;
ALTER TABLE audit ADD COLUMN address text;
ALTER TABLE audit ADD COLUMN result text;
ALTER TABLE audit ADD COLUMN hash text;

ALTER TABLE runs ADD COLUMN created_by text;
ALTER TABLE versions ADD COLUMN created_by text;
ALTER TABLE jobs ADD COLUMN created_by text;
`
