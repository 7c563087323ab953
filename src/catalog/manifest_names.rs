//! Partition fields whose names are no Avro names, in manifests.
//!
//! A manifest is an Avro file, and its schema names the fields of a partition. Avro takes only `[A-Za-z_][A-Za-z0-9_]*`,
//! so that writers put another name there; readers go by the field's id. How a name is changed is left to them: Java and
//! PyIceberg keep every letter of any script, the Avro library below takes ASCII alone. And that library goes by names:
//! it matches those of the file with those of the partition spec that the manifest's header repeats. Where both differ
//! it finds nothing, and takes the partition's values for null.
//!
//! So calve writes one valid name in both places ([`avro_spec`]), and puts one in both where it reads
//! (`with_avro_names`). Source: Iceberg spec, "Manifests" and "Appendix A: Format-specific Requirements", "Avro".

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use iceberg::spec::{PartitionSpec, SchemaRef};
use serde_json::Value;

const MAGIC: &[u8] = b"Obj\x01";

/// Is it a name in Avro?
fn is_avro_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `order-day` as `order_x2Dday`, `1st` as `_1st`: what other writers make of them, but for letters beyond ASCII.
fn sanitised(name: &str) -> String {
    let mut changed = String::with_capacity(name.len());
    for (at, unit) in name.encode_utf16().enumerate() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphabetic() || byte == b'_' => changed.push(char::from(byte)),
            Ok(byte) if byte.is_ascii_digit() => {
                if at == 0 {
                    changed.push('_');
                }
                changed.push(char::from(byte));
            }
            _ => changed.push_str(&format!("_x{unit:X}")),
        }
    }
    if changed.is_empty() { "_".to_owned() } else { changed }
}

/// A valid name for each field, by its id and name; no two alike, and none that is a column's unless the field has it.
fn avro_names(fields: &[(i32, &str)], is_column: impl Fn(&str) -> bool) -> Vec<String> {
    let mut taken: HashSet<String> =
        fields.iter().filter(|(_, name)| is_avro_name(name)).map(|(_, name)| (*name).to_owned()).collect();
    let mut names = Vec::with_capacity(fields.len());
    for (id, name) in fields {
        if is_avro_name(name) {
            names.push((*name).to_owned());
            continue;
        }
        let mut changed = sanitised(name);
        while taken.contains(&changed) || is_column(&changed) {
            changed.push_str(&format!("_{id}").replace('-', "_"));
        }
        let _new = taken.insert(changed.clone());
        names.push(changed);
    }
    names
}

/// The spec as a manifest under `schema` is written with: its names valid in Avro, all else as it is.
///
/// # Errors
/// The spec is none of this schema.
pub fn avro_spec(spec: PartitionSpec, schema: &SchemaRef) -> iceberg::Result<PartitionSpec> {
    if spec.fields().iter().all(|field| is_avro_name(&field.name)) {
        return Ok(spec);
    }
    let fields: Vec<_> = spec.fields().iter().map(|field| (field.field_id, field.name.as_str())).collect();
    let names = avro_names(&fields, |name| schema.field_by_name(name).is_some());
    let renamed = spec.fields().iter().zip(names).map(|(field, name)| {
        let mut field = field.clone().into_unbound();
        field.name = name;
        field
    });
    PartitionSpec::builder(schema.clone()).with_spec_id(spec.spec_id()).add_unbound_fields(renamed)?.build()
}

/// A file of the table as it is to be read: a manifest with names that are valid, and the same in its schema and its
/// partition spec. Any other file, and what cannot be understood, is returned as it is.
pub(crate) fn with_avro_names(path: &str, bytes: Bytes) -> Bytes {
    match path.ends_with(".avro") {
        true => renamed(&bytes).unwrap_or(bytes),
        false => bytes,
    }
}

/// `None` where nothing is to be changed.
fn renamed(bytes: &Bytes) -> Option<Bytes> {
    let (mut header, rest) = header(bytes)?;
    let mut get = |key: &str| -> Option<Value> {
        let (_, value) = header.iter_mut().find(|(name, _)| name == key.as_bytes())?;
        serde_json::from_slice(value).ok()
    };
    let (mut spec, mut avro) = (get("partition-spec")?, get("avro.schema")?);
    let table: Value = get("schema")?;
    let columns: HashSet<&str> =
        table.get("fields")?.as_array()?.iter().filter_map(|field| field.get("name")?.as_str()).collect();

    let mut fields = Vec::new();
    for (at, field) in spec.as_array()?.iter().enumerate() {
        // Manifests of version 1 may leave the ids out, which are then counted from 1000.
        let id = field.get("field-id").and_then(Value::as_i64).or(i64::try_from(at).ok()?.checked_add(1000))?;
        fields.push((i32::try_from(id).ok()?, field.get("name")?.as_str()?.to_owned()));
    }
    let known: Vec<_> = fields.iter().map(|(id, name)| (*id, name.as_str())).collect();
    let names = avro_names(&known, |name| columns.contains(name));
    let by_id: HashMap<i64, &String> = fields.iter().map(|(id, _)| i64::from(*id)).zip(&names).collect();

    let mut changed = rename(spec.as_array_mut()?, names.iter().map(Some));
    let entry = field_type(&mut avro, "data_file")?;
    let partition = field_type(entry, "partition")?.get_mut("fields")?.as_array_mut()?;
    let ids: Vec<_> = partition.iter().map(|field| field.get("field-id").and_then(Value::as_i64)).collect();
    changed |= rename(partition, ids.iter().map(|id| by_id.get(id.as_ref()?).copied()));
    if !changed {
        return None;
    }
    for (key, value) in [("partition-spec", &spec), ("avro.schema", &avro)] {
        let (_, held) = header.iter_mut().find(|(name, _)| name == key.as_bytes())?;
        *held = serde_json::to_vec(value).ok()?;
    }
    Some(written(&header, rest))
}

