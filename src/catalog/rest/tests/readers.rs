use super::*;

fn lines(table: &str, warehouse: Option<&str>, user: &[(&str, &str)]) -> [String; 4] {
    let user: Properties = user.iter().copied().collect();
    let readers = Readers { uri: "https://cat/iceberg", warehouse, user: &user };
    let lines = readers.lines(&table.parse().unwrap()).into_iter().map(|(_, line)| line).collect::<Vec<_>>();
    lines.try_into().unwrap()
}

#[test]
fn without_credentials() {
    let [spark, pyiceberg, duckdb, trino] = lines("db.flights", None, &[]);
    assert_eq!(spark, "SELECT * FROM c.db.flights -- spark.sql.catalog.c: type=rest, uri=https://cat/iceberg");
    assert_eq!(
        pyiceberg,
        "from pyiceberg.catalog import load_catalog; load_catalog('c', type='rest', uri='https://cat/iceberg').load_table('db.flights').scan().to_arrow()"
    );
    assert_eq!(
        duckdb,
        "ATTACH '' AS c (TYPE iceberg, ENDPOINT 'https://cat/iceberg', AUTHORIZATION_TYPE 'none'); \
         SELECT * FROM c.db.flights"
    );
    assert_eq!(
        trino,
        "SELECT * FROM c.db.flights -- c.properties: connector.name=iceberg, iceberg.catalog.type=rest, \
         iceberg.rest-catalog.uri=https://cat/iceberg"
    );
}

#[test]
fn secrets_are_placeholders_that_name_their_property() {
    let user = [
        (NAME, "lake"),
        ("credential", "me:hunter2"),
        ("scope", "catalog"),
        ("s3.access-key-id", "AKhunter2"),
        ("s3.secret-access-key", "hunter2"),
        ("s3.endpoint", "http://u:hunter2@store:1"),
        ("s3.region", "eu"),
        ("header.X-Key", "hunter2"),
        ("rest.client.max-retries", "2"),
    ];
    let all = lines("db.flights", Some("wh"), &user);
    for line in &all {
        assert!(
            !line.contains("hunter2") && line.contains("lake.db.flights") || line.contains("load_catalog"),
            "{line}"
        );
        assert!(
            !line.contains("hunter2") && !line.contains("max-retries") && line.contains("<your credential"),
            "{line}"
        );
    }
    let [spark, pyiceberg, duckdb, trino] = all;
    assert!(spark.contains("spark.sql.catalog.lake: type=rest, uri=https://cat/iceberg, warehouse=wh, "), "{spark}");
    assert!(spark.contains("credential=<your credential>, header.X-Key=<your header.X-Key>"), "{spark}");
    assert_eq!(
        pyiceberg,
        "from pyiceberg.catalog import load_catalog; \
         load_catalog('lake', type='rest', uri='https://cat/iceberg', warehouse='wh', credential='<your credential>', \
         scope='catalog', **{'header.X-Key': '<your header.X-Key>', 's3.access-key-id': '<your s3.access-key-id>', \
         's3.endpoint': 'http://store:1', 's3.region': 'eu', 's3.secret-access-key': '<your s3.secret-access-key>'})\
         .load_table('db.flights').scan().to_arrow()"
    );
    assert_eq!(
        duckdb,
        "CREATE SECRET calve (TYPE iceberg, CLIENT_ID '<your credential, before its colon>', CLIENT_SECRET \
         '<your credential, after its colon>', OAUTH2_SERVER_URI 'https://cat/iceberg/v1/oauth/tokens', \
         OAUTH2_SCOPE 'catalog'); CREATE SECRET store (TYPE s3, KEY_ID '<your s3.access-key-id>', \
         SECRET '<your s3.secret-access-key>', REGION 'eu', ENDPOINT 'store:1', URL_STYLE 'path', USE_SSL false); \
         ATTACH 'wh' AS lake (TYPE iceberg, ENDPOINT 'https://cat/iceberg', SECRET calve, \
         ACCESS_DELEGATION_MODE 'none'); SELECT * FROM lake.db.flights"
    );
    assert!(
        trino.ends_with(
            "iceberg.rest-catalog.warehouse=wh, iceberg.rest-catalog.security=OAUTH2, \
             iceberg.rest-catalog.oauth2.credential=<your credential>, iceberg.rest-catalog.oauth2.scope=catalog"
        ),
        "{trino}"
    );
    let [_, _, duckdb, trino] = lines("db.t", None, &[("token", "hunter2")]);
    assert!(duckdb.starts_with("CREATE SECRET calve (TYPE iceberg, TOKEN '<your token>'); ATTACH"), "{duckdb}");
    assert!(trino.ends_with("iceberg.rest-catalog.oauth2.token=<your token>"), "{trino}");
}

#[test]
fn pyiceberg_with_the_same_settings_needs_the_name_alone() {
    let [_, pyiceberg, ..] = lines("db.flights", Some("wh"), &[(NAME, "lake"), (PYICEBERG, "Lake"), ("token", "x")]);
    assert_eq!(
        pyiceberg,
        "from pyiceberg.catalog import load_catalog; load_catalog('Lake').load_table('db.flights').scan().to_arrow()"
    );
}

#[test]
fn names_are_quoted_as_each_engine_needs_them() {
    let [spark, pyiceberg, duckdb, trino] = lines("nu.a-b.order.1st", None, &[(NAME, "my-lake")]);
    assert!(
        spark.starts_with("SELECT * FROM `my-lake`.nu.`a-b`.`order`.`1st` -- spark.sql.catalog.my-lake: "),
        "{spark}"
    );
    assert!(pyiceberg.contains("load_table('nu.a-b.order.1st')"), "{pyiceberg}");
    assert!(duckdb.contains(r#" AS "my-lake" ("#), "{duckdb}");
    assert!(duckdb.ends_with(r#"SELECT * FROM "my-lake"."nu.a-b.order"."1st""#), "{duckdb}");
    assert!(trino.starts_with(r#"SELECT * FROM "my-lake"."nu.a-b.order"."1st" -- my-lake.properties: "#), "{trino}");
    assert!(trino.ends_with(", iceberg.rest-catalog.nested-namespace-enabled=true"), "{trino}");
}
