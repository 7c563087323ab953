//! Tests of the scope as a whole: its text, its canonical form, its rows and its files.

mod files;
mod generate;
mod rows;
mod text;

use std::sync::{Arc, LazyLock};

use iceberg::spec::{ListType, MapType, NestedField, PrimitiveType, Schema, StructType, Type};

use super::Scope;

/// A table with a column of every type, a struct, a list and a map.
pub(super) fn schema() -> Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(build);
    SCHEMA.clone()
}

fn build() -> Schema {
    let primitive = Type::Primitive;
    let optional = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, kind));
    let plane = StructType::new(vec![
        optional(31, "tail", primitive(PrimitiveType::String)),
        optional(
            32,
            "engine",
            Type::Struct(StructType::new(vec![optional(33, "count", primitive(PrimitiveType::Int))])),
        ),
    ]);
    Schema::builder()
        .with_fields(vec![
            Arc::new(NestedField::required(1, "id", primitive(PrimitiveType::Long))),
            optional(2, "delay", primitive(PrimitiveType::Int)),
            optional(3, "flight_date", primitive(PrimitiveType::Date)),
            optional(4, "carrier", primitive(PrimitiveType::String)),
            optional(5, "fare", primitive(PrimitiveType::Decimal { precision: 9, scale: 2 })),
            optional(6, "cancelled", primitive(PrimitiveType::Boolean)),
            optional(7, "speed", primitive(PrimitiveType::Float)),
            optional(8, "distance", primitive(PrimitiveType::Double)),
            optional(9, "at", primitive(PrimitiveType::Time)),
            optional(10, "local", primitive(PrimitiveType::Timestamp)),
            optional(11, "utc", primitive(PrimitiveType::Timestamptz)),
            optional(12, "local_ns", primitive(PrimitiveType::TimestampNs)),
            optional(13, "utc_ns", primitive(PrimitiveType::TimestamptzNs)),
            optional(14, "key", primitive(PrimitiveType::Uuid)),
            optional(15, "code", primitive(PrimitiveType::Fixed(3))),
            optional(16, "raw", primitive(PrimitiveType::Binary)),
            optional(17, "Odd name", primitive(PrimitiveType::Int)),
            optional(30, "plane", Type::Struct(plane)),
            optional(
                40,
                "stops",
                Type::List(ListType { element_field: optional(41, "element", primitive(PrimitiveType::String)) }),
            ),
            optional(
                50,
                "extra",
                Type::Map(MapType {
                    key_field: Arc::new(NestedField::required(51, "key", primitive(PrimitiveType::String))),
                    value_field: optional(52, "value", primitive(PrimitiveType::String)),
                }),
            ),
        ])
        .build()
        .unwrap()
}

pub(super) fn scope(text: &str) -> Scope {
    Scope::parse(text, &schema()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(super) fn canonical(text: &str) -> String {
    scope(text).canonical()
}
