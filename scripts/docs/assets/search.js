// Searches the documentation in the browser. The index is built from search-data.js on the first use of the search field; both scripts
// are loaded by script elements, because a page that was opened from a folder may not fetch files.

"use strict"
;(() => {
  const field = document.getElementById("search")
  const panel = document.getElementById("results")
  const status = panel.querySelector("p")
  const list = panel.querySelector("ol")
  const root = field.dataset.root
  const MAX_RESULTS = 12
  /** Pages about the inside of Ork, which come after those for users. */
  const FOR_DEVELOPERS = /^(?:decisions|project)\/|^(?:architecture|glossary|advisories)\.html/
  let ready = null

  const loadScript = (name) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script")
      script.src = `${root}assets/${name}`
      script.addEventListener("load", resolve)
      script.addEventListener("error", () => reject(new Error(`${script.src} cannot be loaded`)))
      document.head.append(script)
    })

  const load = async () => {
    await Promise.all([loadScript("minisearch.js"), loadScript("search-data.js")])
    const index = new window.MiniSearch({
      fields: ["heading", "page", "text"],
      searchOptions: {
        boost: { heading: 4, page: 2 },
        boostDocument: (id) => (FOR_DEVELOPERS.test(window.orkSections[id].path) ? 0.3 : 1),
        prefix: true,
        fuzzy: (term) => (term.length > 4 ? 0.2 : false),
      },
    })
    index.addAll(window.orkSections.map((section, id) => ({ id, ...section })))
    return index
  }

  const search = async (text) => {
    ready ??= load()
    const index = await ready
    const all = index.search(text, { combineWith: "AND" })
    const found = all.length > 0 ? all : index.search(text)
    return found.slice(0, MAX_RESULTS).map(({ id, terms }) => ({ ...window.orkSections[id], terms }))
  }

  /** Returns the part of a text around the first found word. */
  const excerpt = (text, terms) => {
    const lower = text.toLowerCase()
    const at = Math.max(
      0,
      Math.min(...terms.map((term) => lower.indexOf(term)).filter((position) => position >= 0), text.length),
    )
    const start = at === text.length ? 0 : Math.max(0, at - 60)
    return `${start > 0 ? "… " : ""}${text.slice(start, start + 160)}${start + 160 < text.length ? " …" : ""}`
  }

  const item = ({ page, heading, text, path, terms }) => {
    const link = document.createElement("a")
    link.href = root + path
    const title = document.createElement("strong")
    title.textContent = heading === page ? page : `${page} › ${heading}`
    const line = document.createElement("span")
    line.textContent = excerpt(text, terms)
    link.append(title, line)
    const entry = document.createElement("li")
    entry.append(link)
    return entry
  }

  const update = async () => {
    const text = field.value.trim()
    panel.hidden = text === ""
    if (text === "") return
    const found = await search(text)
    if (field.value.trim() !== text) return
    status.textContent = found.length === 0 ? `Nothing found for “${text}”` : `${found.length} results`
    list.replaceChildren(...found.map(item))
  }

  const move = (step) => {
    const links = [...list.querySelectorAll("a")]
    const next = links.indexOf(document.activeElement) + step
    if (next < 0) field.focus()
    else links[Math.min(next, links.length - 1)]?.focus()
  }

  field.addEventListener("focus", () => void (ready ??= load()))
  field.addEventListener("input", () => void update())
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click()
  })
  document.addEventListener("keydown", (event) => {
    const inSearch = panel.parentElement.contains(document.activeElement)
    if (event.key === "/" && !inSearch) {
      event.preventDefault()
      field.focus()
    } else if (event.key === "Escape") {
      panel.hidden = true
    } else if (inSearch && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault()
      move(event.key === "ArrowDown" ? 1 : -1)
    }
  })
  document.addEventListener("click", (event) => {
    if (!panel.parentElement.contains(event.target)) panel.hidden = true
  })
  // A narrow screen shows the page first.
  if (window.matchMedia("(max-width: 50rem)").matches) document.querySelector("nav details").open = false
})()
