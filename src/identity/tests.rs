//! The golden values were worked out apart from this code, from the field lists in its documentation.

use std::collections::HashMap;

use iceberg::spec::{
    DataFileBuilder, ListType, NestedField, PartitionSpec, PrimitiveType, Struct, StructType, Transform, Type,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// The fields of an entry, each of which a test can change.
#[derive(Debug, Clone)]
struct Plain {
    content: DataContentType,
    path: String,
    format: DataFileFormat,
    records: u64,
    size: u64,
    spec_id: i32,
    partition: Vec<Option<Literal>>,
    sort_order: Option<i32>,
    equality_ids: Option<Vec<i32>>,
    referenced: Option<String>,
    offset: Option<i64>,
    length: Option<i64>,
    counts: [HashMap<i32, u64>; 4],
    lower: HashMap<i32, Datum>,
    upper: HashMap<i32, Datum>,
    sequence: i64,
    // In no digest.
    file_sequence: Option<i64>,
    snapshot: Option<SnapshotId>,
    row_id: Option<i64>,
    splits: Option<Vec<i64>>,
}

impl Plain {
    fn new(content: DataContentType, path: &str, format: DataFileFormat, records: u64, size: u64) -> Self {
        Self {
            content,
            path: path.to_owned(),
            format,
            records,
            size,
            spec_id: 0,
            partition: vec![],
            sort_order: None,
            equality_ids: None,
            referenced: None,
            offset: None,
            length: None,
            counts: Default::default(),
            lower: HashMap::new(),
            upper: HashMap::new(),
            sequence: 0,
            file_sequence: Some(1),
            snapshot: Some(SnapshotId(1)),
            row_id: None,
            splits: None,
        }
    }

    fn entry(&self) -> LiveEntry {
        let [sizes, values, nulls, nans] = self.counts.clone();
        let mut builder = DataFileBuilder::default();
        builder
            .content(self.content)
            .file_path(self.path.clone())
            .file_format(self.format)
            .record_count(self.records)
            .file_size_in_bytes(self.size)
            .partition(Struct::from_iter(self.partition.iter().cloned()))
            .column_sizes(sizes)
            .value_counts(values)
            .null_value_counts(nulls)
            .nan_value_counts(nans)
            .lower_bounds(self.lower.clone())
            .upper_bounds(self.upper.clone())
            .equality_ids(self.equality_ids.clone())
            .split_offsets(self.splits.clone())
            .first_row_id(self.row_id)
            .referenced_data_file(self.referenced.clone())
            .content_offset(self.offset)
            .content_size_in_bytes(self.length);
        if let Some(order) = self.sort_order {
            builder.sort_order_id(order);
        }
        LiveEntry {
            file: builder.build().unwrap(),
            spec_id: self.spec_id,
            sequence_number: self.sequence,
            file_sequence_number: self.file_sequence,
            snapshot_id: self.snapshot,
            first_row_id: self.row_id,
        }
    }
}

fn decimal(bytes: &[u8]) -> Datum {
    Datum::try_from_bytes(bytes, PrimitiveType::Decimal { precision: 9, scale: 2 }).unwrap()
}

const DATA: &str = "s3://b/t/data/é.parquet";

fn partition() -> Vec<Option<Literal>> {
    vec![Some(Literal::date(15926)), None, Some(Literal::string("x"))]
}

fn data() -> Plain {
    Plain {
        spec_id: 1,
        partition: partition(),
        sort_order: Some(0),
        counts: [
            HashMap::from([(2, 50), (1, 100)]),
            HashMap::from([(1, 3)]),
            HashMap::from([(1, 1)]),
            HashMap::from([(2, 0)]),
        ],
        lower: HashMap::from([(1, Datum::long(-5)), (3, decimal(&[0xcf, 0xc7]))]),
        upper: HashMap::from([(1, Datum::long(9)), (3, decimal(&[0x00, 0xc8]))]),
        sequence: 7,
        ..Plain::new(DataContentType::Data, DATA, DataFileFormat::Parquet, 3, 1024)
    }
}

fn vector() -> Plain {
    Plain {
        spec_id: 1,
        partition: partition(),
        referenced: Some(DATA.to_owned()),
        offset: Some(4),
        length: Some(44),
        sequence: 8,
        ..Plain::new(DataContentType::PositionDeletes, "s3://b/t/data/dv.puffin", DataFileFormat::Puffin, 2, 500)
    }
}

fn equality() -> Plain {
    let path = "s3://b/t/data/eq.parquet";
    let start = Plain::new(DataContentType::EqualityDeletes, path, DataFileFormat::Parquet, 1, 10);
    Plain { equality_ids: Some(vec![7, 3]), sequence: 9, ..start }
}

fn table() -> TableUuid {
    TableUuid(Uuid::from_u128(0x9c12_d441_0301_4989_8fb6_d5a5_d0f3_a111))
}

const SCOPE: &str = "(= #1 date 15926)";

fn schema() -> Schema {
    Schema::builder()
        .with_schema_id(4)
        .with_identifier_field_ids([1])
        .with_fields([
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "tags", tags(PrimitiveType::String, None)).into(),
        ])
        .build()
        .unwrap()
}

