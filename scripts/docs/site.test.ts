import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { render } from "./markdown.ts"
import { navigation } from "./navigation.ts"
import { buildSite } from "./site.ts"

const REPO = join(import.meta.dirname, "../..")
const target = mkdtempSync(join(tmpdir(), "ork-site-"))
afterAll(() => rmSync(target, { recursive: true, force: true }))
const site = buildSite(REPO, target)
const pages = globSync("**/*.html", { cwd: target }).map((path) => ({ path, html: readFileSync(join(target, path), "utf8") }))

test("the site has a page for every document, and no link leads nowhere", () => {
  expect(site.deadLinks).toEqual([])
  expect(pages.length).toBe(site.pages + 1) // and the page of the OpenAPI document
})

test.each(pages)("$path works from a folder and loads nothing from other hosts", ({ html }) => {
  const loaded = [...html.matchAll(/<(?:script|link|img|iframe)[^>]* (?:src|href)="([^"]*)"/g)].map(([, address]) => address!)
  expect(loaded.filter((address) => /^(?:[a-z]+:)?\/\//.test(address) || address.startsWith("/"))).toEqual([])
  expect(html).not.toContain('type="module"')
})

test("the navigation contains every page once", () => {
  const all = globSync("docs/**/*.md", { cwd: REPO }).map((file) => file.slice("docs/".length, -".md".length))
  const listed = navigation(all).flatMap((section) => section.pages)
  expect(listed.toSorted()).toEqual(all.toSorted())
})

test("the search knows the words that people use", () => {
  const text = readFileSync(join(target, "assets/search-data.js"), "utf8").toLowerCase()
  const words = ["pause", "sensor", "pool", "branch", "mapped task", "xcom", "backfill", "sla"]
  expect(words.filter((word) => !text.includes(word))).toEqual([])
})

test("headings get the anchors of GitHub, and sections their text", () => {
  const page = render(
    "# A page\n\nIntro `code`.\n\n## Two words & more\n\n| a | b |\n| - | - |\n| c | d |\n\n## Two words & more\n",
    String,
  )
  expect(page.headings.map(({ anchor }) => anchor)).toEqual(["a-page", "two-words--more", "two-words--more-1"])
  expect(page.sections.map(({ text }) => text)).toEqual(["Intro code.", "a b c d", ""])
})

test("text of a page is never markup of the site", () => {
  expect(render("# T\n\n<img src=x onerror=alert(1)>\n\n```text\n<b>\n```\n", String).html).not.toMatch(/<img|<b>/)
})
