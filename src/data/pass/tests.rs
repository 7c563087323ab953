use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, NestedField, PrimitiveType,
    Schema, Struct, Type,
};

use super::*;
use crate::clock::Clock;
use crate::data::NoProgress;
use crate::data::live::live_entries;
use crate::data::snapshot::{AddedFile, DataChange, RemovedFile};
use crate::data::testkit::Bed;
use crate::data::write::TableWriter;
use crate::evidence::check::{MANIFEST_CHECK, Outcome};
use crate::evidence::policy::{EvidenceVerdict, verdict};

type Row = (i64, Option<i32>, &'static str, i128, f64);

fn schema() -> Schema {
    let field = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
    Schema::builder()
        .with_fields([
            Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
            field(2, "day", PrimitiveType::Date),
            field(3, "name", PrimitiveType::String),
            field(4, "amount", PrimitiveType::Decimal { precision: 9, scale: 2 }),
            field(5, "score", PrimitiveType::Double),
        ])
        .build()
        .unwrap()
}

fn batch(bed: &Bed, rows: &[Row]) -> RecordBatch {
    let schema = Arc::new(iceberg::arrow::schema_to_arrow_schema(bed.table.metadata.current_schema()).unwrap());
    let amounts = Decimal128Array::from_iter_values(rows.iter().map(|row| row.3));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Date32Array::from_iter(rows.iter().map(|row| row.1))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| (!row.2.is_empty()).then_some(row.2)))),
        Arc::new(amounts.with_precision_and_scale(9, 2).unwrap()),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.4))),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Rows of day 1970-01-02 (1) and 1970-01-03 (2), ids from `first`.
fn rows(first: i64, day: i32, count: i64) -> Vec<Row> {
    (first..first + count).map(|id| (id, Some(day), "n", i128::from(id) * 10, id as f64)).collect()
}

struct Case {
    bed: Bed,
    base: Option<SnapshotId>,
}

impl Case {
    fn new(version: FormatVersion, partition_by: &str) -> Self {
        Self { bed: Bed::new(version, schema(), partition_by, &[]), base: None }
    }

    async fn write(&self, rows: &[Row]) -> Vec<AddedFile> {
        let mut writer =
            TableWriter::new(&self.bed.table, self.bed.clock.fresh_uuid(), crate::data::write::Limits::default(), &[])
                .unwrap();
        writer.write(&batch(&self.bed, rows)).await.unwrap();
        let new = writer.finish().await.unwrap();
        new.into_iter().map(|new| AddedFile { file: new.file, spec_id: new.spec_id }).collect()
    }

    async fn commit(&mut self, added: Vec<AddedFile>, removed: &[&AddedFile]) {
        let removed = removed
            .iter()
            .map(|file| RemovedFile { path: file.file.file_path().to_owned(), content_offset: None })
            .collect();
        self.bed.commit(&DataChange { added, removed }).await;
    }

    /// What is there now is the base.
    fn base_here(&mut self) {
        self.base = self.bed.head;
    }

    async fn try_run(
        &self,
        scope: &str,
        checks: &str,
        change: impl FnOnce(&mut PassInput<'_>),
        hash: KeyHash,
        at_once: usize,
    ) -> Result<(Contract, PassOutput), DataError> {
        let text = format!("version = 1\nsource.ledger.uri = \"ledger.csv\"\n{checks}");
        let contract = Contract::parse(&text, "c.toml").unwrap();
        let scope = match scope {
            "" => Scope::whole_table(),
            text => Scope::parse(text, self.bed.table.metadata.current_schema()).unwrap(),
        };
        let base_entries = live_entries(&self.bed.table, self.base).await?;
        let head_entries = live_entries(&self.bed.table, self.bed.head).await?;
        let known = BTreeMap::new();
        let mut input = PassInput {
            table: &self.bed.table,
            base: self.base,
            head: self.bed.head.unwrap(),
            base_entries: &base_entries,
            head_entries: &head_entries,
            scope: &scope,
            contract: &contract,
            sources_root: self.bed.dir.path(),
            known: &known,
            memory: DEFAULT_MEMORY,
            progress: Arc::new(NoProgress),
        };
        change(&mut input);
        let output = run_with(input, hash, at_once).await?;
        Ok((contract, output))
    }

    async fn run(&self, scope: &str, checks: &str) -> Found {
        let (contract, output) =
            self.try_run(scope, checks, |_| {}, KeyHash::STRONG, keys::CONFIRMED_AT_ONCE).await.unwrap();
        Found { contract, output }
    }
}

struct Found {
    contract: Contract,
    output: PassOutput,
}

impl Found {
    fn of(&self, name: &str) -> &CheckResult {
        self.output.results.iter().find(|result| result.name == name).unwrap()
    }