fn tags(element: PrimitiveType, doc: Option<&str>) -> Type {
    let element = NestedField::list_element(3, Type::Primitive(element), false);
    Type::List(ListType::new(match doc {
        Some(doc) => element.with_doc(doc).into(),
        None => element.into(),
    }))
}

fn spec(transform: Transform, id: i32) -> PartitionSpec {
    let builder = PartitionSpec::builder(schema()).with_spec_id(id);
    builder.add_partition_field("id", "id_bucket", transform).unwrap().build().unwrap()
}

fn change(added: &[LiveEntry], removed: &[LiveEntry]) -> Digest {
    let bytes = Digest::of_bytes(b"");
    change_digest(table(), SCOPE, &added.iter().map(|entry| (entry, bytes)).collect::<Vec<_>>(), removed)
}

fn candidate() -> Candidate {
    let entries = [data().entry(), vector().entry(), equality().entry()];
    Candidate {
        table: table(),
        base: base_digest(table(), Some(SnapshotId(41)), &tree_digest(&entries)),
        change: change(&[data().entry(), vector().entry()], &[equality().entry()]),
        schema: schema_digest(&schema()).unwrap(),
        spec: spec_digest(&spec(Transform::Bucket(16), 3)).unwrap(),
        scope: SCOPE.to_owned(),
        reads: None,
        sources: BTreeMap::from([("b".to_owned(), "s3://x@2".to_owned()), ("a".to_owned(), "1".to_owned())]),
        code: Some("abc".to_owned()),
        contract: Digest::of_bytes(b""),
    }
}

#[test]
fn golden() {
    let entries = [data().entry(), vector().entry(), equality().entry()];
    let candidate = candidate();
    let found = [
        ("data", file_digest(&entries[0])),
        ("vector", file_digest(&entries[1])),
        ("equality", file_digest(&entries[2])),
        ("tree", tree_digest(&entries)),
        ("no tree", tree_digest(&[])),
        ("scope tree", scope_tree_digest(&entries)),
        ("change", candidate.change),
        ("schema", candidate.schema),
        ("spec", candidate.spec),
        ("base", candidate.base),
        ("candidate", candidate_digest(&candidate)),
    ];
    let expected = [
        ("data", "f9145db938635f81f5f16d008ed8bfa52e2faffdca0647b6950ddbb05c209b80"),
        ("vector", "2b5eb11c44a57ee78813734d3d2dfd7047fbfab1a65694de7675c951859ffad8"),
        ("equality", "5ac3ab88fc9d4f881c2c02b2885e04e56270c349cd29b4633489cd5437a2affd"),
        ("tree", "b3ca5b0a721d2b9d1a273614f7c799f51c0a22d141fbf4f8d6216e9af94a711e"),
        ("no tree", "07f83da40d250b66d2c5e0f114b2e0fde8733009e4b7c672d78961920534e4f1"),
        ("scope tree", "3c2da253eeb691091905601a7c752f92662d4280b97abb4af730c7873dd366ff"),
        ("change", "560f4b27052f41c177e85fe6497beab8bc07f69c13934922f7e228db2c0a53d5"),
        ("schema", "dbc7b62eec8de426d7b3d38e0c7e26ccbd3a4dbf1be17459d3224b6b5be18d8a"),
        ("spec", "f9099029ef2a4e5a8bbced8e2d8df24cf1a0fa26080528cb328f423882841227"),
        ("base", "8f562772243665ccf4786213093087643426ecdbb92cfe32aa71176c6239825d"),
        ("candidate", "dd6187856a3f831601776562fc759da6de32e6d213b11db545eb538302b2b037"),
    ];
    assert_eq!(found.map(|(name, digest)| (name, digest.hex())), expected.map(|(name, hex)| (name, hex.to_owned())));
}

