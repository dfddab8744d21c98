// Builds the documentation site from docs/ into a folder that works without a server: pages, the files that they link to, the search,
// the JSON Schema of definitions and the OpenAPI document. Returns every link that leads nowhere.

import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, posix } from "node:path"
import { docsPage } from "../../src/api/http/docs-page.ts"
import { openapi } from "../../src/api/http/openapi.ts"
import { ROUTES } from "../../src/api/routes/table.ts"
import { schemaText } from "../../src/cli/commands/workflows/schema.ts"
import { escapeHtml, render, type RenderedPage } from "./markdown.ts"
import { navigation } from "./navigation.ts"
import { type NavigationLinks, type PageContent, pageHtml, relativeTo } from "./page.ts"

const ASSETS = join(import.meta.dirname, "assets")
const require = createRequire(import.meta.url)

/** Documents outside of docs/ that are pages too. */
const ROOT_PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

export interface Site {
  pages: number
  /** `page: address` of each link that leads nowhere. */
  deadLinks: string[]
}

export const buildSite = (repository: string, target: string): Site => {
  rmSync(target, { recursive: true, force: true })
  const sources = [...globSync("docs/**/*.md", { cwd: repository }).toSorted(), ...ROOT_PAGES]
  const site = new SiteBuilder(repository, target)
  const rendered = new Map(sources.map((source) => [source, site.render(source)]))
  const linkedFiles = site.renderLinkedFiles()
  const links = navigationLinks(rendered)
  for (const [source, page] of rendered) site.writePage({ path: pathOf(source), ...page }, links)
  for (const page of linkedFiles) site.writePage(page, links)
  writeAssets(target, rendered)
  writeGenerated(repository, target)
  return { pages: rendered.size + linkedFiles.length, deadLinks: site.deadLinks() }
}

/** Returns the path in the site of a Markdown file of the repository. */
const pathOf = (source: string): string =>
  source.startsWith("docs/")
    ? source.slice("docs/".length).replace(/\.md$/, ".html")
    : `project/${source.toLowerCase().replace(/\.md$/, ".html")}`

const isPage = (source: string): boolean =>
  source.endsWith(".md") && (source.startsWith("docs/") || ROOT_PAGES.includes(source))

class SiteBuilder {
  readonly #repository: string
  readonly #target: string
  /** Files and folders outside of docs/ that pages link to, by their path in the repository. */
  readonly #linked = new Set<string>()
  readonly #written = new Map<string, string>()

  constructor(repository: string, target: string) {
    this.#repository = repository
    this.#target = target
  }

