//! A value with its place in the file: TOML's, with a schema, which is that of the value.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;

/// A value and where it stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(transparent)]
pub struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// A value that stands there.
    pub fn new(place: Range<usize>, value: T) -> Spanned<T> {
        Spanned(toml::Spanned::new(place, value))
    }
    /// Where it stands, in bytes from the beginning of the file.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }
    /// The value.
    pub fn get_ref(&self) -> &T {
        self.0.get_ref()
    }
    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
    /// The value alone.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
