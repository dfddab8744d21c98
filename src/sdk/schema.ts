// Schemas of inputs: anything that implements Standard Schema, such as zod, valibot and arktype.

import { InvalidInputError } from "./errors.ts"

/** The part of https://standardschema.dev that Ork uses. */
export interface StandardSchema<Input = unknown, Output = unknown> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type Result<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
      }[]
    }

/** The values that a schema accepts; unknown without a schema. */
export type InputOf<Schema> = Schema extends StandardSchema ? NonNullable<Schema["~standard"]["types"]>["input"] : unknown
/** The values that a schema returns; unknown without a schema. */
export type OutputOf<Schema> = Schema extends StandardSchema ? NonNullable<Schema["~standard"]["types"]>["output"] : unknown

/** Returns the schema. Throws for what does not implement Standard Schema. */
export const checkSchema = <Schema extends StandardSchema | undefined>(schema: Schema, what: string): Schema => {
  const given: unknown = schema
  if (
    given === undefined ||
    (((typeof given === "object" && given !== null) || typeof given === "function") && "~standard" in given)
  )
    return schema
  throw new TypeError(`${what} is no Standard Schema; use a schema of zod 3.24, valibot 1.0, arktype 2.0, or newer`)
}

/** Returns the validated value. Throws an InvalidInputError that names the path of each problem. */
export const validate = async <Output>(
  schema: StandardSchema<unknown, Output> | undefined,
  value: unknown,
  what: string,
): Promise<Output> => {
  if (schema === undefined) return value as Output
  const result = await schema["~standard"].validate(value)
  if (result.issues === undefined) return result.value
  throw new InvalidInputError(
    what,
    result.issues.map(({ message, path = [] }) => ({ path: path.map(segmentText).join("."), message })),
  )
}

const segmentText = (segment: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof segment === "object" ? segment.key : segment)
