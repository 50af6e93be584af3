//! Counters in exported state, by name: what a node has counted does not begin anew because a block was replaced, also by a build that counts more or less.

use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Instant, Kind, State, StateError};

/// Writes those that are not zero.
pub(crate) fn write(kind: &Kind, counters: &[u64], out: &mut Writer) {
    let counted = kind.counters.iter().zip(counters).filter(|(_, count)| **count > 0);
    out.number(counted.clone().count() as u64);
    for (row, count) in counted {
        out.content(row.name.as_bytes());
        out.number(*count);
    }
}

/// Reads what [`write`] wrote.
pub(crate) fn read<const N: usize>(kind: &Kind, from: &mut Reader<'_>) -> Result<[u64; N], Damage> {
    let mut counters = [0; N];
    for _ in 0..from.count(usize::MAX)? {
        let (name, count) = (from.content()?, from.number()?);
        let at = kind.counters.iter().position(|row| row.name.as_bytes() == name);
        if let Some(place) = at.and_then(|at| counters.get_mut(at)) {
            *place = count;
        }
    }
    Ok(counters)
}

/// The state of a block: what `rest` writes, then what was counted.
pub(crate) fn export_with(kind: &Kind, counters: &[u64], now: Instant, rest: impl FnOnce(&mut Writer)) -> State {
    State::written(kind, now, |out| {
        rest(out);
        write(kind, counters, out);
    })
}

/// Reads what [`export_with`] wrote, to its end: nothing is taken over before all is read.
pub(crate) fn import_with<const N: usize, T>(
    kind: &Kind,
    state: &State,
    now: Instant,
    rest: impl FnOnce(&mut Reader<'_>) -> Result<T, Damage>,
) -> Result<(T, [u64; N]), StateError> {
    state.taken(kind, now, |from| Ok((rest(from)?, read(kind, from)?)))
}

/// The state of a block that keeps nothing else.
pub(crate) fn export(kind: &Kind, counters: &[u64], now: Instant) -> State {
    export_with(kind, counters, now, |_| ())
}

/// Reads what [`export`] wrote.
pub(crate) fn import<const N: usize>(kind: &Kind, state: &State, now: Instant) -> Result<[u64; N], StateError> {
    import_with(kind, state, now, |_| Ok(())).map(|((), counters)| counters)
}
