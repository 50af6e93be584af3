//! State of blocks that count, and of those that do nothing else.

use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Instant, Kind, State, StateError};

/// The state of a block: what `rest` writes, then what was counted.
pub(crate) fn export_with(kind: &Kind, counters: &[u64], now: Instant, rest: impl FnOnce(&mut Writer)) -> State {
    State::written(kind, now, |out| {
        rest(out);
        out.counters(kind.counters, counters);
    })
}

/// Reads what [`export_with`] wrote, to its end: nothing is taken over before all is read.
pub(crate) fn import_with<const N: usize, T>(
    kind: &Kind,
    state: &State,
    now: Instant,
    rest: impl FnOnce(&mut Reader<'_>) -> Result<T, Damage>,
) -> Result<(T, [u64; N]), StateError> {
    state.taken(kind, now, |from| Ok((rest(from)?, from.counters(kind.counters)?)))
}

/// The same of state that may be of a version down to `oldest`: `rest` looks at the reader's version.
pub(crate) fn import_since<const N: usize, T>(
    kind: &Kind,
    oldest: u32,
    state: &State,
    now: Instant,
    rest: impl FnOnce(&mut Reader<'_>) -> Result<T, Damage>,
) -> Result<(T, [u64; N]), StateError> {
    state.taken_since(kind, oldest, now, |from| Ok((rest(from)?, from.counters(kind.counters)?)))
}

/// The state of a block that keeps nothing else.
pub(crate) fn export(kind: &Kind, counters: &[u64], now: Instant) -> State {
    export_with(kind, counters, now, |_| ())
}

/// Reads what [`export`] wrote.
pub(crate) fn import<const N: usize>(kind: &Kind, state: &State, now: Instant) -> Result<[u64; N], StateError> {
    import_with(kind, state, now, |_| Ok(())).map(|((), counters)| counters)
}
