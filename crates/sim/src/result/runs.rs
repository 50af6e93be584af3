//! The table of a sweep: a row a run, with its settings, its seed and every figure.

use super::table::{Column, Name, Table};
use crate::sweep::RunResult;
use std::collections::BTreeSet;
use std::io;

/// A run, as it was set.
pub struct Row<'a> {
    /// The scenario's file.
    pub scenario: &'a str,
    /// Values of the keys of the grid, in their order.
    pub settings: &'a [String],
    /// What came of it.
    pub result: &'a RunResult,
}

/// The table as CSV and as Parquet. A column `scenario`, one for each key of the grid, `seed`, `hash`, `passed`, `end_ns` (virtual time at
/// which it ended), and one for each figure of each program. Settings are numbers where all of them are.
///
/// # Errors
/// The library's own; in memory there are none.
pub fn runs(keys: &[String], rows: &[Row<'_>]) -> io::Result<(String, Vec<u8>)> {
    let mut columns: Vec<(Name, Column)> =
        vec![("scenario".into(), Column::Text(rows.iter().map(|row| row.scenario.to_owned()).collect()))];
    for (number, key) in keys.iter().enumerate() {
        columns.push((key.clone().into(), setting(rows, number)));
    }
    let results = || rows.iter().map(|row| row.result);
    columns.extend([
        ("seed".into(), Column::Number(results().map(|result| Some(result.seed)).collect())),
        ("hash".into(), Column::Text(results().map(|result| format!("{:032x}", result.hash)).collect())),
        ("passed".into(), Column::Flag(results().map(RunResult::passed).collect())),
        ("end_ns".into(), Column::Number(results().map(|result| Some(result.end_ns)).collect())),
    ]);
    let figures: BTreeSet<&String> = results().flat_map(|result| result.figures.keys()).collect();
    for figure in figures {
        columns.push((figure.clone().into(), Column::Number(results().map(|result| result.figures.get(figure).copied()).collect())));
    }
    let table = Table { columns };
    Ok((table.csv()?, table.parquet()?))
}

/// The values of one key.
fn setting(rows: &[Row<'_>], number: usize) -> Column {
    let texts: Vec<String> = rows.iter().map(|row| row.settings.get(number).cloned().unwrap_or_default()).collect();
    match texts.iter().map(|text| text.parse().ok().filter(|value: &f64| value.is_finite())).collect::<Option<Vec<f64>>>() {
        Some(values) => Column::Real(values),
        None => Column::Text(texts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn a_run_is_a_row_with_what_it_was_set_to_and_all_that_came_of_it() {
        let result = |seed, figure: &str| RunResult {
            seed,
            hash: 10,
            end_ns: 2_000_000_000,
            verdicts: Vec::new(),
            figures: BTreeMap::from([(figure.to_owned(), 5)]),
            said: Vec::new(),
            wall: Duration::ZERO,
        };
        let (one, two) = (result(1, "a.x"), result(2, "a.y"));
        let settings = [["0.5", "cubic"], ["1", "a,b"]].map(|row| row.map(str::to_owned).to_vec());
        let rows = [
            Row { scenario: "s.toml", settings: &settings[0], result: &one },
            Row { scenario: "s.toml", settings: &settings[1], result: &two },
        ];
        let (csv, parquet) = runs(&["wires.w.loss".to_owned(), "nodes.*.x".to_owned()], &rows).unwrap();
        let hash = "0000000000000000000000000000000a";
        let lines = [
            "scenario,wires.w.loss,nodes.*.x,seed,hash,passed,end_ns,a.x,a.y",
            &format!("s.toml,0.5,cubic,1,{hash},true,2000000000,5,"),
            &format!("s.toml,1,\"a,b\",2,{hash},true,2000000000,,5"),
        ];
        assert_eq!(csv.lines().collect::<Vec<_>>(), lines);
        assert!(parquet.starts_with(b"PAR1"));
    }
}
