"""Partition fields whose names are no Avro names, by PyIceberg: pyiceberg_odd_names.py WAREHOUSE TABLE VERB …

create FORMAT_VERSION FILE   makes the table, partitioned by the columns that are no Avro names, with the rows of FILE
append BRANCH FILE           appends the rows of FILE
read                         nothing more

Each answers with what main holds then: rows, the partitions of files, and the rows of Köln.
"""

import os
import sys
from datetime import date, timedelta

import pyarrow.csv
from common import answer, catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import DayTransform, IdentityTransform

EPOCH = date(1970, 1, 1)


def main(warehouse, name, verb, *rest):
    if verb == "create":
        version, file = rest
        folder = os.path.realpath(warehouse)
        namespace, _, table_name = name.rpartition(".")
        found = SqlCatalog("calve", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        found.create_namespace_if_not_exists(namespace)
        rows = pyarrow.csv.read_csv(file)
        table = found.create_table(
            name,
            schema=rows.schema,
            location=f"file://{folder}/{namespace}/{table_name}",
            properties={"format-version": version},
        )
        with table.update_spec() as update:
            update.add_field("order-day", DayTransform(), "order-day_day")
            update.add_field("1st", IdentityTransform(), "1st")
            update.add_field("städt", IdentityTransform(), "städt")
        table.append(rows)
    elif verb == "append":
        branch, file = rest
        catalog(warehouse).load_table(name).append(pyarrow.csv.read_csv(file), branch=branch)
    table = catalog(warehouse).load_table(name)
    rows = sorted(" ".join(str(value) for value in row.values()) for row in table.scan().to_arrow().to_pylist())
    tuples = [task.file.partition for task in table.scan().plan_files()]
    # The transform's result is counted in days; the two others are as they are.
    partitions = sorted(f"{EPOCH + timedelta(days=day(parts[0]))} {parts[1]} {parts[2]}" for parts in tuples)
    pruned = table.scan(row_filter=EqualTo("städt", "Köln")).to_arrow().num_rows
    answer({"rows": rows, "partitions": partitions, "pruned": pruned})


def day(value):
    return value if isinstance(value, int) else (value - EPOCH).days


main(*sys.argv[1:])
