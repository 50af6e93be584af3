//! System calls as a table: each has one row in [`rows`](crate::for_each_call), and everything that knows calls by their number is made from it:
//! numbers, arguments with their types, the descriptors that a call names, what is copied for the controller, and the text of a log of calls.
//!
//! To add a call, see the page "How a call reaches a socket" (docs/architecture/).

#[macro_use]
mod rows;
pub mod flags;
pub mod requests;
pub mod types;

pub use flags::*;
pub use types::*;

/// A call with its arguments.
pub trait Call: Copy {
    /// Its number.
    const NUMBER: usize;
    /// Its name.
    const NAME: &'static str;
    /// What of the program's memory goes along with each argument.
    const PIECES: [Piece; 6];
    /// From the words of the program.
    fn of(words: &[usize; 6]) -> Self;
    /// Its words; those that it has no argument for are 0.
    fn words(&self) -> [usize; 6];
}

/// Registers, as [`Call::of`] takes them. Written out: `map` of so long an array stays a call of its own, with a call for each word.
#[inline]
pub fn words_of([a, b, c, d, e, f]: [u64; 6]) -> [usize; 6] {
    [a as usize, b as usize, c as usize, d as usize, e as usize, f as usize]
}

/// An argument of a row.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentRow {
    /// As in the kernel's SYSCALL_DEFINE.
    pub name: &'static str,
    /// Its type in C; of a pointer, what it leads to.
    pub kind: &'static str,
    /// How it is shown in logs.
    pub shown: Shown,
    /// Which way what it leads to goes.
    pub direction: Option<Direction>,
}

/// A row, for those who read.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number.
    pub number: usize,
    /// Name.
    pub name: &'static str,
    /// Arguments.
    pub arguments: &'static [ArgumentRow],
    /// Who answers it in virtual time.
    pub virtual_time: By,
    /// Who does with `--strict`.
    pub strict: By,
    /// What the supervisor of the notify adapter does with it; none: the kernel has it alone.
    pub notify: Option<&'static str>,
    /// Rows of docs/compatibility.md that say what is not as on Linux.
    pub notes: &'static [&'static str],
}

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kernel.
    Kernel,
    /// A handler in the program.
    Program,
    /// The controller.
    Controller,
    /// Nobody: an error with this name, which is noted.
    Refused(&'static str),
    /// Nobody: an error with this name, which programs expect.
    Absent(&'static str),
}

/// Numbers from here on belong to no call.
pub const NUMBERS_MAX: usize = 512;

/// A name in lower case.
struct Name<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Name<BYTES> {
    const fn of(constant: &str) -> Self {
        let mut bytes = [0; BYTES];
        let mut at = 0;
        while at < BYTES {
            bytes[at] = constant.as_bytes()[at].to_ascii_lowercase();
            at += 1;
        }
        Name(bytes)
    }
    const fn text(&self) -> &str {
        match core::str::from_utf8(&self.0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

macro_rules! by {
    (kernel) => {
        By::Kernel
    };
    (forward) => {
        By::Controller
    };
    (refused($errno:ident $(, 0)?)) => {
        By::Refused(stringify!($errno))
    };
    (absent($errno:ident)) => {
        By::Absent(stringify!($errno))
    };
    ($program:ident $(($($handler:tt)*))?) => {
        By::Program
    };
}

macro_rules! table {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($notify:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// Numbers.
        pub mod number {
            $(#[doc = concat!("`", stringify!($name), "`")] pub const $constant: usize = $number;)*
        }
        $(
            #[doc = concat!("Arguments of the call ", stringify!($constant), ".")]
            #[derive(Clone, Copy)]
            pub struct $name {
                $(#[doc = stringify!($kind)] pub $argument: $kind,)*
            }
            impl Call for $name {
                const NUMBER: usize = $number;
                const NAME: &'static str = {
                    const NAME: Name<{ stringify!($constant).len() }> = Name::of(stringify!($constant));
                    NAME.text()
                };
                const PIECES: [Piece; 6] = {
                    let pieces: &[Piece] = &[$(<$kind as Argument>::PIECE),*];
                    let mut all = [Piece::None; 6];
                    let mut at = 0;
                    while at < pieces.len() {
                        all[at] = pieces[at];
                        at += 1;
                    }
                    all
                };
                #[allow(unused_variables, unused_mut)]
                fn of(words: &[usize; 6]) -> Self {
                    let mut words = words.iter().copied();
                    $name { $($argument: <$kind as Argument>::of(words.next().unwrap_or(0)),)* }
                }
                #[allow(unused_mut)]
                fn words(&self) -> [usize; 6] {
                    let mut words = [0; 6];
                    for (word, argument) in words.iter_mut().zip(&[$(self.$argument.word()),*] as &[usize]) {
                        *word = *argument;
                    }
                    words
                }
            }
        )*

        /// All rows, in the order of numbers.
        pub static ROWS: &[Row] = &[$(Row {
            number: $number,
            name: <$name as Call>::NAME,
            arguments: &[$(ArgumentRow {
                name: stringify!($argument),
                kind: <$kind as Argument>::NAME,
                shown: <$kind as Argument>::SHOWN,
                direction: <$kind as Argument>::DIRECTION,
            }),*],
            virtual_time: by!($by $(($($what)*))?),
            strict: [$(by!($strict $(($($strictly)*))?),)? By::Kernel][0],
            notify: [$(Some($sentence),)? None][0],
            notes: &[$($($note),+)?],
        }),*];

        /// Which arguments of a call are descriptors, a bit each.
        pub static DESCRIPTORS: [u8; NUMBERS_MAX] = {
            let mut table = [0; NUMBERS_MAX];
            $(table[$number] = {
                let descriptors: &[bool] = &[$(<$kind as Argument>::IS_DESCRIPTOR),*];
                let (mut bits, mut at) = (0, 0);
                while at < descriptors.len() {
                    bits |= (descriptors[at] as u8) << at;
                    at += 1;
                }
                bits
            };)*
            table
        };

        /// What of the program's memory goes along with each argument of a call.
        pub fn pieces(number: usize) -> &'static [Piece; 6] {
            match number {
                $($number => &<$name as Call>::PIECES,)*
                _ => &[Piece::None; 6],
            }
        }
    };
}

for_each_call!(table);

/// The row of a number; none: there is no such call.
pub fn row(number: usize) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&number, |row| row.number).ok().and_then(|at| ROWS.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_numbers() {
        assert!(ROWS.is_sorted_by(|a, b| a.number < b.number));
    }

    #[test]
    fn words_come_back_as_they_were() {
        let words = [usize::MAX, 1, 2, 3 << 32 | 4, 5, 6];
        let call = Sendto::of(&words);
        assert_eq!((call.words(), call.fd.get(), call.flags.get()), (words, -1, 3 << 32 | 4));
        assert_eq!(Getpid::of(&words).words(), [0; 6]);
        assert_eq!((row(44).map(|row| row.name), row(336).is_none(), row(462).map(|row| row.name)), (Some("sendto"), true, Some("mseal")));
    }

    #[test]
    fn what_goes_along_follows_from_the_types() {
        assert_eq!(pieces(Sendto::NUMBER)[..], [Piece::None, Piece::Data, Piece::None, Piece::None, Piece::Counted(128), Piece::None]);
        assert_eq!(pieces(Recvfrom::NUMBER)[5], Piece::Bytes(4));
        assert_eq!((DESCRIPTORS[EpollCtl::NUMBER], DESCRIPTORS[Mmap::NUMBER], DESCRIPTORS[Getpid::NUMBER]), (0b101, 0b1_0000, 0));
    }
}
