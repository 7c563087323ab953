"""Makes a table as a job on PyIceberg does: pyiceberg_create.py WAREHOUSE TABLE FILE DAY_COLUMN FORMAT_VERSION

An embedded catalog is made where there is none. The table is partitioned by the day of DAY_COLUMN and holds the rows of
FILE.
"""

import os
import sys

import pyarrow.parquet
from common import answer, catalog, properties
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import DayTransform


def main(warehouse, name, file, day, version):
    namespace, _, table_name = name.rpartition(".")
    if properties(warehouse) is None:
        folder = os.path.realpath(warehouse)
        found = SqlCatalog("calve", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        location = f"file://{folder}/{namespace}/{table_name}"
    else:
        found = catalog(warehouse)
        location = None
    found.create_namespace_if_not_exists(namespace)
    rows = pyarrow.parquet.read_table(file)
    table = found.create_table(
        name,
        schema=rows.schema,
        location=location,
        properties={"format-version": version},
    )
    with table.update_spec() as update:
        update.add_field(day, DayTransform(), f"{day}_day")
    table.append(rows)
    answer({"snapshot": str(table.current_snapshot().snapshot_id), "rows": rows.num_rows})


main(*sys.argv[1:])
