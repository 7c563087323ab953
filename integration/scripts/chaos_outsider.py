"""Makes tables, commits to them and reads them for `chaos`, knowing nothing of calve: a JSON object a line in, and one out.

    {"do": "make", "table": …, "partitioned": true, "version": 2, "numbers": [0, 2, …]}
                                            a table whose rows under each number are two of `base`
    {"do": "append", "table": …, "number": -7}
                                            one row of `other` under a number, into main
    {"do": "rollback", "table": …, "steps": 3}
                                            main to an earlier snapshot of its ancestry
    {"do": "bypass", "table": …, "branch": …}
                                            main to the head of a branch that stands on it
    {"do": "read", "table": …}              rows of main, as DuckDB and as PyIceberg see them, and which publications any
                                            snapshot of main's history holds rows of

Each object has the properties of its REST catalog in "catalog". A failure is answered with {"failed": …}.
"""

import json
import sys

import pyarrow
import pyarrow.parquet
from duckdb_lake import attach, connect
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

SCHEMA = Schema(
    NestedField(1, "number", LongType(), required=False),
    NestedField(2, "publication", StringType(), required=False),
    NestedField(3, "row", LongType(), required=False),
)
# What catalogs answer where somebody else was first: 409, or 400 for a sequence number that was taken.
REFUSALS = (CommitFailedException, BadRequestError)
COLUMNS = ["number", "publication", "row"]


def rows(found):
    number, publication, row = zip(*found)
    return pyarrow.table(
        {"number": pyarrow.array(number, pyarrow.int64()), "publication": publication, "row": pyarrow.array(row, pyarrow.int64())}
    )


def make(catalog, job):
    namespace, _, _ = job["table"].rpartition(".")
    catalog.create_namespace_if_not_exists(namespace)
    table = catalog.create_table(job["table"], schema=SCHEMA, properties={"format-version": str(job["version"])})
    if job["partitioned"]:
        with table.update_spec() as update:
            update.add_field("number", IdentityTransform(), "number")
    table.append(rows([(number, "base", row) for number in job["numbers"] for row in (1, 2)]))
    return {}


def append(catalog, job):
    try:
        catalog.load_table(job["table"]).append(rows([(job["number"], "other", 1)]))
    except REFUSALS as refusal:
        return {"refused": str(refusal)}
    return {"refused": None}


def move(table, snapshot):
    try:
        table.manage_snapshots().set_current_snapshot(snapshot_id=snapshot.snapshot_id).commit()
    except REFUSALS as refusal:
        return {"refused": str(refusal)}
    return {"refused": None}


def ancestry(table, snapshot):
    while snapshot is not None:
        yield snapshot
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None


def rollback(catalog, job):
    table = catalog.load_table(job["table"])
    below = list(ancestry(table, table.current_snapshot()))[1:]
    if not below:
        return {"refused": "main stands on nothing"}
    return move(table, below[min(job["steps"], len(below)) - 1])


def bypass(catalog, job):
    table = catalog.load_table(job["table"])
    head = table.snapshot_by_name(job["branch"])
    if head is None or table.current_snapshot() not in list(ancestry(table, head))[1:]:
        return {"refused": "the branch does not stand on main"}
    return move(table, head)


def counted(found):
    """Rows with how often each is there, sorted."""
    counts = {}
    for row in found:
        counts[row] = counts.get(row, 0) + 1
    return sorted([*row, count] for row, count in counts.items())


def by_pyiceberg(table):
    """The rows of main, and each publication's first snapshot in main's history."""
    files, manifests = {}, {}

    def rows_of(path):
        if path not in files:
            with table.io.new_input(path).open() as file:
                found = pyarrow.parquet.read_table(file, columns=COLUMNS)
            files[path] = list(zip(*(found.column(name).to_pylist() for name in COLUMNS)))
        return files[path]

    def live(snapshot):
        paths = []
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in manifests:
                entries = [entry.data_file for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)]
                if any(file.content != DataFileContent.DATA for file in entries):
                    raise ValueError(f"{manifest.manifest_path} has deletes, which nobody here writes")
                manifests[manifest.manifest_path] = [file.file_path for file in entries]
            paths += manifests[manifest.manifest_path]
        return paths

    metadata = table.metadata
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    history, at = {}, table.current_snapshot()
    main = [row for path in live(at) for row in rows_of(path)]
    wanted = [entry.snapshot_id for entry in metadata.snapshot_log]
    while at is not None:
        wanted.append(at.snapshot_id)
        at = by_id.get(at.parent_snapshot_id)
    for snapshot in {id for id in wanted if id in by_id}:
        for path in live(by_id[snapshot]):
            for _, publication, _ in rows_of(path):
                history.setdefault(publication, str(snapshot))
    return main, history, len(metadata.snapshots)


def read(catalog, job):
    main, history, snapshots = by_pyiceberg(catalog.load_table(job["table"]))
    connection = connect()
    attach(connection, job["catalog"])
    namespace, _, name = job["table"].rpartition(".")
    seen = connection.execute(f'SELECT number, publication, row FROM lake."{namespace}"."{name}"').fetchall()
    connection.close()
    return {"duckdb": counted(seen), "pyiceberg": counted(main), "history": history, "snapshots": snapshots}


DO = {"make": make, "append": append, "rollback": rollback, "bypass": bypass, "read": read}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        try:
            catalog = load_catalog("lake", **{**job["catalog"], "type": "rest"})
            answer = DO[job["do"]](catalog, job)
        except Exception as error:  # Whatever it is, whoever asked has to be told.
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
