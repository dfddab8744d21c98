// Tables in Markdown.

export const markdownTable = (header: readonly string[], rows: readonly (readonly string[])[]): string =>
  [header, header.map(() => "-"), ...rows].map((cells) => `| ${cells.map(escapeCell).join(" | ")} |`).join("\n")

const escapeCell = (text: string): string => text.replaceAll("|", "\\|")

export const codeText = (text: string): string => `\`${text}\``
