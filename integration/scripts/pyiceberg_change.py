"""Changes a table as jobs and maintenance on PyIceberg do: pyiceberg_change.py WAREHOUSE TABLE VERB ARGUMENT…

    overwrite BRANCH FILE FILTER   replaces the rows for which FILTER is true by those of a Parquet file
    delete BRANCH FILTER           deletes rows
    branch NAME                    makes a branch where main is
    set-main REF                   moves main to where a branch or tag is
    expire                         expires every snapshot that PyIceberg does not protect, however young
    evolve COLUMN                  adds an optional column of text

A refusal by the client is a result of its own, since tests ask for it.
"""

import datetime
import sys

import pyarrow.parquet
from common import answer, catalog


def overwrite(table, branch, file, where):
    table.overwrite(pyarrow.parquet.read_table(file), overwrite_filter=where, branch=branch)


def delete(table, branch, where):
    table.delete(where, branch=branch)


def branch(table, name):
    head = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(snapshot_id=head, branch_name=name).commit()


def set_main(table, ref):
    table.manage_snapshots().set_current_snapshot(ref_name=ref).commit()


def expire(table):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    table.maintenance.expire_snapshots().older_than(later).commit()


def evolve(table, column):
    from pyiceberg.types import StringType

    with table.update_schema() as update:
        update.add_column(column, StringType())


VERBS = {
    "overwrite": overwrite,
    "delete": delete,
    "branch": branch,
    "set-main": set_main,
    "expire": expire,
    "evolve": evolve,
}


def main(warehouse, name, verb, *arguments):
    table = catalog(warehouse).load_table(name)
    try:
        VERBS[verb](table, *arguments)
    except ValueError as refusal:
        answer({"refused": str(refusal)})
        return
    answer({"refused": None})


main(*sys.argv[1:])