/// A name for messages, and an edit.
type Edit<T> = (&'static str, fn(&mut T));

/// Every way in which what a manifest says of a file can differ.
const FILE_CHANGES: [Edit<Plain>; 22] = [
    ("content", |p| {
        p.content = match p.content {
            DataContentType::Data => DataContentType::PositionDeletes,
            DataContentType::PositionDeletes => DataContentType::EqualityDeletes,
            DataContentType::EqualityDeletes => DataContentType::Data,
        }
    }),
    ("path", |p| p.path.push('x')),
    ("format", |p| {
        p.format = match p.format {
            DataFileFormat::Parquet => DataFileFormat::Orc,
            _ => DataFileFormat::Parquet,
        }
    }),
    ("records", |p| p.records ^= 1),
    ("size", |p| p.size ^= 1 << 63),
    ("spec", |p| p.spec_id ^= 1),
    ("partition longer", |p| p.partition.push(None)),
    ("partition value", |p| p.partition.insert(0, Some(Literal::int(1)))),
    ("sort order", |p| p.sort_order = p.sort_order.map_or(Some(0), |_| None)),
    ("equality ids", |p| p.equality_ids = p.equality_ids.take().map_or(Some(vec![]), |_| None)),
    ("equality ids longer", |p| p.equality_ids.get_or_insert_default().push(1)),
    ("referenced", |p| p.referenced = p.referenced.take().map_or(Some(String::new()), |_| None)),
    ("offset", |p| p.offset = p.offset.map_or(Some(0), |_| None)),
    ("length", |p| p.length = p.length.map_or(Some(0), |_| None)),
    ("sizes", |p| p.counts[0].extend([(-1, 0)])),
    ("values", |p| p.counts[1].extend([(-1, 0)])),
    ("nulls", |p| p.counts[2].extend([(-1, 0)])),
    ("nans", |p| p.counts[3].extend([(-1, 0)])),
    ("a count", |p| *p.counts[1].entry(-1).or_default() += 1),
    ("lower", |p| p.lower.extend([(-1, Datum::string(""))])),
    ("upper", |p| p.upper.extend([(-1, Datum::bool(false))])),
    ("counts moved", |p| {
        p.counts[0].insert(-2, 5);
        p.counts.rotate_left(1);
        p.counts[0].insert(-3, 6);
    }),
];

const UNSEEN_CHANGES: [Edit<Plain>; 4] = [
    ("file sequence number", |p| p.file_sequence = p.file_sequence.map_or(Some(0), |_| None)),
    ("snapshot", |p| p.snapshot = p.snapshot.map_or(Some(SnapshotId(0)), |_| None)),
    ("first row id", |p| p.row_id = p.row_id.map_or(Some(0), |_| None)),
    ("split offsets", |p| p.splits = p.splits.take().map_or(Some(vec![4]), |_| None)),
];

prop_compose! {
    fn plain()(
        which in 0..3usize,
        path in "[a-c/é]{1,3}",
        (records, size, spec_id) in (any::<u64>(), any::<u64>(), 0..3i32),
        partition in prop::collection::vec(prop::option::of((0..3i32).prop_map(Literal::int)), 0..3),
        (sort_order, referenced) in (prop::option::of(0..3i32), prop::option::of("[a-c]{0,2}")),
        offset in prop::option::of(0..3i64),
        counts in prop::collection::hash_map(0..4i32, any::<u64>(), 0..4),
        lower in prop::collection::hash_map(0..4i32, any::<i64>().prop_map(Datum::long), 0..4),
        sequence in 0..3i64,
    ) -> Plain {
        let content =
            [DataContentType::Data, DataContentType::PositionDeletes, DataContentType::EqualityDeletes][which];
        Plain {
            spec_id, partition, sort_order, referenced, offset, lower, sequence,
            equality_ids: (which == 2).then(|| vec![1, 2]),
            counts: [counts, HashMap::new(), HashMap::new(), HashMap::new()],
            ..Plain::new(content, &path, DataFileFormat::Parquet, records, size)
        }
    }
}

fn entries(plain: &[Plain]) -> Vec<LiveEntry> {
    plain.iter().map(Plain::entry).collect()
}

proptest! {
    #[test]
    fn order_never_matters(
        (before, after) in prop::collection::vec(plain(), 0..6)
            .prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle()))
    ) {
        let (before, after) = (entries(&before), entries(&after));
        prop_assert_eq!(tree_digest(&before), tree_digest(&after));
        prop_assert_eq!(scope_tree_digest(&before), scope_tree_digest(&after));
        prop_assert_eq!(change(&before, &after), change(&after, &before));
        prop_assert!(change_between(&before, &after).is_empty());
        prop_assert_ne!(tree_digest(&before), scope_tree_digest(&before));
    }

    #[test]
    fn every_field_matters(list in prop::collection::vec(plain(), 1..4), at in any::<prop::sample::Index>()) {
        let before = entries(&list);
        for (name, edit) in FILE_CHANGES {
            let mut edited = list.clone();
            edit(at.get_mut(&mut edited));
            let after = entries(&edited);
            prop_assert_ne!(tree_digest(&before), tree_digest(&after), "{}", name);
            prop_assert_ne!(change(&before, &[]), change(&after, &[]), "{}", name);
        }
        for (name, edit) in UNSEEN_CHANGES {
            let mut edited = list.clone();
            edit(at.get_mut(&mut edited));
            let after = entries(&edited);
            prop_assert_eq!(tree_digest(&before), tree_digest(&after), "{}", name);
            prop_assert_eq!(change(&before, &before), change(&after, &after), "{}", name);
            prop_assert!(change_between(&before, &after).is_empty(), "{}", name);
        }
        let mut later = list.clone();
        at.get_mut(&mut later).sequence += 1;
        let later = entries(&later);
        // A rebase gives added files a new sequence number; what a tree shows, and what is removed, has another one.
        prop_assert_eq!(change(&before, &[]), change(&later, &[]));
        prop_assert_ne!(change(&[], &before), change(&[], &later));
        prop_assert_ne!(tree_digest(&before), tree_digest(&later));
    }

    #[test]
    fn a_change_leads_from_base_to_head(
        base in prop::collection::vec(plain(), 0..6),
        head in prop::collection::vec(plain(), 0..6),
        kept in prop::collection::vec(plain(), 0..3),
    ) {
        let (base, head) = ([base, kept.clone()].concat(), [head, kept].concat());
        let (base, head) = (entries(&base), entries(&head));
        let Change { added, removed } = change_between(&base, &head);
        let keys = |entries: &[LiveEntry], more: &[LiveEntry]| {
            let mut keys: Vec<_> = entries.iter().chain(more).map(LiveEntry::key).collect();
            keys.sort();
            keys
        };
        prop_assert_eq!(keys(&base, &added), keys(&head, &removed));
        prop_assert!(added.iter().all(|entry| removed.iter().all(|gone| gone.key() != entry.key())));
    }

    #[test]
    fn decimals_are_shortest(value in any::<i128>(), shift in 0..127u32) {
        let value = value >> shift;
        let bytes = shortest(value);
        let sign = if value < 0 { 0xff } else { 0 };
        let mut whole = [sign; 16];
        whole[16 - bytes.len()..].copy_from_slice(&bytes);
        prop_assert_eq!(i128::from_be_bytes(whole), value);
        if let Ok(small) = i64::try_from(value) {
            let size = (1..=8).find(|n| *n == 8 || (small >> (8 * n - 1) == 0 || small >> (8 * n - 1) == -1)).unwrap();
            prop_assert_eq!(bytes.len(), size);
        }
    }
}

