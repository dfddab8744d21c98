export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
