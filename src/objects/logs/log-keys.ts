// Keys of the objects of a log below the prefix of its attempt. `log` and `log.idx` hold a whole log. While a log is uploaded to a
// remote store it is in parts, `log/00000001.BYTES.RECORDS` and so on: raw bytes followed by their index records.

export const RECORD_BYTES = 24
/** Size of a log from which the rest is dropped. */
export const MAX_LOG_BYTES = 1 << 30

export const logKey = (prefix: string): string => `${prefix}log`
export const indexKey = (prefix: string): string => `${prefix}log.idx`
export const partsPrefix = (prefix: string): string => `${prefix}log/`

export interface LogPart {
  key: string
  /** Number of raw bytes. */
  bytes: number
  indexBytes: number
}

const NUMBER_DIGITS = 8

export const newPart = (prefix: string, number: number, bytes: number, records: number): LogPart => ({
  key: `${partsPrefix(prefix)}${String(number).padStart(NUMBER_DIGITS, "0")}.${bytes}.${records}`,
  bytes,
  indexBytes: records * RECORD_BYTES,
})

export const parsePart = (key: string): LogPart => {
  const [, bytes, records] = key.slice(key.lastIndexOf("/") + 1).split(".")
  return { key, bytes: Number(bytes), indexBytes: Number(records) * RECORD_BYTES }
}
