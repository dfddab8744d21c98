// Turns an expected rejection into null.

export const nullIf = async <T>(promise: Promise<T>, expected: (error: unknown) => boolean): Promise<T | null> => {
  try {
    return await promise
  } catch (error) {
    if (expected(error)) return null
    throw error
  }
}
