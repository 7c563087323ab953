"""Rebuilds one day of flights on the branch that calve opened, with PyIceberg.

    calve --catalog lake run db.flights repair-0809 --scope "flight_date = '2013-08-09'" -- \\
        python examples/pyiceberg_repair.py examples/flights/flights-2013-08-09.parquet 2013-08-09

`calve run` says in the environment which catalog, table and branch. PyIceberg finds the catalog under the same name in
~/.pyiceberg.yaml, where calve looks for it too. Readers of the table see nothing of what is written here until calve
publishes it.
"""

import datetime
import os
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo


def main(source: str, day: str) -> None:
    branch = os.environ["CALVE_BRANCH"]
    table = load_catalog(os.environ["CALVE_CATALOG_NAME"]).load_table(os.environ["CALVE_TABLE"])

    rows = pq.read_table(source)
    rows = rows.filter(pc.equal(rows["flight_date"], datetime.date.fromisoformat(day)))
    if rows.num_rows == 0:
        sys.exit(f"{source} has no rows of {day}: nothing is written")
    schema = table.schema().as_arrow()
    # The day as a whole, so that running this a second time gives the same rows, not twice as many.
    table.overwrite(
        rows.select(schema.names).cast(schema),
        overwrite_filter=EqualTo("flight_date", day),
        branch=branch,
    )
    print(f"{rows.num_rows} rows of {day} are on {branch}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
