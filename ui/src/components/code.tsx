import { type ReactElement, useState } from "react"
import { IconButton } from "./button.tsx"

/** Shows text with line numbers. Never interprets HTML. */
export const Code = ({ text, label, numbers = false }: { text: string; label: string; numbers?: boolean }): ReactElement => {
  const lines = text.replace(/\n$/, "").split("\n")
  return (
    <div className="code-frame">
      <CopyButton text={text} />
      <pre className={numbers ? "code code-numbered" : "code"} tabIndex={0} role="group" aria-label={label}>
        {numbers ? (
          lines.map((line, i) => (
            <span key={i} className="code-line">
              {line}
              {"\n"}
            </span>
          ))
        ) : (
          <code>{text}</code>
        )}
      </pre>
    </div>
  )
}

export const CopyButton = ({ text }: { text: string }): ReactElement => {
  const [copied, setCopied] = useState(false)
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 2000)
  }
  return <IconButton label={copied ? "Copied" : "Copy"} icon={copied ? "check" : "copy"} onClick={() => void copy()} />
}

export const JsonView = ({ value, label }: { value: unknown; label: string }): ReactElement => (
  <Code text={JSON.stringify(value, null, 2)} label={label} />
)
