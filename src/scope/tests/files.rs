//! Files that cannot hold a row of the scope, against the rows that they do hold.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FieldSummary, Literal, PartitionSpec,
    PrimitiveLiteral, PrimitiveType, Struct, Transform, Type, UnboundPartitionField,
};
use iceberg::transform::create_transform_function;
use proptest::prelude::*;

use super::super::Scope;
use super::super::predicate::datum;
use super::generate::{COLUMNS, Row, Val, cell, filter_of, value};
use super::{schema, scope};

fn primitive(kind: &PrimitiveType, value: &Val) -> PrimitiveLiteral {
    match (kind, value) {
        (PrimitiveType::Int | PrimitiveType::Date, Val::Whole(v)) => PrimitiveLiteral::Int(*v as i32),
        (PrimitiveType::Decimal { .. }, Val::Whole(v)) => PrimitiveLiteral::Int128(*v),
        (PrimitiveType::Uuid, Val::Whole(v)) => PrimitiveLiteral::UInt128(*v as u128),
        (_, Val::Whole(v)) => PrimitiveLiteral::Long(*v as i64),
        (PrimitiveType::Float, Val::Float(v)) => PrimitiveLiteral::Float((*v as f32).into()),
        (_, Val::Float(v)) => PrimitiveLiteral::Double((*v).into()),
        (_, Val::Text(v)) => PrimitiveLiteral::String(v.clone()),
        (_, Val::Bytes(v)) => PrimitiveLiteral::Binary(v.clone()),
        (_, Val::Bool(v)) => PrimitiveLiteral::Boolean(*v),
    }
}

/// Iceberg's own transform of a value: what a writer puts into the partition tuple.
fn transformed(kind: &PrimitiveType, transform: Transform, value: Option<&Val>) -> Option<Literal> {
    let datum = datum(kind, &primitive(kind, value?), "").unwrap();
    let function = create_transform_function(&transform).unwrap();
    function.transform_literal(&datum).unwrap().map(|datum| Literal::Primitive(datum.literal().clone()))
}

fn transforms(kind: &PrimitiveType) -> Vec<Transform> {
    let candidates = [
        Transform::Identity,
        Transform::Void,
        Transform::Bucket(4),
        Transform::Truncate(2),
        Transform::Truncate(100),
        Transform::Year,
        Transform::Month,
        Transform::Day,
        Transform::Hour,
    ];
    let works = |transform: &Transform| {
        let sample = match kind {
            PrimitiveType::String => Val::Text("a".to_owned()),
            PrimitiveType::Fixed(_) => Val::Bytes(vec![0; 3]),
            PrimitiveType::Binary => Val::Bytes(vec![0]),
            PrimitiveType::Boolean => Val::Bool(true),
            PrimitiveType::Float | PrimitiveType::Double => Val::Float(0.0),
            _ => Val::Whole(0),
        };
        let datum = datum(kind, &primitive(kind, &sample), "").unwrap();
        let defined = transform.result_type(&Type::Primitive(kind.clone())).is_ok();
        defined && create_transform_function(transform).is_ok_and(|function| function.transform_literal(&datum).is_ok())
    };
    candidates.into_iter().filter(works).collect()
}

fn spec(column: usize, transform: Transform) -> PartitionSpec {
    let field = UnboundPartitionField {
        source_id: COLUMNS[column].1,
        field_id: Some(1000),
        name: "part".to_owned(),
        transform,
    };
    PartitionSpec::builder(Arc::new(schema())).add_unbound_field(field).unwrap().build().unwrap()
}

