"""What DuckDB sees of a table's main: duckdb_read.py WAREHOUSE TABLE [COLUMN]

The metadata file is the one that the catalog names, found in its database as any tool without an Iceberg client would.
"""

import os
import sqlite3
import sys

import duckdb
from common import answer


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


def main(warehouse, name, column=None):
    metadata = location(warehouse, name)
    connection = duckdb.connect(config={"extension_directory": sys.prefix + "/duckdb-extensions", "threads": 1})
    for extension in ("avro", "httpfs", "iceberg"):
        connection.load_extension(extension)
    rows = connection.execute("SELECT count(*) FROM iceberg_scan(?)", [metadata]).fetchone()[0]
    by = {}
    if column:
        query = f'SELECT CAST("{column}" AS VARCHAR), count(*) FROM iceberg_scan(?) GROUP BY ALL ORDER BY ALL'
        by = dict(connection.execute(query, [metadata]).fetchall())
    answer({"metadata-location": metadata, "main": {"rows": rows, "by": by}})


main(*sys.argv[1:])
