// Number 17 in Postgres: an SQL function, which SQLite does not have.

export const ENQUEUE_TEXTS = "SELECT 1"
