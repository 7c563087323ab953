"""How the scripts find a catalog, and how they answer: one JSON value on the last line of their output.

The first argument of a script is a warehouse folder with an embedded catalog, or `-` for a REST catalog, whose properties
are then a JSON object in CALVE_TEST_CATALOG: secrets do not belong on command lines.
"""

import json
import os
import sys


def properties(warehouse):
    """The properties of the REST catalog; none for a folder."""
    return json.loads(os.environ["CALVE_TEST_CATALOG"]) if warehouse == "-" else None


def catalog(warehouse):
    """The catalog as PyIceberg sees it. The database of an embedded one must be there already."""
    rest = properties(warehouse)
    if rest is not None:
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **{**rest, "type": "rest"})

    from pyiceberg.catalog.sql import SqlCatalog

    database = os.path.join(os.path.realpath(warehouse), "catalog.db")
    if not os.path.exists(database):
        sys.exit(f"no catalog at {database}")
    return SqlCatalog(
        "calve",
        uri=f"sqlite:///{database}",
        warehouse="file://" + os.path.realpath(warehouse),
        init_catalog_tables="false",
    )


def answer(value):
    """The script's result. Snapshot ids are strings in it: readers that hold numbers as doubles lose them."""
    print(json.dumps(value, default=str))
