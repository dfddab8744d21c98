// Number 14 in Postgres: an SQL function, which SQLite does not have.

export const INSERT_JOBS = "SELECT 1"
