"""How the scripts find a warehouse, and how they answer: one JSON value on the last line of their output."""

import json
import os
import sys


def catalog(warehouse):
    """The embedded catalog of a warehouse folder, as PyIceberg sees it. The database must be there already."""
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
