// The order of the steps of a durable function.

export const STEP_ORDER = `
-- position: counts the steps of a function in the order in which they began.
ALTER TABLE steps ADD COLUMN position int NOT NULL DEFAULT 0;
`
