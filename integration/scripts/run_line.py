"""Runs a line as a person pastes it: run_line.py READER LINE

PyIceberg's is a line at Python's prompt, in a folder that has nothing to do with it; DuckDB's is a statement of SQL. The
answer is the number of rows that it shows.
"""

import os
import sys

from common import answer


def pyiceberg(line):
    shown = []
    sys.displayhook = shown.append
    exec(compile(line, "<stdin>", "single"), {})
    return shown[-1].num_rows


def duckdb(line):
    import duckdb

    connection = duckdb.connect(config={"extension_directory": sys.prefix + "/duckdb-extensions", "threads": 1})
    for extension in ("avro", "httpfs", "iceberg"):
        connection.load_extension(extension)
    return len(connection.execute(line).fetchall())


os.chdir("/")
reader, line = sys.argv[1:]
answer({"rows": {"PyIceberg": pyiceberg, "DuckDB": duckdb}[reader](line)})
