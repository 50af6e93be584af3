//! Parameters that name a block which schedules: it is to be there when all of the operations are done.

/// A parameter, and the block that it names.
#[derive(Debug)]
pub(super) struct Wanted {
    pub block: String,
    pub parameter: String,
    scheduler: String,
}

/// Those that were given a value.
#[derive(Debug, Default)]
pub(super) struct Schedulers(Vec<Wanted>);

impl Schedulers {
    /// A parameter gets a value, which may name a block.
    pub(super) fn note(&mut self, block: &str, parameter: &str, scheduler: Option<&str>) {
        self.0.retain(|wanted| wanted.block != block || wanted.parameter != parameter);
        if let Some(scheduler) = scheduler {
            self.0.push(Wanted { block: block.to_owned(), parameter: parameter.to_owned(), scheduler: scheduler.to_owned() });
        }
    }

    /// The first that names what is no scheduler, and why that is so; `owner` is the one that there is.
    pub(super) fn wrong(&self, exists: impl Fn(&str) -> bool, owner: Option<&str>) -> Option<(&Wanted, String)> {
        let mut wanted = self.0.iter().filter(|wanted| exists(&wanted.block));
        let wanted = wanted.find(|wanted| owner != Some(&wanted.scheduler))?;
        let scheduler = &wanted.scheduler;
        let why = match (exists(scheduler), owner) {
            (true, _) => format!("block '{scheduler}' is no scheduler: its manifest has no [scheduler]"),
            (false, Some(other)) => format!("there is no block '{scheduler}'; the scheduler of this node is '{other}'"),
            (false, None) => format!(
                "there is no block '{scheduler}': `load FILE` and `add {scheduler} KIND` make one, `weft new block NAME` begins one"
            ),
        };
        Some((wanted, why))
    }
}