  render(source: string): RenderedPage {
    const markdown = readFileSync(join(this.#repository, source), "utf8")
    return render(markdown, (address) => this.#resolve(source, address))
  }

  writePage(page: PageContent, navigation: NavigationLinks[]): void {
    const html = pageHtml(page, navigation)
    this.#written.set(page.path, html)
    const file = join(this.#target, page.path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, html)
  }

  /** Returns pages for the files outside of docs/ that pages link to; a folder becomes a page with all of its files. */
  renderLinkedFiles(): PageContent[] {
    return [...this.#linked].map((source) => {
      const isFolder = statSync(join(this.#repository, source)).isDirectory()
      const files = isFolder
        ? globSync("**/*", { cwd: join(this.#repository, source), withFileTypes: true })
            .filter((entry) => entry.isFile() && !entry.parentPath.includes("__pycache__"))
            .map((entry) => posix.relative(this.#repository, posix.join(entry.parentPath, entry.name)))
            .toSorted()
        : [source]
      const parts = files.map((file) => {
        const text = readFileSync(join(this.#repository, file), "utf8")
        return `<h2>${escapeHtml(file)}</h2>\n<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`
      })
      return { path: filePath(source), title: source, html: `<h1>${escapeHtml(source)}</h1>\n${parts.join("")}`, headings: [] }
    })
  }

  /** Maps a link of a page to an address in the site, and copies images. */
  #resolve(source: string, address: string): string {
    if (/^[a-z]+:/.test(address) || address.startsWith("#")) return address
    const [path = "", anchor] = address.split("#")
    const file = posix.normalize(posix.join(posix.dirname(source), path))
    const suffix = anchor === undefined ? "" : `#${anchor}`
    if (isPage(file)) return `${relativeTo(pathOf(source), pathOf(file))}${suffix}`
    if (!existsSync(join(this.#repository, file))) return address
    if (file.startsWith("docs/") && statSync(join(this.#repository, file)).isFile()) {
      const copy = file.slice("docs/".length)
      cpSync(join(this.#repository, file), join(this.#target, copy))
      return relativeTo(pathOf(source), copy)
    }
    const outside = file.replace(/\/$/, "")
    this.#linked.add(outside)
    return relativeTo(pathOf(source), filePath(outside))
  }

  /** Finds links and images of pages whose file or anchor does not exist. Addresses of other hosts are not followed. */
  deadLinks(): string[] {
    const anchors = new Map([...this.#written].map(([path, html]) => [path, new Set(matches(html, / id="([^"]*)"/g))]))
    return [...this.#written].flatMap(([path, html]) =>
      matches(html, / (?:href|src)="([^"]*)"/g)
        .filter((address) => !/^(?:https?|mailto|data):/.test(address))
        .filter((address) => {
          const [file = "", anchor] = address.replaceAll("&amp;", "&").split("#")
          const target = file === "" ? path : posix.normalize(posix.join(posix.dirname(path), file))
          if (anchor !== undefined && anchors.has(target)) return !anchors.get(target)!.has(decodeURIComponent(anchor))
          return !existsSync(join(this.#target, target))
        })
        .map((address) => `${path}: ${address}`),
    )
  }
}

const matches = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, found]) => found!)

const filePath = (source: string): string => `files/${source}.html`

const navigationLinks = (rendered: ReadonlyMap<string, RenderedPage>): NavigationLinks[] => {
  const names = [...rendered.keys()]
    .filter((source) => source.startsWith("docs/"))
    .map((source) => source.slice("docs/".length, -".md".length))
  const sections = navigation(names).map(({ title, pages }) => ({
    title,
    links: pages.map((page) => ({ title: rendered.get(`docs/${page}.md`)!.title, path: `${page}.html` })),
  }))
  sections.find(({ title }) => title === "Reference")?.links.push(...GENERATED_LINKS)
  const project = ROOT_PAGES.map((source) => ({ title: rendered.get(source)!.title, path: pathOf(source) }))
  return [...sections, { title: "Project", links: project }]
}

/** Writes the style sheet and the search, whose data is a script, because a browser reads no JSON from a folder. */
const writeAssets = (target: string, rendered: ReadonlyMap<string, RenderedPage>): void => {
  const assets = join(target, "assets")
  cpSync(ASSETS, assets, { recursive: true })
  const minisearch = join(dirname(require.resolve("minisearch")), "../umd/index.js")
  writeFileSync(join(assets, "minisearch.js"), readFileSync(minisearch, "utf8").replace(/^\/\/# sourceMappingURL=.*$/m, ""))
  const sections = [...rendered].flatMap(([source, { title, sections }]) =>
    sections.map(({ heading, anchor, text }) => ({ page: title, heading, text, path: `${pathOf(source)}#${anchor}` })),
  )
  writeFileSync(join(assets, "search-data.js"), `window.orkSections = ${JSON.stringify(sections)}\n`)
}

const GENERATED_LINKS = [
  { title: "REST API: all fields", path: "openapi.html" },
  { title: "JSON Schema for editors", path: "workflow.schema.json" },
]

const writeGenerated = (repository: string, target: string): void => {
  const { version } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as { version: string }
  const document = openapi(ROUTES, version)
  writeFileSync(join(target, "workflow.schema.json"), `${schemaText()}\n`)
  writeFileSync(join(target, "openapi.json"), `${JSON.stringify(document, null, 2)}\n`)
  writeFileSync(join(target, "openapi.html"), docsPage(document))
}
