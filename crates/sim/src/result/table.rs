//! Tables of the results: columns, written as CSV and as Parquet.

use std::borrow::Cow;
use weft_core::Instant;

/// Values of one column, a row each.
pub(super) enum Column {
    /// Nanoseconds since the world's start; seconds in CSV.
    Time(Vec<u64>),
    Text(Vec<String>),
    /// None: there is no such figure in this row.
    Number(Vec<Option<u64>>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
}

/// The name of a column.
pub(super) type Name = Cow<'static, str>;

impl Column {
    fn rows(&self) -> usize {
        match self {
            Column::Time(values) => values.len(),
            Column::Text(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Real(values) => values.len(),
            Column::Flag(values) => values.len(),
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            Column::Time(values) => Instant::from_nanos(values[row]).seconds().to_string(),
            Column::Text(values) => values[row].clone(),
            Column::Number(values) => values[row].map_or(String::new(), |value| value.to_string()),
            Column::Real(values) => values[row].to_string(),
            Column::Flag(values) => values[row].to_string(),
        }
    }
}

/// Named columns of the same length.
pub(super) struct Table {
    pub columns: Vec<(Name, Column)>,
}

impl Table {
    /// A line of names, and a line a row.
    ///
    /// # Errors
    /// The library's own; in memory there are none.
    pub(super) fn csv(&self) -> std::io::Result<String> {
        let mut out = csv::Writer::from_writer(Vec::new());
        out.write_record(self.columns.iter().map(|(name, _)| name.as_bytes()))?;
        for row in 0..self.columns.first().map_or(0, |(_, column)| column.rows()) {
            out.write_record(self.columns.iter().map(|(_, column)| column.text(row)))?;
        }
        let bytes = out.into_inner().map_err(csv::IntoInnerError::into_error)?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    }

    /// One row group; times as 64-bit nanoseconds in a column `time_ns`, figures as 64-bit numbers that may be missing, texts as UTF-8.
    ///
    /// # Errors
    /// The library's own, which speaks of what it was given; there is no file yet.
    pub(super) fn parquet(&self) -> std::io::Result<Vec<u8>> {
        use parquet::basic::{LogicalType, Repetition, Type as Physical};
        use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::types::Type;
        use std::sync::Arc;

        // Seeds may be so large. Where no number is, readers are given what they are used to.
        let unsigned = |values: &[Option<u64>]| {
            let large = values.iter().flatten().any(|value| i64::try_from(*value).is_err());
            large.then_some(LogicalType::integer(64, false))
        };
        let field = |(name, column): &(Name, Column)| {
            let (name, physical, logical, repetition) = match column {
                Column::Time(_) => ("time_ns", Physical::INT64, None, Repetition::REQUIRED),
                Column::Text(_) => (&**name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
                Column::Number(values) => (&**name, Physical::INT64, unsigned(values), Repetition::OPTIONAL),
                Column::Real(_) => (&**name, Physical::DOUBLE, None, Repetition::REQUIRED),
                Column::Flag(_) => (&**name, Physical::BOOLEAN, None, Repetition::REQUIRED),
            };
            let built = Type::primitive_type_builder(name, physical).with_logical_type(logical).with_repetition(repetition).build();
            built.map(Arc::new)
        };
        let fields = self.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Type::group_type_builder("series").with_fields(fields).build()?);
        let mut out = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(WriterProperties::default()))?;
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            let Some(mut chunk) = group.next_column()? else { break };
            match column {
                Column::Time(values) => {
                    let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
                    chunk.typed::<Int64Type>().write_batch(&values, None, None)?;
                }
                Column::Text(values) => {
                    let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(value.as_str())).collect();
                    chunk.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
                Column::Number(values) => {
                    let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                    let values: Vec<i64> = values.iter().flatten().map(|value| *value as i64).collect();
                    chunk.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
                }
                Column::Real(values) => {
                    chunk.typed::<DoubleType>().write_batch(values, None, None)?;
                }
                Column::Flag(values) => {
                    chunk.typed::<BoolType>().write_batch(values, None, None)?;
                }
            }
            chunk.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: vec![
                ("time_s".into(), Column::Time(vec![0, 1_500_000_001])),
                ("node".into(), Column::Text(vec!["a".into(), "b, c".into()])),
                ("cwnd_segments".into(), Column::Number(vec![Some(10), None])),
                ("loss".into(), Column::Real(vec![0.01, 1.0])),
                ("passed".into(), Column::Flag(vec![true, false])),
            ],
        }
    }

    #[test]
    fn csv_has_a_line_a_row_and_nothing_where_there_is_no_figure() {
        let text = "time_s,node,cwnd_segments,loss,passed\n0.000000000,a,10,0.01,true\n1.500000001,\"b, c\",,1,false\n";
        assert_eq!(table().csv().unwrap(), text);
        assert_eq!(Table { columns: vec![("node".into(), Column::Text(Vec::new()))] }.csv().unwrap(), "node\n");
    }

    #[test]
    fn parquet_reads_back_as_it_was_and_is_the_same_every_time() {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::Field;

        let bytes = table().parquet().unwrap();
        assert_eq!(bytes, table().parquet().unwrap());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<Vec<(String, Field)>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        let row = |time, node, cwnd, loss, passed| {
            let fields = [Field::Long(time), text(node), cwnd, Field::Double(loss), Field::Bool(passed)];
            ["time_ns", "node", "cwnd_segments", "loss", "passed"].map(str::to_owned).into_iter().zip(fields).collect::<Vec<_>>()
        };
        assert_eq!(rows, [row(0, "a", Field::Long(10), 0.01, true), row(1_500_000_001, "b, c", Field::Null, 1.0, false)]);
    }
}
