// Reads long lists of rows page by page, in the order of their row numbers.

export async function* rowPages<Row extends { row: number }>(
  limit: number,
  read: (page: { after: number; limit: number }) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  for (let after = 0; ;) {
    const page = await read({ after, limit })
    yield page
    if (page.length < limit) return
    after = page.at(-1)!.row
  }
}
