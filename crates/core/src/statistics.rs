//! What the interfaces of a group have carried: each of them, and all together.

use crate::control::{ControlError, Value};
use crate::table::{Answer, InterfaceCounts, Query, Which};
use serde_json::Map;

/// Answers `get group:GROUP` and `get group:GROUP.FIGURE`: a row for each member by name, and one for the sum, named as the group was. A group
/// without members is no error, as for iproute2: its sum is 0.
pub(crate) fn of_group(group: &str, figure: Option<&str>, ask: impl FnOnce(&Query) -> Answer) -> Result<Value, ControlError> {
    let name = format!("group:{group}");
    let Ok(number) = group.parse() else { return Err(ControlError::NoMatch { selector: name }) };
    let rows = match ask(&Query::Interfaces(Which::Group(number))) {
        Answer::Interfaces(rows) => rows,
        _ => Vec::new(),
    };
    let mut sum = figures(&InterfaceCounts::default());
    if let Some(figure) = figure.filter(|figure| !sum.contains_key(*figure)) {
        let known = sum.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(ControlError::NoParameter { block: name, parameter: figure.to_owned(), known });
    }
    let shown = |row: &Map<String, Value>| figure.map_or_else(|| Value::from(row.clone()), |figure| row[figure].clone());
    let mut out = Map::new();
    for row in rows {
        let counts = figures(&row.counts);
        for (name, total) in &mut sum {
            *total = total.as_u64().unwrap_or(0).saturating_add(counts[name].as_u64().unwrap_or(0)).into();
        }
        out.insert(row.interface.name, shown(&counts));
    }
    out.insert(name, shown(&sum));
    Ok(out.into())
}

/// By name.
fn figures(counts: &InterfaceCounts) -> Map<String, Value> {
    match serde_json::to_value(counts) {
        Ok(Value::Object(figures)) => figures,
        _ => Map::new(),
    }
}