/// Gives each field its name, where there is one; says whether any had another.
fn rename<'a>(fields: &mut [Value], names: impl Iterator<Item = Option<&'a String>>) -> bool {
    let mut changed = false;
    for (field, name) in fields.iter_mut().zip(names) {
        if let (Some(held), Some(name)) = (field.get_mut("name"), name)
            && held.as_str() != Some(name)
        {
            *held = Value::String(name.clone());
            changed = true;
        }
    }
    changed
}

/// The type of a field of an Avro record.
fn field_type<'a>(record: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let fields = record.get_mut("fields")?.as_array_mut()?;
    fields.iter_mut().find(|field| field.get("name").and_then(Value::as_str) == Some(name))?.get_mut("type")
}

type Header = Vec<(Vec<u8>, Vec<u8>)>;

/// The header of an Avro file, and what follows it: the sync marker and the blocks.
fn header(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut header = Vec::new();
    loop {
        let mut count = long(&mut rest)?;
        if count == 0 {
            return Some((header, rest));
        }
        if count < 0 {
            // Then the size of the block in bytes comes first.
            let _size = long(&mut rest)?;
            count = count.checked_neg()?;
        }
        for _ in 0..count {
            header.push((text(&mut rest)?, text(&mut rest)?));
        }
    }
}

fn written(header: &Header, rest: &[u8]) -> Bytes {
    let mut bytes = MAGIC.to_vec();
    put_long(&mut bytes, header.len());
    for (key, value) in header {
        for part in [key, value] {
            put_long(&mut bytes, part.len());
            bytes.extend_from_slice(part);
        }
    }
    put_long(&mut bytes, 0);
    bytes.extend_from_slice(rest);
    bytes.into()
}

/// A zigzag number of at most ten bytes.
fn long(rest: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

fn put_long(bytes: &mut Vec<u8>, length: usize) {
    let mut value = (length as u64) << 1;
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn text(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(long(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_as_other_writers_change_them() {
        for (name, changed) in [
            ("order-day", "order_x2Dday"),
            ("1st", "_1st"),
            ("a.b", "a_x2Eb"),
            ("-", "_x2D"),
            ("städt", "st_xE4dt"),
            ("😎", "_xD83D_xDE0E"),
        ] {
            assert!(!is_avro_name(name), "{name}");
            assert_eq!(sanitised(name), changed);
            assert!(is_avro_name(changed), "{changed}");
        }
        assert!(!is_avro_name(""));
        assert!(is_avro_name(&sanitised("")));
        assert!(is_avro_name("order_day_1"));
    }

    #[test]
    fn no_two_names_are_alike() {
        let fields = [(1000, "a-b"), (1001, "a_x2Db"), (1002, "1st"), (1003, "plain")];
        assert_eq!(avro_names(&fields, |name| name == "_1st"), ["a_x2Db_1000", "a_x2Db", "_1st_1002", "plain"]);
    }

    fn manifest(avro_name: &str, spec_name: &str) -> Bytes {
        let avro = format!(
            r#"{{"type":"record","name":"manifest_entry","fields":[{{"name":"data_file","type":{{"type":"record","name":"r2",
            "fields":[{{"name":"partition","type":{{"type":"record","name":"r102","fields":[
            {{"name":"{avro_name}","type":["null","int"],"default":null,"field-id":1000}}]}}}}]}}}}]}}"#
        );
        let spec = format!(r#"[{{"name":"{spec_name}","transform":"day","source-id":1,"field-id":1000}}]"#);
        let table = r#"{"type":"struct","fields":[{"id":1,"name":"day","required":false,"type":"date"}]}"#;
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let header = vec![pair("avro.schema", &avro), pair("schema", table), pair("partition-spec", &spec)];
        written(&header, b"0123456789abcdef and the blocks")
    }

    #[test]
    fn a_manifest_is_read_with_one_valid_name_in_both_places() {
        for avro in ["order_x2Dday", "order-day"] {
            let read = with_avro_names("m0.avro", manifest(avro, "order-day"));
            assert_eq!(header(&read).unwrap().1, b"0123456789abcdef and the blocks");
            let text = String::from_utf8_lossy(&read).into_owned();
            assert_eq!(text.matches("order_x2Dday").count(), 2, "{text}");
            assert!(!text.contains("order-day"), "{text}");
        }
        // Java and PyIceberg leave letters of other scripts as they are.
        let read = with_avro_names("m0.avro", manifest("städt", "städt"));
        assert_eq!(String::from_utf8_lossy(&read).matches("st_xE4dt").count(), 2);
    }

    #[test]
    fn other_files_are_read_as_they_are() {
        let valid = manifest("order_day", "order_day");
        assert_eq!(with_avro_names("m0.avro", valid.clone()), valid);
        let parquet = manifest("a-b", "a-b");
        assert_eq!(with_avro_names("f.parquet", parquet.clone()), parquet);
        let whole = manifest("a-b", "a-b");
        let end = header(&whole).map(|(_, rest)| whole.len() - rest.len()).unwrap();
        for length in 0..end {
            let cut = whole.slice(..length);
            assert_eq!(with_avro_names("m0.avro", cut.clone()), cut, "{length}");
        }
    }
}
