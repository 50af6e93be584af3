//! Why a world cannot be.

/// Why a world cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// A stack file does not fit.
    #[error("{0}")]
    Stack(String),
    /// The parts do not fit together.
    #[error("{what}\nhelp: {help}")]
    Unsound {
        /// What is wrong.
        what: String,
        /// What to do.
        help: String,
    },
}

pub(crate) fn unsound<T>(what: String, help: &str) -> Result<T, WorldError> {
    Err(WorldError::Unsound { what, help: help.to_owned() })
}
