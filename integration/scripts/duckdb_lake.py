"""DuckDB on a REST catalog. For a prompt: python -i duckdb_lake.py PROPERTIES.json, then db.sql("FROM lake.demo.flights")"""

import json
import sys

import duckdb


def text(value):
    return "'" + value.replace("'", "''") + "'"


def connect():
    """DuckDB with the extensions of its environment, which it would fetch otherwise."""
    connection = duckdb.connect(config={"extension_directory": sys.prefix + "/duckdb-extensions", "threads": 1})
    for extension in ("avro", "httpfs", "iceberg"):
        connection.load_extension(extension)
    return connection


def attach(connection, rest):
    """Attaches a REST catalog as `lake`, by Iceberg's properties."""
    endpoint = rest.get("s3.endpoint")
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        connection.execute(
            f"CREATE SECRET store (TYPE s3, KEY_ID {text(rest['s3.access-key-id'])},"
            f" SECRET {text(rest['s3.secret-access-key'])}, REGION {text(rest['s3.region'])},"
            f" ENDPOINT {text(host)}, URL_STYLE 'path', USE_SSL {'true' if scheme == 'https' else 'false'})"
        )
    how = f"TYPE iceberg, ENDPOINT {text(rest['uri'])}, ACCESS_DELEGATION_MODE 'none'"
    if "credential" in rest:
        user, _, password = rest["credential"].partition(":")
        connection.execute(
            f"CREATE SECRET catalog (TYPE iceberg, CLIENT_ID {text(user)}, CLIENT_SECRET {text(password)},"
            f" OAUTH2_SERVER_URI {text(rest['uri'] + '/v1/oauth/tokens')})"
        )
        how += ", SECRET catalog"
    else:
        how += ", AUTHORIZATION_TYPE 'none'"
    connection.execute(f"ATTACH {text(rest.get('warehouse', ''))} AS lake ({how})")


if __name__ == "__main__":
    db = connect()
    with open(sys.argv[1]) as file:
        attach(db, json.load(file))