    #[track_caller]
    fn expect(&self, name: &str, outcome: Outcome, words: &str) {
        let result = self.of(name);
        assert_eq!(result.outcome, outcome, "{name}: {} {:?}", result.summary, result.details);
        let said = format!("{} {:?}", result.summary, result.details);
        assert!(said.contains(words), "{name}: {said}");
    }
}

const KEYS: &str = "[[check]]\nname = \"key\"\nkind = \"keys\"\ncolumns = [\"id\"]\nwithin = \"scope\"\n\
     [[check]]\nname = \"table-key\"\nkind = \"keys\"\ncolumns = [\"id\", \"name\"]\nwithin = \"table\"\n";
const SCOPE: &str = "[[check]]\nname = \"scope\"\nkind = \"scope\"\n";
const VOLUME: &str = "[[check]]\nname = \"volume\"\nkind = \"volume\"\nmin-rows = 3\nmax-ratio = 1.5\n";
const DAY: &str = "day = DATE '1970-01-02'";

fn all() -> String {
    [KEYS, SCOPE, VOLUME].concat()
}

use Outcome::{Error, Fail, Pass};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_replacement_passes_everything() {
    for partition_by in ["", "day", "month(day)", "bucket(4, id)"] {
        let mut case = Case::new(FormatVersion::V2, partition_by);
        let old = case.write(&rows(0, 1, 5)).await;
        let other = case.write(&rows(100, 2, 7)).await;
        case.commit([old.clone(), other].concat(), &[]).await;
        case.base_here();
        let new = case.write(&rows(0, 1, 6)).await;
        let old: Vec<_> = old.iter().collect();
        case.commit(new, &old).await;
        let found = case.run(DAY, &all()).await;
        found.expect("key", Pass, "(id) is unique and not null in 6 rows");
        found.expect("table-key", Pass, "13 rows");
        found.expect("scope", Pass, "all of 11 rows touched are inside");
        found.expect("volume", Pass, "6 rows in scope, 5 in the base");
        found.expect(MANIFEST_CHECK, Pass, "");
        assert_eq!(found.output.results.len(), 5);
        assert_eq!(verdict(&found.contract, &found.output.results), EvidenceVerdict::Passed);
        // Every added file is hashed, and nothing else.
        for (path, digest) in &found.output.file_digests {
            assert_eq!(*digest, Digest::of_bytes(&std::fs::read(path).unwrap()));
        }
        let entries = live_entries(&case.bed.table, case.bed.head).await.unwrap();
        let base = live_entries(&case.bed.table, case.base).await.unwrap();
        let added = change_between(&base, &entries).added;
        assert_eq!(found.output.file_digests.len(), added.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_across_files_are_found_within_scope_and_table() {
    let mut case = Case::new(FormatVersion::V2, "day");
    let first = case.write(&[rows(0, 1, 5), rows(100, 2, 5)].concat()).await;
    case.commit(first, &[]).await;
    case.base_here();
    // 3 is in another file of the same day, 101 is of another day than the first one.
    let second = case.write(&[rows(3, 1, 1), rows(101, 1, 1), rows(50, 1, 3)].concat()).await;
    case.commit(second, &[]).await;
    let found = case.run(DAY, KEYS).await;
    found.expect("key", Fail, "2 duplicate rows in 1 key of (id)");
    assert_eq!(found.of("key").details, ["id = 3: 2 rows"]);
    assert_eq!(found.of("key").examined_rows, 10);
    found.expect("table-key", Fail, "4 duplicate rows in 2 keys of (id, name)");
    assert_eq!(found.of("table-key").details, ["id = 3, name = n: 2 rows", "id = 101, name = n: 2 rows"]);
    assert_eq!(found.of("table-key").examined_rows, 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colliding_hashes_and_little_memory_change_no_result() {
    for duplicate in [false, true] {
        let mut case = Case::new(FormatVersion::V2, "");
        let one = case.write(&rows(0, 1, 2000)).await;
        let two = case.write(&rows(if duplicate { 1990 } else { 2000 }, 1, 1000)).await;
        case.commit([one, two].concat(), &[]).await;
        for (hash, at_once, memory) in [
            (KeyHash::STRONG, 1000, DEFAULT_MEMORY),
            (KeyHash::STRONG, 1000, 20_000),
            (KeyHash::STRONG, 2, DEFAULT_MEMORY),
            (KeyHash::weak(0xff), 1000, DEFAULT_MEMORY),
            (KeyHash::weak(0xff00_0000_0000_00ff), 100, 20_000),
            (KeyHash::weak(0), 1, DEFAULT_MEMORY),
        ] {
            let (contract, output) =
                case.try_run("", KEYS, |input| input.memory = memory, hash, at_once).await.unwrap();
            let found = Found { contract, output };
            match duplicate {
                false => found.expect("key", Pass, "3000 rows"),
                true if at_once == 2 => found.expect("key", Fail, "at least 4 duplicate rows in 2 keys"),
                true => found.expect("key", Fail, "duplicate rows in"),
            }
            if duplicate && at_once >= 1000 {
                found.expect("key", Fail, "20 duplicate rows in 10 keys of (id)");
                assert_eq!(found.of("key").details.len(), 5);
                assert_eq!(found.of("key").details.first().unwrap(), "id = 1990: 2 rows");
            }
        }
        let error = case.try_run("", KEYS, |input| input.memory = 100, KeyHash::STRONG, 10).await.unwrap_err();
        assert!(error.to_string().contains("raise --memory"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_and_missing_key_columns() {
    let mut case = Case::new(FormatVersion::V2, "");
    let file = case.write(&[(1, Some(1), "", 0, 0.0), (2, None, "a", 0, 0.0), (3, Some(1), "a", 0, 0.0)]).await;
    case.commit(file, &[]).await;
    let keys = |columns: &str| {
        format!("[[check]]\nname = \"key\"\nkind = \"keys\"\ncolumns = {columns}\nwithin = \"scope\"\n")
    };
    let found = case.run("", &keys("[\"name\", \"day\"]")).await;
    found.expect("key", Fail, "2 rows with a null in (name, day)");
    assert_eq!(found.of("key").details, ["name = a, day = null", "name = null, day = 1970-01-02"]);
    // Null days are not in scope: unknown is not true.
    case.run(DAY, &keys("[\"day\", \"id\"]")).await.expect("key", Pass, "2 rows");
    let found = case.run("", &keys("[\"ident\"]")).await;
    found.expect("key", Error, "has no column ident; it has id, day, name, amount, score");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_against_literals_and_sources() {
    let mut case = Case::new(FormatVersion::V2, "day");
    let files = case.write(&[rows(0, 1, 5), rows(100, 2, 5)].concat()).await;
    case.commit(files, &[]).await;
    let totals = |measures: &str| format!("[[check]]\nname = \"totals\"\nkind = \"totals\"\nmeasures = [{measures}]\n");
    for (measures, outcome, words) in [
        (r#"{ measure = "count(*)", expect = 5 }"#, Pass, "1 total as expected over 5 rows"),
        (r#"{ measure = "count(*)", expect = 10 }"#, Fail, "count(*) = 5, expected 10, off by 5"),
        (r#"{ measure = "sum(amount)", expect = 1.00 }, { measure = "sum(id)", expect = 10 }"#, Pass, "2 totals"),
        (r#"{ measure = "sum(amount)", expect = 1.01 }"#, Fail, "sum(amount) = 1, expected 1.01, off by 0.01"),
        (r#"{ measure = "sum(amount)", expect = 1.01, abs = 0.01 }"#, Pass, ""),
        (r#"{ measure = "sum(score)", expect = 10 }, { measure = "count(name)", expect = 5 }"#, Pass, ""),
        (r#"{ measure = "sum(name)", expect = 10 }"#, Error, "have no sum"),
        (r#"{ measure = "sum(nothing)", expect = 10 }"#, Error, "no column nothing"),
        (r#"{ measure = "sum(amount)", source = "ledger" }"#, Error, "there is no file"),
    ] {
        case.run(DAY, &totals(measures)).await.expect("totals", outcome, words);
    }
    // The source covers both days; only its rows in scope are compared.
    let ledger = "amount,day,id\n0.00,1970-01-02,0\n0.10,1970-01-02,1\n0.90,1970-01-02,2\n9.00,1970-01-03,7\n";
    std::fs::write(case.bed.dir.path().join("ledger.csv"), ledger).unwrap();
    let by_source = r#"{ measure = "sum(amount)", source = "ledger" }"#;
    let found = case.run(DAY, &totals(by_source)).await;
    found.expect("totals", Pass, "");
    let version = found.output.sources.get("ledger").unwrap();
    assert_eq!(version.files, [("ledger.csv".to_owned(), Digest::of_bytes(ledger.as_bytes()))]);
    let counted = r#"{ measure = "count(*)", source = "ledger" }"#;
    case.run(DAY, &totals(counted)).await.expect("totals", Fail, "count(*) = 5, expected 3 in ledger, off by 2");
    case.run("", &totals(by_source)).await.expect("totals", Fail, "expected 10 in ledger");
    case.run("day = DATE '1999-01-01'", &totals(counted)).await.expect("totals", Error, "no row in scope");
    std::fs::write(case.bed.dir.path().join("ledger.csv"), "amount\n1.00\n").unwrap();
    case.run(DAY, &totals(by_source)).await.expect("totals", Error, "no column day, which the scope looks at");
    case.run("", &totals(by_source)).await.expect("totals", Fail, "expected 1 in ledger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_outside_the_scope_have_to_stay_what_they_were() {
    let both = [rows(0, 1, 5), rows(100, 2, 3)].concat();
    let mut changed = both.clone();
    changed[6].3 += 1;
    let without: Vec<Row> = both.iter().filter(|row| row.0 != 101).copied().collect();
    let mut unknown = both.clone();
    unknown[0].1 = None;
    let mut inside = both.clone();
    inside[0].3 += 7;
    for (new, outcome, words, examples) in [
        (inside, Pass, "16 rows touched; 3 rows outside the scope unchanged", vec![]),
        (
            changed,
            Fail,
            "1 row added outside the scope, 1 row removed outside the scope",
            vec![
                "added outside: id = 101, day = 1970-01-03, name = n, amount = 10.11, score = 101.0",
                "removed outside: id = 101, day = 1970-01-03, name = n, amount = 10.10, score = 101.0",
            ],
        ),
        (
            without,
            Fail,
            "1 row removed outside the scope",
            vec!["removed outside: id = 101, day = 1970-01-03, name = n, amount = 10.10, score = 101.0"],
        ),
        (
            [both.clone(), rows(200, 2, 2)].concat(),
            Fail,
            "2 rows added outside the scope",
            vec![
                "added outside: id = 200, day = 1970-01-03, name = n, amount = 20.00, score = 200.0",
                "added outside: id = 201, day = 1970-01-03, name = n, amount = 20.10, score = 201.0",
            ],
        ),
        (
            unknown,
            Fail,
            "1 row added outside the scope",
            vec!["added outside: id = 0, day = null, name = n, amount = 0.00, score = 0.0"],
        ),
    ] {
        let mut case = Case::new(FormatVersion::V2, "");
        let old = case.write(&both).await;
        case.commit(old.clone(), &[]).await;
        case.base_here();
        let new = case.write(&new).await;
        case.commit(new, &[&old[0]]).await;
        let found = case.run(DAY, SCOPE).await;
        found.expect("scope", outcome, words);
        assert_eq!(found.of("scope").details, examples);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_examined_is_no_pass() {
    let mut case = Case::new(FormatVersion::V2, "day");
    let file = case.write(&rows(0, 2, 5)).await;
    case.commit(file, &[]).await;
    case.base_here();
    let checks = [KEYS, SCOPE, "[[check]]\nname = \"volume\"\nkind = \"volume\"\nmin-rows = 0\n"].concat();
    let found = case.run(DAY, &checks).await;
    for name in ["key", "scope", "volume"] {
        found.expect(name, Fail, "examined no row");
    }
    found.expect("table-key", Pass, "5 rows");
    let allowed = checks.replace("kind =", "allow-empty = true\nkind =");
    let found = case.run(DAY, &allowed).await;
    assert_eq!(verdict(&found.contract, &found.output.results), EvidenceVerdict::Passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_a_base_and_a_schema_check() {
    let mut case = Case::new(FormatVersion::V1, "");
    let file = case.write(&rows(0, 1, 5)).await;
    case.commit(file, &[]).await;
    let columns = "[[check]]\nname = \"columns\"\nkind = \"schema\"\nmode = \"compatible\"\n\
                   columns = [{ name = \"id\", type = \"int\" }, { name = \"gone\" }]\n";
    let found = case.run("", &[&all(), columns].concat()).await;
    found.expect("columns", Fail, "column gone is missing");
    found.expect("key", Pass, "5 rows");
    found.expect("scope", Pass, "5 rows");
    found.expect("volume", Pass, "no ratio was compared");
}

fn field_with_id(name: &str, data_type: DataType, id: i32) -> Field {
    Field::new(name, data_type, false).with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]))
}

/// Writes a delete file.
fn deletes(case: &Case, name: &str, batch: RecordBatch, like: &AddedFile, equality: Option<Vec<i32>>) -> AddedFile {
    let path = case.bed.parquet(name, &batch);
    let mut builder = DataFileBuilder::default();
    builder
        .content(if equality.is_some() { DataContentType::EqualityDeletes } else { DataContentType::PositionDeletes })
        .file_path(path.display().to_string())
        .file_format(DataFileFormat::Parquet)
        .partition(like.file.partition().clone())
        .record_count(batch.num_rows() as u64)
        .file_size_in_bytes(std::fs::metadata(&path).unwrap().len())
        .equality_ids(equality)
        .partition_spec_id(like.spec_id);
    AddedFile { file: builder.build().unwrap(), spec_id: like.spec_id }
}

fn delete_positions(case: &Case, name: &str, of: &AddedFile, positions: Vec<i64>) -> AddedFile {
    let schema = ArrowSchema::new(vec![
        field_with_id("file_path", DataType::Utf8, 2147483546),
        field_with_id("pos", DataType::Int64, 2147483545),
    ]);
    let paths = StringArray::from(vec![of.file.file_path(); positions.len()]);
    let batch =
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(paths), Arc::new(Int64Array::from(positions))]).unwrap();
    deletes(case, name, batch, of, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn position_deletes_are_honoured_on_each_side() {
    for partition_by in ["", "day"] {
        let mut case = Case::new(FormatVersion::V2, partition_by);
        let one = case.write(&rows(0, 1, 5)).await;
        let again = case.write(&rows(4, 1, 2)).await;
        let other = case.write(&rows(50, 2, 4)).await;
        case.commit([one.clone(), again.clone(), other.clone()].concat(), &[]).await;
        case.base_here();
        case.run(DAY, KEYS).await.expect("key", Fail, "2 duplicate rows in 1 key");
        let delete = delete_positions(&case, "d1.parquet", &one[0], vec![4]);
        case.commit(vec![delete], &[]).await;
        let found = case.run(DAY, &all()).await;
        found.expect("key", Pass, "6 rows");
        found.expect("table-key", Pass, "10 rows");
        found.expect("volume", Pass, "6 rows in scope, 7 in the base");
        if partition_by == "day" {
            // The delete may reach both files of its partition; each is read as it was and as it is.
            found.expect("scope", Pass, "all of 13 rows touched are inside");
        }
        case.base_here();
        let delete = delete_positions(&case, "d2.parquet", &other[0], vec![1]);
        case.commit(vec![delete], &[]).await;
        let found = case.run(DAY, SCOPE).await;
        found.expect("scope", Fail, "1 row removed outside the scope");
        assert!(found.of("scope").details[0].starts_with("removed outside: id = 51, day = 1970-01-03"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equality_deletes_are_honoured() {
    let mut case = Case::new(FormatVersion::V2, "");
    let one = case.write(&[rows(0, 1, 5), rows(50, 2, 2)].concat()).await;
    case.commit(one.clone(), &[]).await;
    case.base_here();
    let schema = Arc::new(ArrowSchema::new(vec![field_with_id("id", DataType::Int64, 1)]));
    let delete = |case: &Case, name: &str, id: i64| {
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![id]))]).unwrap();
        deletes(case, name, batch, &one[0], Some(vec![1]))
    };
    let inside = delete(&case, "e1.parquet", 3);
    case.commit(vec![inside], &[]).await;
    let found = case.run(DAY, &all()).await;
    found.expect("volume", Pass, "4 rows in scope, 5 in the base");
    found.expect("scope", Pass, "2 rows outside the scope unchanged");
    let outside = delete(&case, "e2.parquet", 51);
    case.commit(vec![outside], &[]).await;
    case.run(DAY, SCOPE).await.expect("scope", Fail, "1 row removed outside the scope");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_vector_makes_an_error_of_what_needs_its_file_only() {
    let mut case = Case::new(FormatVersion::V3, "day");
    let one = case.write(&[rows(0, 1, 5), rows(50, 2, 4)].concat()).await;
    let more = case.write(&rows(10, 1, 5)).await;
    let beside = case.write(&rows(70, 2, 3)).await;
    case.commit([one.clone(), more, beside].concat(), &[]).await;
    case.base_here();
    let of = one.iter().find(|file| file.file.record_count() == 4).unwrap();
    let path = case.bed.file("v.puffin", b"PFA1");
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::PositionDeletes)
        .file_path(path.display().to_string())
        .file_format(DataFileFormat::Puffin)
        .partition(of.file.partition().clone())
        .record_count(1)
        .file_size_in_bytes(4)
        .referenced_data_file(Some(of.file.file_path().to_owned()))
        .content_offset(Some(0))
        .content_size_in_bytes(Some(4))
        .partition_spec_id(of.spec_id);
    case.commit(vec![AddedFile { file: builder.build().unwrap(), spec_id: of.spec_id }], &[]).await;
    let found = case.run(DAY, &all()).await;
    found.expect("key", Pass, "10 rows");
    found.expect("volume", Pass, "10 rows");
    for name in ["table-key", "scope"] {
        found.expect(name, Error, of.file.file_path());
        found.expect(name, Error, "deletion vector");
    }
    // It is listed for every file of its partition, and reaches one.
    case.run("id >= 70", KEYS).await.expect("key", Pass, "3 rows");
    let found = case.run("day = DATE '1970-01-03'", &all()).await;
    for name in ["key", "table-key", "scope", "volume"] {
        found.expect(name, Error, "v.puffin");
    }
}

/// The same file with something about it changed.
fn lie(file: &AddedFile, change: impl FnOnce(&mut DataFileBuilder)) -> AddedFile {
    let of: &DataFile = &file.file;
    let mut builder = DataFileBuilder::default();
    builder
        .content(of.content_type())
        .file_path(of.file_path().to_owned())
        .file_format(of.file_format())
        .partition(of.partition().clone())
        .record_count(of.record_count())
        .file_size_in_bytes(of.file_size_in_bytes())
        .value_counts(of.value_counts().clone())
        .null_value_counts(of.null_value_counts().clone())
        .lower_bounds(of.lower_bounds().clone())
        .upper_bounds(of.upper_bounds().clone())
        .partition_spec_id(file.spec_id);
    change(&mut builder);
    AddedFile { file: builder.build().unwrap(), spec_id: file.spec_id }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_that_lie_are_caught() {
    type Change = Box<dyn Fn(&DataFile, &mut DataFileBuilder)>;
    let cases: Vec<(&str, Change)> = vec![
        ("", Box::new(|_, _| {})),
        (
            "the manifest says 9 records, the file has 5",
            Box::new(|_, builder| {
                builder.record_count(9);
            }),
        ),
        (
            "the manifest says 7 bytes",
            Box::new(|_, builder| {
                builder.file_size_in_bytes(7);
            }),
        ),
        (
            "column id has values below",
            Box::new(|file, builder| {
                let mut bounds = file.lower_bounds().clone();
                bounds.insert(1, Datum::long(1));
                builder.lower_bounds(bounds);
            }),
        ),
        (
            "column name has values above",
            Box::new(|file, builder| {
                let mut bounds = file.upper_bounds().clone();
                bounds.insert(3, Datum::string("a"));
                builder.upper_bounds(bounds);
            }),
        ),
        (
            "column amount has values above",
            Box::new(|file, builder| {
                let mut bounds = file.upper_bounds().clone();
                bounds.insert(4, file.lower_bounds()[&4].clone());
                builder.upper_bounds(bounds);
            }),
        ),
        (
            "column score has values below",
            Box::new(|file, builder| {
                let mut bounds = file.lower_bounds().clone();
                bounds.insert(5, Datum::double(0.5));
                builder.lower_bounds(bounds);
            }),
        ),
        (
            "the manifest says 2 nulls in name, 0 were read",
            Box::new(|file, builder| {
                let mut counts = file.null_value_counts().clone();
                counts.insert(3, 2);
                builder.null_value_counts(counts);
            }),
        ),
        (
            "a value of day is not in its partition",
            Box::new(|_, builder| {
                builder.partition(Struct::from_iter([Some(iceberg::spec::Literal::date(9))]));
            }),
        ),
    ];
    let checks = [
        KEYS,
        "[[check]]\nname = \"t\"\nkind = \"totals\"\nmeasures = [{ measure = \"sum(amount)\", expect = 1 }, \
         { measure = \"sum(score)\", expect = 10 }]\n",
    ]
    .concat();
    for (words, change) in cases {
        let mut case = Case::new(FormatVersion::V2, "day");
        let file = case.write(&rows(0, 1, 5)).await.remove(0);
        let lied = lie(&file, |builder| change(&file.file, builder));
        case.commit(vec![lied], &[]).await;
        match words {
            "" => case.run(DAY, &checks).await.expect(MANIFEST_CHECK, Pass, "1 added file"),
            // A size that is wrong makes the footer unreadable where it is looked for.
            words if words.contains("bytes") => {
                let error = case.try_run(DAY, &checks, |_| {}, KeyHash::STRONG, 1).await.unwrap_err();
                assert!(error.to_string().contains(file.file.file_path()), "{error}");
            }
            words => {
                let found = case.run(DAY, &checks).await;
                found.expect(MANIFEST_CHECK, Fail, words);
                found.expect(MANIFEST_CHECK, Fail, file.file.file_path());
                let verdict = verdict(&found.contract, &found.output.results);
                assert_eq!(verdict, EvidenceVerdict::Failed { names: vec![MANIFEST_CHECK.to_owned()] }, "{words}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bounds_do_not_hide_rows_of_added_files() {
    let mut case = Case::new(FormatVersion::V2, "");
    let file = case.write(&rows(0, 2, 5)).await.remove(0);
    let lied = lie(&file, |builder| {
        let mut bounds = file.file.lower_bounds().clone();
        bounds.insert(2, Datum::date(1));
        builder.lower_bounds(bounds.clone());
        bounds.insert(2, Datum::date(1));
        builder.upper_bounds(bounds);
    });
    case.commit(vec![lied], &[]).await;
    let found = case.run(DAY, SCOPE).await;
    found.expect("scope", Fail, "5 rows added outside the scope");
    found.expect(MANIFEST_CHECK, Fail, "column day has values above");
    // Rows in scope, in a file whose bounds say that it has none.
    let file = case.write(&[rows(0, 1, 2), rows(1, 1, 1)].concat()).await.remove(0);
    let lied = lie(&file, |builder| {
        let bounds = HashMap::from([(2, Datum::date(7))]);
        builder.lower_bounds(bounds.clone()).upper_bounds(bounds);
    });
    case.commit(vec![lied], &[]).await;
    case.run(DAY, KEYS).await.expect("key", Fail, "2 duplicate rows in 1 key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_column_that_a_file_lacks_comes_from_its_manifest() {
    let mut case = Case::new(FormatVersion::V2, "day");
    let like = case.write(&rows(0, 1, 5)).await.remove(0);
    let without = batch(&case.bed, &rows(10, 1, 5)).project(&[0, 2, 3, 4]).unwrap();
    let path = case.bed.parquet("adopted.parquet", &without);
    let adopted = lie(&like, |builder| {
        builder
            .file_path(path.display().to_string())
            .file_size_in_bytes(std::fs::metadata(&path).unwrap().len())
            .value_counts([1, 3, 4, 5].map(|id| (id, 5)).into())
            .null_value_counts(HashMap::new())
            .lower_bounds(HashMap::new())
            .upper_bounds(HashMap::new());
    });
    case.commit(vec![like, adopted], &[]).await;
    let days = "[[check]]\nname = \"day\"\nkind = \"keys\"\ncolumns = [\"day\"]\nwithin = \"table\"\n";
    let found = case.run(DAY, &[&all(), days].concat()).await;
    found.expect("key", Pass, "10 rows");
    found.expect("scope", Pass, "all of 10 rows touched are inside");
    found.expect("day", Fail, "day = 1970-01-02: 10 rows");
    found.expect(MANIFEST_CHECK, Pass, "2 added files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bounds_do_not_hide_rows_of_added_files_from_totals() {
    let mut case = Case::new(FormatVersion::V2, "");
    let file = case.write(&rows(0, 1, 5)).await.remove(0);
    let lied = lie(&file, |builder| {
        let mut bounds = file.file.lower_bounds().clone();
        bounds.insert(2, Datum::date(9));
        builder.lower_bounds(bounds.clone()).upper_bounds(bounds);
    });
    case.commit(vec![lied], &[]).await;
    let count = "[[check]]\nname = \"t\"\nkind = \"totals\"\nmeasures = [{ measure = \"count(*)\", expect = 5 }]\n";
    case.run(DAY, count).await.expect("t", Pass, "over 5 rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_size_is_told_of_a_file_that_no_check_reads() {
    let mut case = Case::new(FormatVersion::V2, "");
    let file = case.write(&rows(0, 1, 5)).await.remove(0);
    let lied = lie(&file, |builder| {
        builder.file_size_in_bytes(7);
    });
    case.commit(vec![lied], &[]).await;
    let columns = "[[check]]\nname = \"s\"\nkind = \"schema\"\nmode = \"compatible\"\ncolumns = [{ name = \"id\" }]\n";
    case.run(DAY, columns).await.expect(MANIFEST_CHECK, Fail, "the manifest says 7 bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_file_is_an_error_and_known_hashes_are_taken() {
    let mut case = Case::new(FormatVersion::V2, "");
    let file = case.write(&rows(0, 1, 5)).await.remove(0);
    case.commit(vec![file.clone()], &[]).await;
    let path = file.file.file_path().to_owned();
    let known = BTreeMap::from([(path.clone(), Digest::of_bytes(b"known"))]);
    let text = format!("version = 1\n{SCOPE}");
    let contract = Contract::parse(&text, "c").unwrap();
    let entries = live_entries(&case.bed.table, case.bed.head).await.unwrap();
    let scope = Scope::whole_table();
    let input = || PassInput {
        table: &case.bed.table,
        base: None,
        head: case.bed.head.unwrap(),
        base_entries: &[],
        head_entries: &entries,
        scope: &scope,
        contract: &contract,
        sources_root: case.bed.dir.path(),
        known: &known,
        memory: DEFAULT_MEMORY,
        progress: Arc::new(NoProgress),
    };
    let output = run(input()).await.unwrap();
    assert_eq!(output.file_digests, known);
    assert_eq!(output.examined_rows, 5);
    std::fs::remove_file(&path).unwrap();
    let error = run(input()).await.unwrap_err();
    assert!(error.to_string().contains(&path), "{error}");
    assert!(matches!(error, DataError::Io { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_no_file_has_yet_reads_as_null() {
    for partition_by in ["", "day"] {
        let mut case = Case::new(FormatVersion::V2, partition_by);
        let file = case.write(&rows(0, 1, 5)).await;
        case.commit(file, &[]).await;
        case.base_here();
        let extra = Arc::new(NestedField::optional(9, "extra", Type::Primitive(PrimitiveType::Long)));
        let fields = schema().as_struct().fields().iter().cloned().chain([extra]).collect::<Vec<_>>();
        let wider = Schema::builder().with_fields(fields).with_schema_id(1).build().unwrap();
        let metadata = case.bed.table.metadata.as_ref().clone().into_builder(None).add_schema(wider).unwrap();
        let metadata = metadata.set_current_schema(-1).unwrap().build().unwrap().metadata;
        case.bed.table.metadata = Arc::new(metadata);
        let checks = "[[check]]\nname = \"key\"\nkind = \"keys\"\ncolumns = [\"extra\"]\nwithin = \"scope\"\n\
                      [[check]]\nname = \"t\"\nkind = \"totals\"\n\
                      measures = [{ measure = \"count(extra)\", expect = 0 }, { measure = \"count(*)\", expect = 5 }]\n";
        for scope in ["", DAY] {
            let found = case.run(scope, checks).await;
            found.expect("key", Fail, "5 rows with a null in (extra)");
            found.expect("t", Pass, "2 totals");
        }
        // Only the partition's column is looked at, and it is a constant of the reader's.
        let days = "[[check]]\nname = \"key\"\nkind = \"keys\"\ncolumns = [\"day\"]\nwithin = \"table\"\n";
        let found = case.run("", days).await;
        found.expect("key", Fail, "5 duplicate rows in 1 key of (day)");
        assert_eq!(found.of("key").details, ["day = 1970-01-02: 5 rows"]);
    }
}
