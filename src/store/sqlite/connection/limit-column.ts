// Codec of the column `limits` of a task row: the ids of its limits as JSON text.

const NONE: readonly number[] = []

export const limitIds = (text: string | null): readonly number[] => (text === null ? NONE : (JSON.parse(text) as number[]))

export const limitText = (ids: readonly number[]): string | null => (ids.length === 0 ? null : JSON.stringify(ids))
