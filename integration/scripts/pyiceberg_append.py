"""Appends a Parquet file to a branch, as a job on PyIceberg does: pyiceberg_append.py WAREHOUSE TABLE BRANCH FILE

A refusal by the client is a result of its own, since tests ask for it.
"""

import sys

import pyarrow.parquet
from common import answer, catalog


def main(warehouse, name, branch, file):
    table = catalog(warehouse).load_table(name)
    rows = pyarrow.parquet.read_table(file)
    try:
        table.append(rows, branch=branch)
    except ValueError as refusal:
        answer({"refused": str(refusal)})
        return
    table.refresh()
    answer({"snapshot": str(table.metadata.refs[branch].snapshot_id), "rows": rows.num_rows})


main(*sys.argv[1:])
