//! All tests of this crate, in one program: each program more would be built and linked by itself.

#[path = "twins/below.rs"]
#[allow(dead_code, unused_imports)]
mod below;
#[path = "twins/bodies.rs"]
#[allow(dead_code, unused_imports)]
mod bodies;
#[path = "twins/graph.rs"]
#[allow(dead_code, unused_imports)]
mod graph;
mod groups;
mod hostile;
#[path = "twins/kernel.rs"]
#[allow(dead_code, unused_imports)]
mod kernel;
#[path = "twins/language.rs"]
#[allow(dead_code, unused_imports)]
mod language;
mod limits;
mod links;
mod memory;
#[path = "twins/model.rs"]
#[allow(dead_code, unused_imports)]
mod model;
mod options;
#[path = "twins/random.rs"]
#[allow(dead_code, unused_imports)]
mod random;
mod raw;
#[path = "twins/small.rs"]
#[allow(dead_code, unused_imports)]
mod small;
mod twins;
