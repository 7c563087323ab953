//! [`Scope`]: the bound filter as the rest of calve holds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use iceberg::spec::{DataFile, FieldSummary, PartitionSpec, Schema, Struct, Type};

use super::error::ScopeError;
use super::literal::type_name;
use super::matcher::Matcher;
use super::node::{Check, Node, Test, promote, promotes};
use super::{bind, canonical, predicate, prune, prune_manifest, shown, syntax};

/// A row filter bound to field ids. Cheap to clone. Equal scopes have equal canonical forms, and the other way round.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    node: Arc<Node>,
}

impl Scope {
    /// The filter that every row passes, written `true`.
    pub fn whole_table() -> Self {
        Self { node: Arc::new(Node::True) }
    }

    /// Reads a filter as a person writes it and binds it to the schema's field ids and types. The grammar is in the
    /// module's docs. Errors name the place in the text, and are of the class of wrong input.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ScopeError> {
        let node = bind::bind(syntax::parse(text)?, schema, false)?;
        Ok(Self { node: Arc::new(node) })
    }

    /// Reads [`Scope::canonical`] back under a schema that may have evolved since: renamed columns are found by their
    /// ids, and literals follow a column whose type was widened (the canonical form then names the new type). A
    /// dropped column is an error, as is any text that differs from a canonical form by a byte.
    pub fn from_canonical(text: &str, schema: &Schema) -> Result<Self, ScopeError> {
        let node = rebind(canonical::parse(text)?, schema)?;
        Ok(Self { node: Arc::new(node) })
    }

    /// The one text of this filter: what is stored, hashed and compared. The grammar is in the module's docs.
    pub fn canonical(&self) -> String {
        canonical::render(&self.node)
    }

    /// The filter as a person would write it, by the names that columns have in the schema. For messages: to be stored,
    /// hashed or compared there is [`Scope::canonical`].
    pub fn shown(&self, schema: &Schema) -> String {
        shown::shown(&self.node, schema).unwrap_or_else(|| self.canonical())
    }

    /// The beginning of [`Scope::shown`], for messages that one sentence should not fill.
    pub fn brief(&self, schema: &Schema) -> String {
        let text = self.shown(schema);
        match text.char_indices().nth(200) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    /// Whether every row of any table passes.
    pub fn is_whole_table(&self) -> bool {
        *self.node == Node::True
    }

    /// The filter that a row passes if it passes either: what a publication owns together with what it read.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let node = Node::or(vec![self.node.as_ref().clone(), other.node.as_ref().clone()]);
        Self { node: Arc::new(node) }
    }

    /// The ids of the columns that are tested.
    pub fn field_ids(&self) -> BTreeSet<i32> {
        let mut ids = BTreeSet::new();
        self.node.for_each_test(&mut |test| {
            ids.insert(test.field_id);
        });
        ids
    }

    /// The names that the tested columns have in this schema, dotted where nested, in the order of their ids: what a
    /// scan has to read for [`Scope::matcher`]. Columns that the schema no longer has are left out.
    pub fn columns(&self, schema: &Schema) -> Vec<String> {
        self.field_ids().into_iter().filter_map(|id| schema.name_by_field_id(id).map(str::to_owned)).collect()
    }

    /// The filter for Iceberg's planner, by the names of this schema. It is inclusive: what it leaves out holds no
    /// row of the scope, and rows that it lets through still have to be matched.
    pub fn to_predicate(&self, schema: &Schema) -> Result<iceberg::expr::Predicate, ScopeError> {
        predicate::predicate(&self.node, schema)
    }

    /// The evaluator for batches of rows read under this schema.
    pub fn matcher(&self, schema: &Schema) -> Result<Matcher, ScopeError> {
        Matcher::new(Arc::clone(&self.node), schema)
    }

    /// Which rows of a batch are inside; [`Matcher::evaluate`] for a single batch.
    pub fn evaluate(&self, schema: &Schema, batch: &RecordBatch) -> Result<BooleanArray, ScopeError> {
        self.matcher(schema)?.evaluate(batch)
    }

    /// Whether a row of the file may be inside, by the file's partition tuple under `spec` (the file's own spec) and
    /// by its bounds and counts. Never false when a row is. For a delete file: whether it may delete such a row.
    ///
    /// Bounds are believed. Where they can be wrong, only reading the file decides.
    pub fn may_match(&self, file: &DataFile, spec: &PartitionSpec, schema: &Schema) -> bool {
        prune::may_match(&self.node, file, spec, schema)
    }

    /// Whether every row of the file is inside, by the same facts. Never true when one is not.
    pub fn must_match(&self, file: &DataFile, spec: &PartitionSpec, schema: &Schema) -> bool {
        prune::must_match(&self.node, file, spec, schema)
    }

    /// Whether a manifest may list a file that [`Scope::may_match`], by what the manifest list says of its partitions.
    /// `summaries` are those of the manifest's own `spec`; missing ones say nothing. Source: Iceberg spec, "Manifest
    /// Lists", `field_summary`.
    pub fn may_match_manifest(&self, summaries: &[FieldSummary], spec: &PartitionSpec, schema: &Schema) -> bool {
        prune_manifest::may_match(&self.node, summaries, spec, schema)
    }

    /// Whether a manifest may list a file of exactly this partition, by the same facts.
    pub fn may_hold_partition(
        partition: &Struct,
        summaries: &[FieldSummary],
        spec: &PartitionSpec,
        schema: &Schema,
    ) -> bool {
        prune_manifest::may_hold(partition, summaries, spec, schema)
    }
}

/// Checks every test against the schema, and widens literals with their column.
fn rebind(node: Node, schema: &Schema) -> Result<Node, ScopeError> {
    let each = |operands: Vec<Node>| {
        operands.into_iter().map(|operand| rebind(operand, schema)).collect::<Result<Vec<_>, ScopeError>>()
    };
    match node {
        Node::True | Node::False => Ok(node),
        Node::And(operands) => each(operands).map(Node::and),
        Node::Or(operands) => each(operands).map(Node::or),
        Node::Test(test) => rebind_test(test, schema),
    }
}

fn rebind_test(test: Test, schema: &Schema) -> Result<Node, ScopeError> {
    let Test { field_id, kind, check } = test;
    let field = schema.field_by_id(field_id).ok_or(ScopeError::ColumnDropped { field_id })?;
    let changed = || ScopeError::TypeChanged {
        field_id,
        column: schema.name_by_field_id(field_id).unwrap_or(&field.name).to_owned(),
        bound: type_name(&kind),
        now: field.field_type.to_string(),
    };
    let now = match field.field_type.as_ref() {
        Type::Primitive(now) if promotes(&kind, now) && bind::path(schema, field_id).is_some() => now.clone(),
        _ => return Err(changed()),
    };
    let widen = |value| promote(&value, &now).ok_or_else(changed);
    let check = match check {
        Check::Compare(comparison, value) => Check::Compare(comparison, widen(value)?),
        Check::In(values) => Check::In(values.into_iter().map(widen).collect::<Result<_, _>>()?),
        Check::NotIn(values) => Check::NotIn(values.into_iter().map(widen).collect::<Result<_, _>>()?),
        Check::IsNull | Check::NotNull | Check::StartsWith(_) | Check::NotStartsWith(_) => check,
    };
    Ok(Node::Test(Test { field_id, kind: now, check }))
}
