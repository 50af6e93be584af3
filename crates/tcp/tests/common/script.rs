//! Scripts (written next).
