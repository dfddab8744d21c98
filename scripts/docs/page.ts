// The HTML of one page of the documentation site. All addresses are relative and scripts are classic ones, because browsers load neither
// absolute paths nor modules from a folder (file://).

import { posix } from "node:path"
import { escapeHtml, type Heading } from "./markdown.ts"

export interface NavigationLinks {
  title: string
  links: { title: string; path: string }[]
}

export interface PageContent {
  /** Path in the site, such as `reference/api.html`. */
  path: string
  title: string
  html: string
  headings: Heading[]
}

export const relativeTo = (from: string, to: string): string => posix.relative(posix.dirname(from), to)

export const pageHtml = ({ path, title, html, headings }: PageContent, navigation: readonly NavigationLinks[]): string => {
  const to = (target: string): string => escapeHtml(relativeTo(path, target))
  const root = "../".repeat(path.split("/").length - 1)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title === "Ork" ? "Ork" : `${title} · Ork`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${to("assets/site.css")}">
<script defer src="${to("assets/search.js")}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<a class="home" href="${to("index.html")}">Ork</a>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search ( / )" aria-label="Search the documentation" autocomplete="off" data-root="${root}">
<div id="results" hidden><p role="status"></p><ol></ol></div>
</div>
</header>
<div class="columns">
<nav aria-label="Pages">
<details open><summary>Pages</summary>
${navigation.map((section) => navigationHtml(section, path, to)).join("\n")}
</details>
</nav>
<main id="content">
${html}</main>
${outlineHtml(headings)}
</div>
</body>
</html>
`
}

const navigationHtml = ({ title, links }: NavigationLinks, current: string, to: (path: string) => string): string => {
  const items = links.map(
    (link) =>
      `<li><a href="${to(link.path)}"${link.path === current ? ' aria-current="page"' : ""}>${escapeHtml(link.title)}</a></li>`,
  )
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${items.join("\n")}\n</ul>`
}

const outlineHtml = (headings: readonly Heading[]): string => {
  const listed = headings.filter(({ depth }) => depth === 2 || depth === 3)
  if (listed.length < 2) return ""
  const items = listed.map(
    ({ depth, text, anchor }) => `<li class="depth-${depth}"><a href="#${anchor}">${escapeHtml(text)}</a></li>`,
  )
  return `<aside aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></aside>`
}
