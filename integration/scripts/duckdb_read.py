"""What DuckDB sees of a table: duckdb_read.py WAREHOUSE TABLE [COLUMN [SNAPSHOT]]

Of an embedded catalog it reads the metadata file that the database names, as any tool without an Iceberg client would;
to a REST catalog it is attached. Without SNAPSHOT it reads main.
"""

import os
import sqlite3
import sys

from common import answer, properties
from duckdb_lake import attach, connect, text


def location(warehouse, name):
    namespace, _, table = name.rpartition(".")
    uri = f"file:{os.path.join(os.path.realpath(warehouse), 'catalog.db')}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    row = connection.execute(
        "SELECT metadata_location FROM iceberg_tables"
        " WHERE catalog_name = 'calve' AND table_namespace = ? AND table_name = ?",
        (namespace, table),
    ).fetchone()
    connection.close()
    if row is None:
        sys.exit(f"no row for {name} in iceberg_tables")
    return row[0]


def main(warehouse, name, column=None, snapshot=None):
    connection = connect()
    rest = properties(warehouse)
    if rest is None:
        metadata = location(warehouse, name)
        at = f", snapshot_from_id = {int(snapshot)}" if snapshot else ""
        table = f"iceberg_scan({text(metadata)}{at})"
    else:
        metadata = ""
        attach(connection, rest)
        at = f" AT (VERSION => {int(snapshot)})" if snapshot else ""
        namespace, _, last = name.rpartition(".")
        table = f'lake."{namespace}"."{last}"{at}'
    rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    by = {}
    if column:
        query = f'SELECT CAST("{column}" AS VARCHAR), count(*) FROM {table} GROUP BY ALL ORDER BY ALL'
        by = dict(connection.execute(query).fetchall())
    answer({"metadata-location": metadata, "main": {"rows": rows, "by": by}})


main(*sys.argv[1:])
