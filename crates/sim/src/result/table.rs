//! Tables of the results: columns, written as CSV and, with the feature `parquet`, as Parquet.

use std::fmt::Write as _;
use weft_core::Instant;

/// Values of one column, a row each.
pub(super) enum Column {
    /// Nanoseconds since the world's start; seconds in CSV.
    Time(Vec<u64>),
    Text(Vec<String>),
    /// None: there is no such figure in this row.
    Number(Vec<Option<u64>>),
}

/// Named columns of the same length.
pub(super) struct Table {
    pub columns: Vec<(&'static str, Column)>,
}

impl Table {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| match column {
            Column::Time(values) => values.len(),
            Column::Text(values) => values.len(),
            Column::Number(values) => values.len(),
        })
    }

    /// A line of names, and a line a row. Names of nodes, wires and addresses hold neither commas nor quotes.
    pub(super) fn csv(&self) -> String {
        let mut out = self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in 0..self.rows() {
            for (number, (_, column)) in self.columns.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                let _ = match column {
                    Column::Time(values) => write!(out, "{}", Instant::from_nanos(values[row]).seconds()),
                    Column::Text(values) => write!(out, "{}", values[row]),
                    Column::Number(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
                };
            }
            out.push('\n');
        }
        out
    }

    /// One row group; times as 64-bit nanoseconds in a column `time_ns`, figures as 64-bit numbers that may be missing, texts as UTF-8.
    ///
    /// # Errors
    /// The library's own, which speaks of what it was given; there is no file yet.
    #[cfg(feature = "parquet")]
    pub(super) fn parquet(&self) -> std::io::Result<Vec<u8>> {
        use parquet::basic::{LogicalType, Repetition, Type as Physical};
        use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::types::Type;
        use std::sync::Arc;

        let field = |(name, column): &(&'static str, Column)| {
            let (name, physical, logical, repetition) = match column {
                Column::Time(_) => ("time_ns", Physical::INT64, None, Repetition::REQUIRED),
                Column::Text(_) => (*name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
                Column::Number(_) => (*name, Physical::INT64, None, Repetition::OPTIONAL),
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
                ("time_s", Column::Time(vec![0, 1_500_000_001])),
                ("node", Column::Text(vec!["a".into(), "b".into()])),
                ("cwnd_segments", Column::Number(vec![Some(10), None])),
            ],
        }
    }

    #[test]
    fn csv_has_a_line_a_row_and_nothing_where_there_is_no_figure() {
        assert_eq!(table().csv(), "time_s,node,cwnd_segments\n0.000000000,a,10\n1.500000001,b,\n");
        assert_eq!(Table { columns: vec![("node", Column::Text(Vec::new()))] }.csv(), "node\n");
    }

    #[cfg(feature = "parquet")]
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
        let row = |time, node, cwnd| {
            vec![("time_ns".to_owned(), Field::Long(time)), ("node".to_owned(), text(node)), ("cwnd_segments".to_owned(), cwnd)]
        };
        assert_eq!(rows, [row(0, "a", Field::Long(10)), row(1_500_000_001, "b", Field::Null)]);
    }
}
