// Limits of keys to workflows, the secret that a worker registered with, and what identifies entries of the audit log.

export const PERMISSIONS = `
-- JSON lists of patterns of names and of tags, of which a workflow must match each that is set; NULL for all workflows.
ALTER TABLE api_keys ADD COLUMN workflows text;
ALTER TABLE api_keys ADD COLUMN tags text;

-- key_hash: hash of the secret that registered the worker, which ends with it when the key is rotated.
ALTER TABLE holders ADD COLUMN key_hash text;

-- subject: the OpenID provider's id of the user. request: id of the request, which has one entry.
ALTER TABLE audit ADD COLUMN subject text;
ALTER TABLE audit ADD COLUMN request text;
CREATE UNIQUE INDEX audit_request ON audit (request) WHERE request IS NOT NULL;
CREATE INDEX audit_target ON audit (target COLLATE "C", seq);
`
