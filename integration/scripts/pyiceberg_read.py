"""What PyIceberg sees of a table: pyiceberg_read.py WAREHOUSE TABLE [COLUMN]

Rows of main and of every branch and tag, counted by the values of COLUMN if one is given; refs with their retention;
snapshots with their summaries.
"""

import sys
from collections import Counter

from common import answer, catalog


def count(scan, column):
    rows = scan.to_arrow()
    by = Counter(str(value) for value in rows.column(column).to_pylist()) if column else {}
    return {"rows": rows.num_rows, "by": dict(sorted(by.items()))}


def main(warehouse, name, column=None):
    table = catalog(warehouse).load_table(name)
    metadata = table.metadata
    refs = {
        ref: {
            "snapshot": str(found.snapshot_id),
            "type": str(found.snapshot_ref_type.value),
            "min-snapshots-to-keep": found.min_snapshots_to_keep,
            "max-snapshot-age-ms": found.max_snapshot_age_ms,
            "max-ref-age-ms": found.max_ref_age_ms,
        }
        for ref, found in metadata.refs.items()
    }
    snapshots = {
        str(snapshot.snapshot_id): {
            "parent": None if snapshot.parent_snapshot_id is None else str(snapshot.parent_snapshot_id),
            "operation": snapshot.summary.operation.value,
            "summary": snapshot.summary.additional_properties,
            "manifest-list": snapshot.manifest_list,
        }
        for snapshot in metadata.snapshots
    }
    nothing = {"rows": 0, "by": {}}
    answer(
        {
            "uuid": str(metadata.table_uuid),
            "format-version": metadata.format_version,
            "metadata-location": table.metadata_location,
            "location": table.location(),
            "main": count(table.scan(), column) if table.current_snapshot() else nothing,
            "at": {ref: count(table.scan(snapshot_id=int(at["snapshot"])), column) for ref, at in refs.items()},
            "refs": refs,
            "snapshots": snapshots,
        }
    )


main(*sys.argv[1:])
