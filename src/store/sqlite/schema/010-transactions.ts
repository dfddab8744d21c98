// Number 10 in Postgres: SQL functions, which SQLite does not have.

export const TRANSACTIONS = "SELECT 1"