fn file(tuple: Vec<Option<Literal>>, rows: u64) -> DataFileBuilder {
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path("data/a.parquet".to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(tuple.into_iter().collect::<Struct>())
        .record_count(rows)
        .file_size_in_bytes(1)
        .partition_spec_id(0);
    builder
}

/// What writers keep of a column: nothing, or counts and bounds, the bounds of text cut to some length.
#[derive(Debug, Clone)]
struct Kept {
    counts: bool,
    nans: bool,
    bounds: bool,
    cut: usize,
}

fn described(mut builder: DataFileBuilder, column: usize, cells: &[Option<Val>], kept: &Kept) -> DataFile {
    let (_, id, kind) = &COLUMNS[column];
    let nan = |value: &PrimitiveLiteral| value.is_nan();
    let values: Vec<_> = cells.iter().flatten().map(|value| primitive(kind, value)).collect();
    if kept.counts {
        let nulls = cells.len() - values.len();
        builder.null_value_counts(HashMap::from([(*id, nulls as u64)]));
        builder.value_counts(HashMap::from([(*id, cells.len() as u64)]));
    }
    if kept.nans {
        let nans = values.iter().filter(|value| nan(value)).count();
        builder.nan_value_counts(HashMap::from([(*id, nans as u64)]));
    }
    let mut numbers: Vec<_> = values.into_iter().filter(|value| !nan(value)).collect();
    numbers.sort_by(|a, b| a.partial_cmp(b).unwrap());
    if let (true, Some(low), Some(high)) = (kept.bounds, numbers.first(), numbers.last()) {
        let bound = |value: &PrimitiveLiteral| datum(kind, value, "").unwrap();
        builder.lower_bounds(HashMap::from([(*id, bound(&cut_down(low, kept.cut)))]));
        if let Some(high) = cut_up(high, kept.cut) {
            builder.upper_bounds(HashMap::from([(*id, bound(&high))]));
        }
    }
    builder.build().unwrap()
}

fn cut_down(value: &PrimitiveLiteral, length: usize) -> PrimitiveLiteral {
    match value {
        PrimitiveLiteral::String(text) => PrimitiveLiteral::String(text.chars().take(length).collect()),
        PrimitiveLiteral::Binary(bytes) => PrimitiveLiteral::Binary(bytes.iter().copied().take(length).collect()),
        other => other.clone(),
    }
}

/// The shortest text above all with this prefix; `None` if there is none.
fn cut_up(value: &PrimitiveLiteral, length: usize) -> Option<PrimitiveLiteral> {
    match value {
        PrimitiveLiteral::String(text) if text.chars().count() > length => {
            let mut cut: Vec<char> = text.chars().take(length).collect();
            let last = cut.pop()?;
            cut.push(char::from_u32(u32::from(last) + 1)?);
            Some(PrimitiveLiteral::String(cut.into_iter().collect()))
        }
        PrimitiveLiteral::Binary(bytes) if bytes.len() > length => {
            let mut cut = bytes[..length].to_vec();
            let last = cut.pop()?;
            cut.push(last.checked_add(1)?);
            Some(PrimitiveLiteral::Binary(cut))
        }
        other => Some(other.clone()),
    }
}

fn kept() -> impl Strategy<Value = Kept> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1usize..4).prop_map(|(counts, nans, bounds, cut)| Kept {
        counts,
        nans,
        bounds,
        cut,
    })
}

/// What a manifest list says of a manifest with files of one partition.
fn summary(kind: &PrimitiveType, transform: Transform, value: Option<&Literal>) -> FieldSummary {
    let Type::Primitive(result) = transform.result_type(&Type::Primitive(kind.clone())).unwrap() else {
        panic!("a partition value is primitive")
    };
    let primitive = value.map(|value| value.as_primitive_literal().unwrap());
    let nan = primitive.as_ref().is_some_and(PrimitiveLiteral::is_nan);
    let bound = primitive.filter(|_| !nan).map(|value| datum(&result, &value, "").unwrap().to_bytes().unwrap());
    FieldSummary {
        contains_null: value.is_none(),
        contains_nan: Some(nan),
        lower_bound: bound.clone(),
        upper_bound: bound,
    }
}

