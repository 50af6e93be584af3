//! Counters in exported state, by name: what a node has counted does not begin anew because a block was replaced, also by a build that counts more or less.

use super::{Damage, Reader, Writer};
use crate::block::Counter;

impl Writer {
    /// Those that are not zero.
    pub fn counters(&mut self, rows: &[Counter], counters: &[u64]) {
        let counted = rows.iter().zip(counters).filter(|(_, count)| **count > 0);
        self.number(counted.clone().count() as u64);
        for (row, count) in counted {
            self.content(row.name.as_bytes());
            self.number(*count);
        }
    }
}

impl Reader<'_> {
    /// What [`Writer::counters`] wrote; of names that are not among the rows nothing is known.
    ///
    /// # Errors
    /// The bytes end, or say something else.
    pub fn counters<const N: usize>(&mut self, rows: &[Counter]) -> Result<[u64; N], Damage> {
        let mut counters = [0; N];
        for _ in 0..self.count(usize::MAX)? {
            let (name, count) = (self.content()?, self.number()?);
            let at = rows.iter().position(|row| row.name.as_bytes() == name);
            if let Some(place) = at.and_then(|at| counters.get_mut(at)) {
                *place = count;
            }
        }
        Ok(counters)
    }
}
