//! All tests of this crate, in one program: each program more would be built and linked by itself.

#[path = "twins/below.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod below;
#[path = "twins/bodies.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod bodies;
#[path = "twins/graph.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod graph;
mod groups;
mod hostile;
#[path = "twins/kernel.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod kernel;
#[path = "twins/language.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod language;
mod limits;
mod links;
mod memory;
#[path = "twins/model.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod model;
mod options;
#[path = "twins/random.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod random;
mod raw;
#[path = "twins/small.rs"]
#[allow(dead_code, reason = "each test takes what it needs")]
mod small;
mod twins;
