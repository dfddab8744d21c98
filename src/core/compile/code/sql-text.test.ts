import { expect, test } from "vitest"
import { sqlExpressionProblem } from "./sql-text.ts"
import { splitText } from "./templates.ts"

const problem = (sql: string): string | null => sqlExpressionProblem(splitText(sql).parts)

test("an expression may stand where SQL accepts a value", () => {
  expect(
    problem("select count(*) > 0 from t where day = ${{ run.date }} and name <> 'it''s' and n > ${{ params.n }}"),
  ).toBeNull()
  expect(problem('select "a" from t -- it\'s\nwhere day = ${{ run.date }}')).toBeNull()
  expect(problem("select $q$ it's $q$ /* it's */ = ${{ params.text }}")).toBeNull()
})

test.each([
  ["select 1 where day = '${{ run.date }}'", "a quoted text"],
  ['select "${{ params.column }}" from t', "a quoted name"],
  ["select true -- ${{ run.date }}", "a comment"],
  ["select true /* ${{ run.date }} */", "a comment"],
  ["select $$ ${{ run.date }} $$", "a quoted text"],
])("%s is rejected, because its expression is inside %s", (sql, where) => {
  expect(problem(sql)).toContain(`inside ${where}`)
})

test("a whole query cannot be an expression", () => {
  expect(problem("${{ params.query }}")).toContain("must be a query")
})