#[test]
fn changes() {
    let (a, b) = (data(), equality());
    let moved = Plain { sequence: a.sequence + 1, ..a.clone() };
    let other_blob = Plain { offset: Some(48), ..vector() };
    let other_target = Plain { referenced: Some("x".to_owned()), ..vector() };
    let found = |base: &[&Plain], head: &[&Plain]| {
        let of = |list: &[&Plain]| list.iter().map(|plain| plain.entry()).collect::<Vec<_>>();
        let Change { added, removed } = change_between(&of(base), &of(head));
        (added.len(), removed.len())
    };
    assert_eq!(found(&[], &[]), (0, 0));
    assert_eq!(found(&[&a], &[&a, &b]), (1, 0));
    assert_eq!(found(&[&a, &b], &[&b]), (0, 1));
    assert_eq!(found(&[&a], &[&moved]), (1, 1));
    assert_eq!(found(&[&vector()], &[&other_blob]), (1, 1));
    assert_eq!(found(&[&vector()], &[&other_target]), (1, 1));
    // Listed twice is live twice.
    assert_eq!(found(&[&a], &[&a, &a]), (1, 0));
    assert_eq!(found(&[&a, &a], &[&a]), (0, 1));
}

#[test]
fn the_bytes_and_the_scope_are_part_of_a_change() {
    let entry = data().entry();
    let of = |table, scope, bytes: &[u8]| change_digest(table, scope, &[(&entry, Digest::of_bytes(bytes))], &[]);
    let first = of(table(), SCOPE, b"a");
    assert_ne!(first, of(table(), SCOPE, b"b"));
    assert_ne!(first, of(table(), "true", b"a"));
    assert_ne!(first, of(TableUuid(Uuid::nil()), SCOPE, b"a"));
    assert_ne!(change(std::slice::from_ref(&entry), &[]), change(&[], std::slice::from_ref(&entry)));
}