fn rows_of(column: usize, cells: &[Option<Val>]) -> Vec<Row> {
    let name = COLUMNS[column].0;
    cells.iter().map(|cell| cell.iter().map(|value| (name, value.clone())).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// The rule that everything rests on: a file with a row inside is never left out.
    #[test]
    fn no_file_with_a_matching_row_is_left_out(
        (column, filter, cells) in (0..COLUMNS.len()).prop_flat_map(|column| {
            let cells = prop::collection::vec(cell(&COLUMNS[column].2), 1..6);
            (Just(column), filter_of(column), cells)
        }),
        pick in any::<prop::sample::Index>(),
        kept in kept(),
    ) {
        let kind = &COLUMNS[column].2;
        let transforms = transforms(kind);
        let transform = transforms[pick.index(transforms.len())];
        let of = |cell: &Option<Val>| transformed(kind, transform, cell.as_ref());
        // A file holds the rows of one partition; for void and NaN, equality of the tuple is as writers see it.
        let first = of(&cells[0]);
        let cells: Vec<_> = cells.iter().filter(|cell| of(cell) == first).cloned().collect();
        let scope = scope(&filter.sql());
        let rows = rows_of(column, &cells);
        let inside = rows.iter().any(|row| filter.eval(row) == Some(true));
        let spec = spec(column, transform);
        let summaries = [summary(kind, transform, first.as_ref())];
        let partition = Struct::from_iter([first.clone()]);
        let bare = file(vec![first.clone()], cells.len() as u64).build().unwrap();
        let partitioned = file(vec![first], cells.len() as u64);
        let file = described(partitioned, column, &cells, &kept);
        let may = scope.may_match(&file, &spec, &schema());
        prop_assert!(may || !inside, "{} left out {:?} in {:?}", filter.sql(), cells, file);
        // Nor is one whose rows are not all inside taken for one that is wholly so,
        let every = rows.iter().all(|row| filter.eval(row) == Some(true));
        let must = scope.must_match(&file, &spec, &schema());
        prop_assert!(every || !must, "{} was said to hold for all of {:?} in {:?}", filter.sql(), cells, file);
        // nor a manifest left out that lists a file which is not.
        let listed = scope.may_match_manifest(&summaries, &spec, &schema());
        let by_partition = scope.may_match(&bare, &spec, &schema());
        prop_assert!(listed || !by_partition, "{} left out a manifest of {:?}", filter.sql(), partition);
        prop_assert!(Scope::may_hold_partition(&partition, &summaries, &spec, &schema()));
    }

    /// Pruning is worth something: of an equality on a value that is far from the file's only one, nothing remains.
    #[test]
    fn exact_bounds_and_identity_decide_equality(
        (column, held, asked) in (0..COLUMNS.len())
            .prop_flat_map(|column| (Just(column), value(&COLUMNS[column].2), value(&COLUMNS[column].2))),
    ) {
        let filter = super::generate::Filter::Compare {
            column, op: super::generate::Op::Eq, value: asked, flipped: false,
        };
        let cells = [Some(held)];
        let expected = filter.eval(&rows_of(column, &cells)[0]) == Some(true);
        let scope = scope(&filter.sql());
        let tuple = vec![transformed(&COLUMNS[column].2, Transform::Identity, cells[0].as_ref())];
        let bare = file(tuple, 1).build().unwrap();
        prop_assert_eq!(scope.may_match(&bare, &spec(column, Transform::Identity), &schema()), expected);
        let kept = Kept { counts: true, nans: true, bounds: true, cut: 9 };
        let bounded = described(file(vec![], 1), column, &cells, &kept);
        let unpartitioned = PartitionSpec::unpartition_spec();
        let uuid = COLUMNS[column].2 == PrimitiveType::Uuid;
        prop_assert_eq!(scope.may_match(&bounded, &unpartitioned, &schema()), expected || uuid);
    }
}

fn column(name: &str) -> usize {
    COLUMNS.iter().position(|(column, _, _)| *column == name).unwrap()
}

/// Whether a file in the partition of `value` may match.
fn in_partition(text: &str, name: &str, transform: Transform, value: Option<PrimitiveLiteral>) -> bool {
    let file = file(vec![value.map(Literal::Primitive)], 10).build().unwrap();
    scope(text).may_match(&file, &spec(column(name), transform), &schema())
}

#[test]
fn partitions_are_pruned() {
    let day = |text: &str, day: i32| in_partition(text, "local", Transform::Day, Some(PrimitiveLiteral::Int(day)));
    let midnight = "local >= '2013-08-09' AND local < '2013-08-10'";
    assert_eq!([15_925, 15_926, 15_927].map(|d| day(midnight, d)), [false, true, false]);
    let after = "local > '2013-08-09 23:59:59.999999'";
    assert_eq!([15_926, 15_927].map(|d| day(after, d)), [false, true]);
    assert!(day("local > '2013-08-09 23:59:59.999998'", 15_926));
    assert!(!day("local = '2013-08-10'", 15_926) && day("local IN ('2000-01-01', '2013-08-09 10:00')", 15_926));
    assert!(!day("local IS NULL", 15_926) && day("local IS NOT NULL", 15_926));

    let month = |text: &str, m| in_partition(text, "flight_date", Transform::Month, Some(PrimitiveLiteral::Int(m)));
    assert_eq!(
        [522, 523, 524].map(|m| month("flight_date BETWEEN '2013-08-01' AND '2013-08-31'", m)),
        [false, true, false]
    );
    let year = |text: &str, y| in_partition(text, "utc", Transform::Year, Some(PrimitiveLiteral::Int(y)));
    assert_eq!([42, 43, 44].map(|y| year("utc = '2014-01-01 01:00:00+02:00'", y)), [false, true, false]);
    let hour = |text: &str, h| in_partition(text, "local_ns", Transform::Hour, Some(PrimitiveLiteral::Int(h)));
    assert_eq!([0, 1, 2].map(|h| hour("local_ns < '1970-01-01 02:00:00'", h)), [true, true, false]);

    let truncated = |text: &str, v| in_partition(text, "id", Transform::Truncate(10), Some(PrimitiveLiteral::Long(v)));
    assert_eq!([-10, 0, 10].map(|v| truncated("id = -1", v)), [true, false, false]);
    assert_eq!([0, 10, 20].map(|v| truncated("id > 19", v)), [false, false, true]);
    assert_eq!([0, 10, 20].map(|v| truncated("id < 10", v)), [true, false, false]);
    assert!(truncated(&format!("id = {}", i64::MAX), i64::MAX - 7));
    let text = |filter: &str, v: &str| {
        in_partition(filter, "carrier", Transform::Truncate(2), Some(PrimitiveLiteral::String(v.to_owned())))
    };
    assert_eq!(["Un", "U", "AA"].map(|v| text("carrier LIKE 'Uni%'", v)), [true, false, false]);
    assert_eq!(["Un", "U", "AA"].map(|v| text("carrier NOT LIKE 'U%'", v)), [false, false, true]);
    assert_eq!(["Un", "U", "AA"].map(|v| text("carrier = 'U'", v)), [false, true, false]);
    assert_eq!(["Un", "U", "AA"].map(|v| text("carrier > 'Unz'", v)), [true, false, false]);

    let buckets: Vec<_> = (0..16)
        .filter(|bucket| in_partition("id = 34", "id", Transform::Bucket(16), Some(PrimitiveLiteral::Int(*bucket))))
        .collect();
    // Iceberg spec, appendix B: the hash of 34 is 2017239379.
    assert_eq!(buckets, [2_017_239_379 % 16]);
    assert!(in_partition("id > 34", "id", Transform::Bucket(16), Some(PrimitiveLiteral::Int(0))));

    for transform in [Transform::Identity, Transform::Bucket(4), Transform::Truncate(4)] {
        assert!(!in_partition("delay = 1", "delay", transform, None));
        assert!(!in_partition("delay != 1", "delay", transform, None));
        assert!(in_partition("delay IS NULL", "delay", transform, None));
        assert!(!in_partition("delay IS NULL", "delay", transform, Some(PrimitiveLiteral::Int(1))));
    }
    assert!(in_partition("delay = 1", "delay", Transform::Void, None));
    assert!(in_partition("id = 1", "delay", Transform::Identity, Some(PrimitiveLiteral::Int(7))));
}

#[test]
fn periods_before_1970_may_be_rounded_up_by_old_writers() {
    let day = |day| {
        let text = "local = '1969-12-31 12:00:00'";
        in_partition(text, "local", Transform::Day, Some(PrimitiveLiteral::Int(day)))
    };
    assert_eq!([-2, -1, 0, 1].map(day), [false, true, true, false]);
}

fn bounded(kind: DataContentType, ids: Option<Vec<i32>>) -> DataFile {
    let mut builder = file(vec![], 10);
    builder
        .content(kind)
        .equality_ids(ids)
        .lower_bounds(HashMap::from([(1, Datum::long(5)), (4, Datum::string("AA")), (7, Datum::float(1.0))]))
        .upper_bounds(HashMap::from([(1, Datum::long(9)), (4, Datum::string("AB")), (7, Datum::float(2.0))]))
        .null_value_counts(HashMap::from([(1, 0), (2, 10), (4, 3)]))
        .value_counts(HashMap::from([(1, 10), (2, 10), (4, 10)]));
    builder.build().unwrap()
}

fn may(text: &str, file: &DataFile) -> bool {
    scope(text).may_match(file, &PartitionSpec::unpartition_spec(), &schema())
}

#[test]
fn bounds_and_counts_prune() {
    let data = bounded(DataContentType::Data, None);
    for text in [
        "id < 5",
        "id > 9",
        "id = 4",
        "id IN (1, 10)",
        "id IS NULL",
        "carrier LIKE 'B%'",
        "carrier NOT LIKE 'A%'",
        "delay = 1",
        "delay IS NOT NULL",
        "delay NOT IN (1, 2)",
        "id = 6 AND delay = 1",
        "id = 4 OR delay = 1",
        "speed < 1",
        "speed = 3",
        "false",
    ] {
        assert!(!may(text, &data), "{text}");
    }
    for text in [
        "id <= 5",
        "id >= 9",
        "id != 5",
        "id NOT IN (5, 9)",
        "carrier IS NULL",
        "carrier LIKE 'AAB%'",
        "carrier LIKE 'A%'",
        "delay IS NULL",
        "fare = 1",
        "id = 4 OR id = 6",
        "true",
    ] {
        assert!(may(text, &data), "{text}");
    }
    // NaN is above every number, and this file does not say that it has none.
    assert!(may("speed > 3", &data));
}

#[test]
fn a_file_of_one_number_may_hold_nan_beside_it() {
    let one = |nans: &[(i32, u64)]| {
        let mut builder = file(vec![], 10);
        builder
            .lower_bounds(HashMap::from([(8, Datum::double(5.0))]))
            .upper_bounds(HashMap::from([(8, Datum::double(5.0))]))
            .nan_value_counts(nans.iter().copied().collect());
        builder.build().unwrap()
    };
    for text in ["distance != 5", "distance NOT IN (4, 5)", "distance > 5"] {
        assert!(may(text, &one(&[])) && may(text, &one(&[(8, 1)])) && !may(text, &one(&[(8, 0)])), "{text}");
    }
}

#[test]
fn a_nan_bound_says_nothing() {
    let mut builder = file(vec![], 10);
    builder
        .lower_bounds(HashMap::from([(8, Datum::double(5.0))]))
        .upper_bounds(HashMap::from([(8, Datum::double(f64::NAN))]));
    assert!(may("distance = 1", &builder.build().unwrap()));
}

#[test]
fn an_older_files_narrower_values_are_compared_as_numbers() {
    let mut builder = file(vec![], 10);
    builder.lower_bounds(HashMap::from([(1, Datum::int(5))])).upper_bounds(HashMap::from([(1, Datum::int(9))]));
    let narrow = builder.build().unwrap();
    assert!(may("id = 7", &narrow) && !may("id = 3", &narrow) && !may("id = 5000000000", &narrow));
    let partition = Some(PrimitiveLiteral::Int(7));
    assert!(in_partition("id = 7", "id", Transform::Identity, partition.clone()));
    assert!(!in_partition("id = 8", "id", Transform::Identity, partition));
}

#[test]
fn bounds_of_delete_files_bind_only_the_columns_they_delete_by() {
    let by_id = bounded(DataContentType::EqualityDeletes, Some(vec![1]));
    assert!(!may("id = 4", &by_id) && may("carrier = 'UA'", &by_id));
    let positions = bounded(DataContentType::PositionDeletes, None);
    assert!(may("id = 4", &positions) && may("carrier = 'UA'", &positions));
}

#[test]
fn what_does_not_fit_the_spec_is_kept() {
    let odd = file(vec![None, None], 1).build().unwrap();
    assert!(scope("delay = 1").may_match(&odd, &spec(column("delay"), Transform::Identity), &schema()));
    let wrong_type = Some(PrimitiveLiteral::String("a".to_owned()));
    assert!(in_partition("delay = 1", "delay", Transform::Identity, wrong_type.clone()));
    assert!(in_partition("local = '2013-08-09'", "local", Transform::Day, wrong_type));
    for transform in [Transform::Bucket(0), Transform::Bucket(u32::MAX), Transform::Truncate(0)] {
        assert!(in_partition("delay = 1", "delay", transform, Some(PrimitiveLiteral::Int(1))), "{transform}");
    }
    assert!(Scope::whole_table().may_match(&odd, &PartitionSpec::unpartition_spec(), &schema()));
}

#[test]
fn predicates_for_planning_are_inclusive() {
    let planned = |text: &str| scope(text).to_predicate(&schema()).unwrap().to_string();
    assert_eq!(planned("true"), "TRUE");
    assert_eq!(planned("false"), "FALSE");
    assert_eq!(planned("id = 1 AND plane.tail LIKE 'N%'"), "(id = 1) AND (plane.tail STARTS WITH \"N\")");
    assert_eq!(planned("speed > 1"), "(speed > 1) OR (speed IS NAN)");
    assert_eq!(planned("distance <= 1"), "distance <= 1");
    assert_eq!(planned("distance = -0.0"), planned("distance = 0"));
    assert_eq!(planned("distance = 0"), "(distance >= -0) AND (distance <= 0)");
    // Every type becomes a predicate that binds to its own column.
    for text in [
        "fare = -1.5",
        "at = '10:00'",
        "local_ns = '2013-08-09 00:00:00'",
        "utc_ns > '2013-08-09 00:00:00Z'",
        "key IN ('f79c3e09-677c-4bbd-a479-3f349cb785e7', 'f79c3e09-677c-4bbd-a479-3f349cb785e8')",
        "code != X'000000'",
        "raw >= X''",
        "cancelled = true",
        "flight_date NOT IN ('2013-08-09', '2013-08-10')",
    ] {
        use iceberg::expr::Bind as _;
        let predicate = scope(text).to_predicate(&schema()).unwrap();
        predicate.bind(Arc::new(schema()), true).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}
