//! The rows of those calls that come to the supervisor: their names, and what it does with them. Who answers each is an adapter's to
//! know.

use crate::arch;
use weft_loader::calls::{self, Call as _};

/// One row of the table of calls.
pub struct CallRow {
    /// Name in section 2 of the manual.
    pub name: &'static str,
    /// Number on this architecture.
    pub number: i64,
    /// One line for `weft show calls`.
    pub what: &'static str,
}

impl std::fmt::Debug for CallRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)
    }
}

macro_rules! rows {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($handler:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// Every call that the filter sends to the supervisor: those whose row in the table of calls says so.
        pub static CALLS: &[CallRow] = &[$($(row(calls::$name::NAME, $number, $sentence),)?)*];
    };
}

weft_loader::for_each_call!(rows);

const fn row(name: &'static str, number: i64, what: &'static str) -> CallRow {
    CallRow { name, number, what }
}

/// In the row of every call of the i386 table, in place of a number.
pub const OF_I386: i64 = -1;
/// In the row of what the filter never sends.
const OF_NONE: i64 = -2;

static COMPAT: CallRow = row("i386", OF_I386, "refused: there are no sockets for this table of calls");
static UNKNOWN: CallRow = row("other", OF_NONE, "left to the kernel");

/// The row of a call.
pub fn row_of(architecture: u32, number: i32) -> &'static CallRow {
    if architecture != arch::AUDIT_ARCH {
        return &COMPAT;
    }
    CALLS.iter().find(|row| row.number == i64::from(number)).unwrap_or(&UNKNOWN)
}
