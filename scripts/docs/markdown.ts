// Renders a page of the documentation from Markdown: HTML, headings with the anchors that GitHub gives them, and sections of plain text
// for the search. `resolve` maps the address of a link or image to its address in the site.

import { Marked, type Token, type Tokens } from "marked"

export interface Heading {
  depth: number
  text: string
  anchor: string
}

export interface Section {
  heading: string
  anchor: string
  text: string
}

export interface RenderedPage {
  title: string
  html: string
  headings: Heading[]
  sections: Section[]
}

export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

export const render = (markdown: string, resolve: (address: string) => string): RenderedPage => {
  const anchors = new Anchors()
  const headings: Heading[] = []
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const text = plainText(tokens)
        const anchor = anchors.next(text)
        headings.push({ depth, text, anchor })
        const link = depth === 1 ? "" : ` <a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}${link}</h${depth}>\n`
      },
      link({ href, tokens }) {
        return `<a href="${escapeHtml(resolve(href))}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text }) {
        return `<img src="${escapeHtml(resolve(href))}" alt="${escapeHtml(text)}" loading="lazy">`
      },
      code({ text, lang }) {
        return `<pre tabindex="0"${lang ? ` data-language="${escapeHtml(lang)}"` : ""}><code>${escapeHtml(text)}\n</code></pre>\n`
      },
      table(token) {
        const row = (cells: Tokens.TableCell[], tag: string): string =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join("")}</tr>`
        const body = token.rows.map((cells) => row(cells, "td")).join("\n")
        return `<div class="table" tabindex="0"><table><thead>${row(token.header, "th")}</thead><tbody>${body}</tbody></table></div>\n`
      },
      html({ text }) {
        return text.startsWith("<!--") ? "" : escapeHtml(text)
      },
    },
  })
  const tokens = marked.lexer(markdown)
  const html = marked.parser(tokens)
  return { title: headings[0]?.text ?? "", html, headings, sections: sectionsOf(tokens, headings) }
}

/** Creates anchors as GitHub does, so that a link works in both places. */
class Anchors {
  readonly #counts = new Map<string, number>()

  next(text: string): string {
    const anchor = text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(/\s/g, "-")
    const count = this.#counts.get(anchor) ?? 0
    this.#counts.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  }
}

/** Splits a page at its headings, which are in the order of the headings' tokens. */
const sectionsOf = (tokens: Token[], headings: Heading[]): Section[] => {
  const sections: Section[] = []
  let next = 0
  for (const token of tokens) {
    if (token.type === "heading") {
      const { text, anchor } = headings[next++]!
      sections.push({ heading: text, anchor, text: "" })
    } else if (sections.length > 0) {
      sections.at(-1)!.text += `${plainText([token])} `
    }
  }
  return sections.map((section) => ({ ...section, text: section.text.replaceAll(/\s+/g, " ").trim() }))
}

const plainText = (tokens: Token[]): string => tokens.map(textOf).join("")

const textOf = (token: Token): string => {
  switch (token.type) {
    case "table": {
      const { header, rows } = token as Tokens.Table
      return [header, ...rows].map((cells) => cells.map((cell) => plainText(cell.tokens)).join(" ")).join(" ")
    }
    case "list":
      return (token as Tokens.List).items.map((item) => plainText(item.tokens)).join(" ")
    case "html":
      return ""
    default:
      return "tokens" in token && token.tokens !== undefined
        ? plainText(token.tokens)
        : "text" in token
          ? String(token.text)
          : " "
  }
}
