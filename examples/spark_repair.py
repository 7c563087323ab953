"""Rebuilds one day of flights on the branch that calve opened, with PySpark.

    calve --catalog lake run db.flights repair-0809 --scope "flight_date = '2013-08-09'" -- \\
        spark-submit examples/spark_repair.py examples/flights/flights-2013-08-09.parquet 2013-08-09

`calve run` says in the environment which catalog, table and branch. Where the catalog is, and with which credentials,
Spark knows from its own configuration (spark-defaults.conf, or --conf), under the same name. Readers of the table see
nothing of what is written here until calve publishes it.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit


def main(source: str, day: str) -> None:
    branch = os.environ["CALVE_BRANCH"]
    table = f"{os.environ['CALVE_CATALOG_NAME']}.{os.environ['CALVE_TABLE']}"
    # In quotes, because the branch's name has a slash in it.
    target = f"{table}.`branch_{branch}`"

    spark = SparkSession.builder.appName(f"repair of {day}").getOrCreate()
    of_the_day = col("flight_date") == lit(day).cast("date")
    rows = spark.read.parquet(source).where(of_the_day)
    if rows.isEmpty():
        sys.exit(f"{source} has no rows of {day}: nothing is written")
    # The day as a whole, so that running this a second time gives the same rows, not twice as many.
    rows.select(*spark.table(table).columns).writeTo(target).overwrite(of_the_day)
    print(f"{spark.table(target).where(of_the_day).count()} rows of {day} are on {branch}")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
