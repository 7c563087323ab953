"""A repair of one day's flights, every day, published through calve.

`calve run` is one line for a scheduler: it opens an audit branch, runs the job, checks what the job wrote, and moves
`main` with one conditional commit. The same line again, after any end, does what is left of that. So a retry is always
safe, and the exit code only says whether it is of use:

  0            done: published now, or by an earlier try. A second run of a published day does nothing
  1            the job or calve failed; the report says if it was visible then     retry: finds out, then the job if need be
  11, 12       main moved while the job ran                                        retry: the job again, on main as it is
  13           not allowed, or another run of the same id is at work               retry: later it may have ended
  20           unresolved: the answer was lost, and it may be visible already      retry: finds out, without the job
  137, 143     killed                                                              retry: goes on from what the table shows
  10           a check failed: the data is wrong, and not published                no retry: the same data fails again
  2, 21        wrong use; or the table contradicts itself                          a person: a retry does no harm, and no good
"""

import pendulum
from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG(
    dag_id="repair_flights",
    schedule="@daily",
    start_date=pendulum.datetime(2013, 8, 1, tz="UTC"),
    catchup=False,
    # Two repairs of different days are two publications, and calve lets one of them be published at a time: the other
    # ends with 12, and its retry is done on the new main. One after the other saves the second run of the job.
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="repair",
        # The id is the day, so that every try of this day is the same publication. `exec` hands signals to calve, which
        # passes them on to the job and waits for it.
        bash_command=(
            "exec calve run demo.flights 'flights-{{ ds }}'"
            " --scope \"flight_date = '{{ ds }}'\""
            " --reads scope"
            ' --code "$REPAIR_REVISION"'
            " -- spark-submit repair.py '{{ ds }}'"
        ),
        env={
            # Where `calve.toml` is, and with it the catalog and the journal. Workers have to share the journal.
            "CALVE_OWNER": "airflow-repairs",
            "REPAIR_REVISION": "{{ var.value.get('repair_revision', 'unknown') }}",
        },
        # Credentials come from the worker's own environment; calve hands it on and adds no secret to it.
        append_env=True,
        cwd="/opt/repairs",
        # A retry after 1, 11, 12, 13 and 20 is what makes the line whole. They are cheap: only 1, 11 and 12 run the job again.
        retries=5,
        retry_delay=pendulum.duration(minutes=2),
        retry_exponential_backoff=True,
        # Airflow does not retry what it skips, and skips what comes after: nothing goes on with data that failed a check.
        # `calve review demo.flights flights-DAY` says what was wrong.
        skip_on_exit_code=[10],
        # Longer than the job takes. When it is over, Airflow sends SIGTERM: calve stops the job, and the next try starts
        # on a branch of its own.
        execution_timeout=pendulum.duration(hours=3),
    )
