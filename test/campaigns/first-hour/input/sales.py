from datetime import datetime, timedelta
import json

from airflow import DAG
from airflow.decorators import task
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import BranchPythonOperator
from airflow.utils.task_group import TaskGroup

TABLES = ["orders", "users"]


def choose():
    return "big"


with DAG(
    "sales",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"owner": "ada", "retries": 1, "retry_delay": timedelta(seconds=1)},
    tags=["sales"],
    max_active_runs=1,
) as dag:

    @task
    def extract():
        return {"rows": [1, 2, 3]}

    @task
    def double(row):
        return row * 2

    @task
    def total(rows):
        print(json.dumps({"total": sum(rows)}))

    with TaskGroup("load") as load:
        for table in TABLES:
            BashOperator(task_id=table, bash_command=f"echo loading {table} of {{{{ ds }}}}", pool="warehouse")
    pick = BranchPythonOperator(task_id="pick", python_callable=choose)
    data = extract()
    result = total(double.expand(row=data["rows"]))
    result >> load >> pick >> [EmptyOperator(task_id="big"), EmptyOperator(task_id="small")]
