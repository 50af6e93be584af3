//! The value of the parameter `scheduler`.

use super::{SCHEDULERS, by_name};
use weft_core::SCHEDULER_BLOCK;

/// The parameter's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// Index in [`SCHEDULERS`].
    BuiltIn(usize),
    /// The block of this name.
    Block(String),
}

impl Chosen {
    /// From the text.
    pub fn of(text: &str) -> Chosen {
        match text.strip_prefix(SCHEDULER_BLOCK) {
            Some(name) => Chosen::Block(name.to_owned()),
            None => Chosen::BuiltIn(by_name(text)),
        }
    }
    /// As the text.
    pub fn text(&self) -> String {
        match self {
            Chosen::BuiltIn(index) => SCHEDULERS[*index].0.to_owned(),
            Chosen::Block(name) => format!("{SCHEDULER_BLOCK}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_have_names() {
        for name in super::super::NAMES.iter().copied().chain(["block:mine"]) {
            assert_eq!(Chosen::of(name).text(), name);
        }
        assert_eq!(Chosen::of("block:mine"), Chosen::Block("mine".to_owned()));
    }
}
