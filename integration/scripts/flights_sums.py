"""Sums over a table of flights on a REST catalog: flights_sums.py - TABLE duckdb|pyiceberg

Prints the sums of distance and departure delay, how many rows have an arrival delay, and the sum of flight numbers.
"""

import sys

from common import answer, catalog, properties


def duckdb(warehouse, name):
    from duckdb_lake import attach, connect

    connection = connect()
    attach(connection, properties(warehouse))
    namespace, _, table = name.rpartition(".")
    sums = "sum(distance), sum(dep_delay), count(arr_delay), sum(flight)"
    return connection.execute(f'SELECT {sums} FROM lake."{namespace}"."{table}"').fetchone()


def pyiceberg(warehouse, name):
    import pyarrow.compute as pc

    rows = catalog(warehouse).load_table(name).scan().to_arrow()
    total = lambda column: pc.sum(rows[column]).as_py()
    return total("distance"), total("dep_delay"), pc.count(rows["arr_delay"]).as_py(), total("flight")


warehouse, name, reader = sys.argv[1:]
answer([int(value) for value in {"duckdb": duckdb, "pyiceberg": pyiceberg}[reader](warehouse, name)])