#[test]
fn schemas() {
    let golden = schema_digest(&schema()).unwrap();
    let field = |field: NestedField| Schema::builder().with_fields([field.into()]).build().unwrap();
    let fields = |id: i32, identifiers: &[i32], fields: Vec<NestedField>| {
        let builder = Schema::builder().with_schema_id(id).with_identifier_field_ids(identifiers.iter().copied());
        schema_digest(&builder.with_fields(fields.into_iter().map(Into::into)).build().unwrap()).unwrap()
    };
    let id = || NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let tagged = |type_| NestedField::optional(2, "tags", type_);
    // The number of a schema and comments, however deep, are not what it means.
    let commented = tags(PrimitiveType::String, Some("what a tag is"));
    assert_eq!(fields(9, &[1], vec![id().with_doc("the key"), tagged(commented)]), golden);
    let plain = || tags(PrimitiveType::String, None);
    for (why, other) in [
        ("order", fields(4, &[1], vec![tagged(plain()), id()])),
        ("identifier", fields(4, &[], vec![id(), tagged(plain())])),
        ("element", fields(4, &[1], vec![id(), tagged(tags(PrimitiveType::Binary, None))])),
        ("required", fields(4, &[1], vec![id(), NestedField::required(2, "tags", plain())])),
        ("name", fields(4, &[1], vec![id(), NestedField::optional(2, "Tags", plain())])),
        ("field id", fields(4, &[1], vec![id(), NestedField::optional(7, "tags", plain())])),
    ] {
        assert_ne!(other, golden, "{why}");
    }
    // A column called doc is a column.
    let doc = |name: &str| {
        let inner = NestedField::optional(2, name, Type::Primitive(PrimitiveType::Int));
        field(NestedField::optional(1, "s", Type::Struct(StructType::new(vec![inner.into()]))))
    };
    assert_ne!(schema_digest(&doc("doc")).unwrap(), schema_digest(&doc("fields")).unwrap());
    // Defaults that one double stands for.
    let default = |value: i64| {
        let long = NestedField::required(1, "n", Type::Primitive(PrimitiveType::Long));
        schema_digest(&field(long.with_initial_default(Literal::long(value)))).unwrap()
    };
    assert_ne!(default(1 << 60), default((1 << 60) + 1));
    assert_ne!(default(i64::MIN), default(i64::MIN + 1));
    // Identifier fields are a set.
    let two = |ids: [i32; 2]| {
        let other = NestedField::required(5, "k", Type::Primitive(PrimitiveType::Long));
        fields(0, &ids, vec![id(), other])
    };
    for _ in 0..20 {
        assert_eq!(two([1, 5]), two([5, 1]));
    }
}

