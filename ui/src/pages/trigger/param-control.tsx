import type { ReactElement } from "react"
import { Field, type FieldNames } from "../../components/field.tsx"
import { controlOf, type Param, textOf } from "./form.ts"

/** One param: name, control, description and error. */
export const ParamControl = ({
  param,
  text,
  problem,
  onChange,
}: {
  param: Param
  text: string
  problem: string | null
  onChange: (text: string) => void
}): ReactElement => {
  const hint = [param.description, param.default === null ? null : `Default: ${JSON.stringify(param.default)}`]
  return (
    <Field
      label={<span className="mono">{param.name}</span>}
      required={param.required}
      hint={hint.filter((part) => part !== null).join(". ")}
      problem={problem}
    >
      {(names) => <Control param={param} text={text} names={names} onChange={onChange} />}
    </Field>
  )
}

const Control = ({
  param,
  text,
  names,
  onChange,
}: {
  param: Param
  text: string
  names: FieldNames
  onChange: (text: string) => void
}): ReactElement => {
  const common = { ...names, className: "input", name: param.name, value: text, required: param.required }
  const take = (event: { target: { value: string } }): void => onChange(event.target.value)
  const control = controlOf(param)
  switch (control) {
    case "text":
      return <input {...common} type="text" onChange={take} />
    case "number":
      return <input {...common} type="number" step={param.type === "integer" ? 1 : "any"} onChange={take} />
    case "date":
      return <input {...common} type={/T\d/.test(text) ? "text" : "date"} onChange={take} />
    case "json":
      return <textarea {...common} rows={4} spellCheck={false} onChange={take} />
    case "boolean":
    case "choice": {
      const choices = control === "boolean" ? ["true", "false"] : param.enum!.map((choice) => textOf(param, choice as never))
      return (
        <select {...common} onChange={take}>
          {param.required && text !== "" ? null : <option value="">–</option>}
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      )
    }
    default:
      return control satisfies never
  }
}
