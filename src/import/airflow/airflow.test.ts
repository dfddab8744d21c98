import { describe, expect, it } from "vitest"
import { importAirflow } from "./airflow.ts"
import { convertJinja } from "./jinja.ts"
import { parseDefinition } from "../../definition/parse.ts"

const HEAD = `from datetime import datetime, timedelta
import json
import pendulum
from airflow import DAG
from airflow.decorators import dag, task
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator, BranchPythonOperator
from airflow.operators.empty import EmptyOperator
from airflow.utils.task_group import TaskGroup
`

const convert = async (body: string) => {
  const { workflows, problems } = await importAirflow(`${HEAD}${body}`)
  for (const { definition } of workflows) {
    const parsed = parseDefinition(JSON.stringify(definition), { file: "x.json" })
    expect(parsed.ok ? [] : parsed.problems).toEqual([])
  }
  return { definition: workflows[0]?.definition, files: workflows[0]?.files, problems, workflows }
}

describe("an Airflow file", () => {
  it("keeps its schedule, defaults, graph, groups and loops over constants", async () => {
    const { definition, problems } = await convert(`
TABLES = ["orders", "users"]
args = {"owner": "ada", "retries": 2, "retry_delay": timedelta(minutes=5), "depends_on_past": False}
with DAG("etl", schedule="0 2 * * *", start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Berlin"), catchup=True,
         default_args=args, tags=["sales"], max_active_runs=1, dagrun_timeout=timedelta(hours=3)) as dag:
    start = EmptyOperator(task_id="start")
    with TaskGroup("load") as load:
        for table in TABLES:
            BashOperator(task_id=table, bash_command=f"./load.sh {table} {{{{ ds }}}}", execution_timeout=timedelta(minutes=10))
    done = BashOperator(task_id="done", bash_command="echo done", trigger_rule="all_done", retries=0)
    start >> load >> done
`)
    expect(problems).toEqual([])
    expect(definition).toMatchObject({
      name: "etl",
      schedule: { cron: "0 2 * * *", timezone: "Europe/Berlin", catchup: "all", start: "2026-01-01" },
      tags: ["sales"],
      max_active_runs: 1,
      timeout: 10_800,
      defaults: { retries: 2, retry: { base_delay: 300, backoff: "fixed" } },
      tasks: {
        start: { command: ["true"] },
        load_orders: { depends_on: ["start"], command: "./load.sh orders ${{ run.date }}", timeout: 600 },
        load_users: { depends_on: ["start"] },
        done: { depends_on: ["load_orders", "load_users"], run_when: "all_done", retries: 0 },
      },
    })
  })

  it("passes the results of functions as input, and writes the functions to a file of their own", async () => {
    const { definition, files, problems } = await convert(`
@dag(schedule=None, catchup=False)
def pipeline():
    @task
    def extract():
        return {"rows": [1, 2]}

    @task(retries=3)
    def double(row):
        return row * 2

    @task
    def total(rows, label="sum"):
        print(json.dumps({label: sum(rows)}))

    data = extract()
    total(double.expand(row=data["rows"]), label="all")

pipeline()
`)
    expect(problems).toEqual([])
    expect(definition).toMatchObject({
      name: "pipeline",
      tasks: {
        extract: { executor: "python", file: "pipeline_tasks.py", function: "extract" },
        double: {
          depends_on: ["extract"],
          foreach: '${{ tasks.extract.output["rows"] }}',
          input: { row: "${{ item }}" },
          retries: 3,
        },
        total: { depends_on: ["double"], input: { rows: "${{ tasks.double.output }}", label: "all" } },
      },
    })
    expect(definition!.schedule).toBeUndefined()
    expect(files!["pipeline_tasks.py"]).toContain('def extract():\n    return {"rows": [1, 2]}')
    expect(files!["pipeline_tasks.py"]).toContain("def double(*, row):")
    expect(files!["pipeline_tasks.py"]).toContain('def total(*, rows, label="sum"):')
    expect(files!["pipeline_tasks.py"]).toContain("import json")
    expect(files!["pipeline_tasks.py"]).not.toContain("airflow")
  })

  it("keeps the Python of a function and its packages", async () => {
    const { definition, problems } = await convert(`
from airflow.operators.python import ExternalPythonOperator, PythonVirtualenvOperator
def load():
    import pandas
with DAG("pythons", schedule=None, catchup=False):
    @task.virtualenv(requirements=["pandas==2.2", "rich"], system_site_packages=False)
    def report():
        import rich
    PythonVirtualenvOperator(task_id="built", python_callable=load, requirements="pandas\\nrich", python_version="3.12")
    ExternalPythonOperator(task_id="ready", python_callable=load, python="/opt/env/bin/python")
    PythonVirtualenvOperator(task_id="read", python_callable=load, requirements=open("x.txt").read(), system_site_packages=True)
    report()
`)
    expect(definition!.tasks).toMatchObject({
      report: { executor: "python", function: "report", requirements: ["pandas==2.2", "rich"] },
      built: { executor: "python", function: "load", requirements: ["pandas", "rich"], interpreter: "python3.12" },
      ready: { executor: "python", function: "load", interpreter: "/opt/env/bin/python" },
    })
    expect(problems.map(({ message }) => message)).toEqual([
      "the requirements of read are not constant texts and are left out",
      "read does not see the packages of the system; add those that it uses to requirements",
    ])
  })

  it("runs the task below a branch whose name the branch returns", async () => {
    const { definition } = await convert(`
def choose():
    return "big"
with DAG("branches", schedule=timedelta(minutes=5), catchup=False):
    pick = BranchPythonOperator(task_id="pick", python_callable=choose)
    pick >> [EmptyOperator(task_id="big"), EmptyOperator(task_id="small")]
`)
    expect(definition).toMatchObject({
      schedule: { every: 300 },
      tasks: { big: { depends_on: ["pick"], if: 'tasks.pick.output == "big"' }, small: { if: 'tasks.pick.output == "small"' } },
    })
  })

  it("follows the workflows that write the datasets that it waits for", async () => {
    const { workflows, problems } = await convert(`
orders = Dataset("s3://lake/orders")
with DAG("load", schedule=None):
    BashOperator(task_id="a", bash_command="true", outlets=[orders])
with DAG("report", schedule=[orders, Dataset("s3://lake/users")]):
    BashOperator(task_id="b", bash_command="true")
`)
    expect(problems.map(({ message }) => message)).toEqual([
      "the dataset s3://lake/users is written by no DAG of this file; name the workflow that writes it under triggers",
    ])
    expect(workflows.map(({ definition: { name, triggers } }) => [name, triggers])).toEqual([
      ["load", undefined],
      ["report", [{ after: ["load"] }]],
    ])
  })

  it("waits for the past as a workflow if all of its tasks do", async () => {
    const { definition, problems } = await convert(`
with DAG("past", schedule="@daily", catchup=False, default_args={"depends_on_past": True}):
    BashOperator(task_id="a", bash_command="true", depends_on_past=True)
`)
    expect(definition).toMatchObject({ depends_on_past: true, schedule: { cron: "@daily" } })
    expect(problems).toEqual([])
    const single = await convert(`
with DAG("single", schedule="@daily", catchup=False):
    BashOperator(task_id="a", bash_command="true", depends_on_past=True)
`)
    expect(single.definition!.depends_on_past).toBeUndefined()
    expect(single.problems.map(({ message }) => message)).toEqual([
      "depends_on_past of BashOperator a is left out: in Ork it is a field of the workflow, for whole runs",
    ])
  })

  it("sends e-mails about failures of tasks to the addresses of its default arguments", async () => {
    const { definition, problems } = await convert(`
with DAG("mails", schedule=None, default_args={"email": ["ops@example.com"], "email_on_failure": True, "email_on_retry": False}):
    BashOperator(task_id="a", bash_command="true", email_on_failure=False)
    BashOperator(task_id="b", bash_command="true", email="b@example.com, c@example.com")
    BashOperator(task_id="c", bash_command="true", email_on_failure=True)
`)
    expect(definition).toMatchObject({
      defaults: { notify: [{ on: ["failure"], email: ["ops@example.com"] }] },
      tasks: { a: { notify: [] }, b: { notify: [{ on: ["failure"], email: ["b@example.com", "c@example.com"] }] } },
    })
    expect(definition!.tasks["c"]).not.toHaveProperty("notify")
    expect(problems).toEqual([])
  })

  it("has the SLA of a task as its deadline, and reports callbacks", async () => {
    const { definition, problems } = await convert(`
with DAG("slas", schedule=None, default_args={"email": "ops@example.com"}, on_failure_callback=page, sla_miss_callback=page):
    BashOperator(task_id="a", bash_command="true", sla=timedelta(minutes=30))
    BashOperator(task_id="b", bash_command="true", email_on_failure=False, sla=timedelta(hours=1))
    BashOperator(task_id="c", bash_command="true", sla=LIMIT, email=ADDRESS, on_failure_callback=page, on_retry_callback=page)
`)
    expect(definition!.tasks).toMatchObject({
      a: { deadline: 1800, notify: [{ on: ["failure", "deadline"], email: ["ops@example.com"] }] },
      b: { deadline: 3600, notify: [{ on: ["deadline"], email: ["ops@example.com"] }] },
    })
    expect(problems.map(({ line, message }) => `${line - 8}: ${message}`)).toEqual([
      "6: sla of BashOperator c is not a constant and is left out",
      "6: email of BashOperator c is not a constant text and is left out",
      "6: on_failure_callback of BashOperator c is left out: write it as a task under on_failure, or add notify",
      "6: on_retry_callback of BashOperator c is left out: Ork reports the last attempt only",
      "3: on_failure_callback of the DAG is left out: write it as a task under on_failure, or add notify",
      "3: sla_miss_callback of the DAG is left out: a notify with on: [deadline] sends a message",
    ])
  })

  it("waits as its sensors do", async () => {
    const { definition, problems } = await convert(`
with DAG("sensors", schedule=None):
    a = FileSensor(task_id="a", filepath="/data/{{ ds }}.csv", poke_interval=30, timeout=3600, soft_fail=True, mode="reschedule")
    b = S3KeySensor(task_id="b", bucket_name="in", bucket_key="day/*.csv", wildcard_match=True, poke_interval=timedelta(minutes=5))
    c = HttpSensor(task_id="c", http_conn_id="billing", endpoint="status")
    d = SqlSensor(task_id="d", conn_id="dwh", sql="select count(*) > 0 from t where day = '{{ ds }}'")
    e = ExternalTaskSensor(task_id="e", external_dag_id="extract", external_task_id=None)
    f = BashSensor(task_id="f", bash_command="test -f done")
`)
    expect(definition!.tasks).toEqual({
      a: { executor: "wait", path: "/data/${{ run.date }}.csv", every: 30, timeout: 3600, soft_fail: true },
      b: { executor: "wait", path: "s3://in/day/*.csv", every: 300 },
      c: { executor: "wait", url: "https://billing/status", every: 60 },
      d: { executor: "wait", sql: "select count(*) > 0 from t where day = ${{ run.date }}", connection: "dwh", every: 60 },
      e: { executor: "wait", workflow: "extract", logical_date: "${{ run.logical_date }}", every: 60 },
      f: { executor: "wait", command: "test -f done", shell: ["bash", "-c"], every: 60 },
    })
    expect(problems.map(({ message }) => message)).toEqual([
      "c uses the connection billing; write its host into the url",
      "d needs the connection dwh in ork.yaml, and the first column of its query must be true or false",
    ])
  })

  it("reports line by line what it cannot convert, and its task fails until somebody replaces it", async () => {
    const { definition, problems } = await convert(`
with DAG("odd", schedule="@daily", sla_miss_callback=page):
    a = S3KeySensor(task_id="a", bucket_key="x")
    b = BashOperator(task_id="b", bash_command="echo {{ var.value.token }}", pool="db")
    for name in list_tables():
        BashOperator(task_id=name, bash_command="true")
    a >> b
`)
    expect(problems.map(({ line, message }) => `${line - 8}: ${message}`)).toEqual([
      "6: the loop over `list_tables()` has no constant list",
      "4: S3KeySensor a is not converted: its task fails until you replace its command",
      "5: the template {{ var.value.token }} has no counterpart",
      "5: pool of BashOperator b has no counterpart and is left out",
      "3: catchup is not set: Airflow 2 catches up on missed ticks then, Ork does not unless you set catchup: all",
      "3: sla_miss_callback of the DAG is left out: a notify with on: [deadline] sends a message",
    ])
    expect(definition!.tasks).toMatchObject({ a: { command: expect.stringContaining("exit 1") }, b: { depends_on: ["a"] } })
  })

  it("that is not Python is a problem of its line", async () => {
    expect((await convert("with DAG(:\n")).problems).toMatchObject([{ line: 10 }])
  })
})

describe("a Jinja template", () => {
  it.each([
    ["{{ ds }}", "${{ run.date }}"],
    ["--day={{ params.day }}", "--day=${{ params.day }}"],
    ["{{ dag_run.conf['day'] }}", "${{ params.day }}"],
    ["{{ ti.xcom_pull(task_ids='a')['rows'] }}", "${{ tasks.a.output.rows }}"],
    ["{{ macros.ds_add(ds, 1) }}", "{{ macros.ds_add(ds, 1) }}"],
  ])("%s becomes %s", (jinja, text) => {
    expect(convertJinja(jinja).text).toBe(text)
  })
})