#[test]
fn columns() {
    let digest = |schema: &Schema, names: &[&str]| {
        fields_digest(schema, &names.iter().map(|name| (*name).to_owned()).collect()).unwrap()
    };
    let id = |id, type_| {
        Schema::builder().with_fields([NestedField::required(id, "id", Type::Primitive(type_)).into()]).build().unwrap()
    };
    let first = digest(&schema(), &["id"]);
    // What else the schema has does not matter; another id or type under the name does, and so does its absence.
    assert_eq!(digest(&id(1, PrimitiveType::Long), &["id"]), first);
    assert_ne!(digest(&id(2, PrimitiveType::Long), &["id"]), first);
    assert_ne!(digest(&id(1, PrimitiveType::Int), &["id"]), first);
    assert_ne!(digest(&schema(), &["id", "tags"]), first);
    assert_ne!(digest(&schema(), &["x"]), digest(&schema(), &["y"]));
    assert_ne!(digest(&schema(), &["x"]), digest(&schema(), &[]));
    assert_ne!(code_digest("a"), source_digest("a", ""));
    assert_ne!(source_digest("ab", "c"), source_digest("a", "bc"));
}

#[test]
fn specs() {
    let digest = |transform, id| spec_digest(&spec(transform, id)).unwrap();
    assert_eq!(digest(Transform::Bucket(16), 3), digest(Transform::Bucket(16), 9));
    assert_ne!(digest(Transform::Bucket(16), 3), digest(Transform::Bucket(17), 3));
    assert_ne!(digest(Transform::Bucket(16), 3), spec_digest(&PartitionSpec::unpartition_spec()).unwrap());
}

#[test]
fn every_part_of_a_candidate_matters() {
    const OTHER: Digest = Digest([7; 32]);
    let edits: [Edit<Candidate>; 14] = [
        ("table", |c| c.table = TableUuid(Uuid::nil())),
        ("base", |c| c.base = OTHER),
        ("change", |c| c.change = OTHER),
        ("schema", |c| c.schema = OTHER),
        ("spec", |c| c.spec = OTHER),
        ("swapped", |c| std::mem::swap(&mut c.schema, &mut c.spec)),
        ("scope", |c| c.scope.push(' ')),
        ("reads", |c| c.reads = Some(String::new())),
        ("source", |c| drop(c.sources.insert("c".to_owned(), String::new()))),
        ("source version", |c| drop(c.sources.insert("a".to_owned(), "2".to_owned()))),
        ("no sources", |c| c.sources.clear()),
        ("code", |c| c.code = Some(String::new())),
        ("no code", |c| c.code = None),
        ("contract", |c| c.contract = OTHER),
    ];
    let mut seen = std::collections::BTreeSet::from([candidate_digest(&candidate())]);
    for (name, edit) in edits {
        let mut edited = candidate();
        edit(&mut edited);
        assert!(seen.insert(candidate_digest(&edited)), "{name}");
    }
    let base = |snapshot, tree| base_digest(table(), snapshot, tree);
    assert!(seen.insert(base(None, &OTHER)) && seen.insert(base(Some(SnapshotId(0)), &OTHER)));
}
