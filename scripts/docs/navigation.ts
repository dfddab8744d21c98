// The order of pages in the navigation of the documentation site. A page that a section does not name follows its named pages, by path.

export interface NavigationSection {
  title: string
  /** Pages in this order, as paths below docs/ without `.md`. */
  pages: readonly string[]
  /** Folder whose other pages belong to the section. */
  folder?: string
}

export const SECTIONS: readonly NavigationSection[] = [
  { title: "Start", pages: ["index", "tutorial", "concepts", "comparison", "performance"] },
  { title: "Write workflows", pages: ["guide", "testing", "simulation", "sdk", "python"] },
  {
    title: "How to",
    folder: "how-to",
    pages: [
      "how-to/forty-crons",
      "how-to/python-etl",
      "how-to/files",
      "how-to/artifacts",
      "how-to/replay",
      "how-to/agents",
      "how-to/approvals",
      "how-to/sensors",
      "how-to/postgres-and-workers",
      "how-to/kubernetes",
      "how-to/slurm",
      "how-to/backups",
      "how-to/upgrades",
      "how-to/reverse-proxy",
    ],
  },
  { title: "Move to Ork", folder: "migrate", pages: ["airflow-terms", "migrate/airflow", "migrate/cron", "migrate/dagu"] },
  {
    title: "Reference",
    folder: "reference",
    pages: ["reference/definition", "reference/expressions", "reference/cli", "reference/api", "reference/metrics"],
  },
  {
    title: "Operate",
    pages: ["operations", "troubleshooting", "reliability", "security", "advisories", "deploy-cloud-run"],
  },
  { title: "Inside Ork", folder: "", pages: ["architecture", "tables", "glossary"] },
  { title: "Decisions", folder: "decisions", pages: [] },
]

export interface NavigationEntry {
  title: string
  pages: string[]
}

/** Places all pages, given by path below docs/ without `.md`. A named page that does not exist is left out. */
export const navigation = (all: readonly string[]): NavigationEntry[] => {
  const named = new Set(SECTIONS.flatMap(({ pages }) => pages))
  const folderOf = (page: string): string => (page.includes("/") ? page.slice(0, page.indexOf("/")) : "")
  return SECTIONS.map(({ title, pages, folder }) => ({
    title,
    pages: [
      ...pages.filter((page) => all.includes(page)),
      ...all.filter((page) => !named.has(page) && folderOf(page) === folder).toSorted(),
    ],
  })).filter(({ pages }) => pages.length > 0)
}
