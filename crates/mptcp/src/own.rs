//! Who schedules: a scheduler of this crate, or a loadable block, which is asked over the table `Schedulers`.
//!
//! A block that is not there, fails, or answers what makes no sense is not asked again until it is another, or the parameter is set: the default takes
//! over at the same question, and that is said once.

use crate::counters::{Counter, Counters};
use crate::kind::{SCHEDULER_ALERT, Settings};
use crate::scheduler::{Asked, Choice, Chosen, Memory, SCHEDULERS};
use weft_core::schedule::{Question, SUBFLOWS_MAX};
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Answer, Change, Context, Query, Table, Value};

/// Who schedules now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InUse {
    /// Index in [`SCHEDULERS`].
    BuiltIn(usize),
    /// The block; as [`weft_core::schedule::Scheduler`].
    Block { repeats: bool, lends: bool },
}

/// The scheduler in whose place others stand that cannot be used.
const DEFAULT: usize = 0;

impl InUse {
    pub(crate) fn repeats(self) -> bool {
        match self {
            InUse::BuiltIn(index) => SCHEDULERS[index].1.repeats(),
            InUse::Block { repeats, .. } => repeats,
        }
    }
    pub(crate) fn lends(self) -> bool {
        match self {
            InUse::BuiltIn(index) => SCHEDULERS[index].1.lends(),
            InUse::Block { lends, .. } => lends,
        }
    }
    /// Whose memory a connection has: a number of its own for each.
    pub(crate) fn number(self) -> u32 {
        match self {
            InUse::BuiltIn(index) => index as u32,
            InUse::Block { .. } => u32::MAX,
        }
    }
}

/// A loadable scheduler, as far as this block remembers it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Why it is not used.
    pub failed: Option<String>,
}

impl Own {
    /// Who schedules. Says so, if it is not the block that was chosen.
    pub(crate) fn in_use(&mut self, settings: &Settings, counters: &mut Counters, cx: &mut Context<'_>) -> InUse {
        let name = match &settings.scheduler {
            Chosen::BuiltIn(index) => return InUse::BuiltIn(*index),
            Chosen::Block(name) => name,
        };
        if self.failed.is_some() {
            return InUse::BuiltIn(DEFAULT);
        }
        let why = match cx.ask(Table::Schedulers, &Query::Scheduler) {
            Answer::Scheduler(answer) => match *answer {
                Ok(scheduler) if scheduler.block == *name => {
                    return InUse::Block { repeats: scheduler.repeats, lends: scheduler.lends };
                }
                Ok(other) => format!("it is gone; the scheduler of this node is the block '{}'", other.block),
                Err(why) => why,
            },
            _ => "it is gone".to_owned(),
        };
        self.fails(why, settings, counters, cx)
    }

    /// It cannot be used.
    fn fails(&mut self, why: String, settings: &Settings, counters: &mut Counters, cx: &mut Context<'_>) -> InUse {
        let (scheduler, instead) = (settings.scheduler.text(), SCHEDULERS[DEFAULT].0);
        tracing::warn!("mptcp: scheduler {scheduler} is not used any more, and {instead} is: {why}");
        counters.count(Counter::SchedulersFailed);
        cx.alert(SCHEDULER_ALERT, serde_json::json!({ "scheduler": scheduler, "instead": instead, "why": why }));
        cx.tell(Table::Schedulers, Change::TellFailure);
        self.failed = Some(why);
        InUse::BuiltIn(DEFAULT)
    }

    /// The next choice of whoever schedules; `memory` is that of the connection.
    pub(crate) fn choose(
        &mut self,
        asked: &Asked<'_>,
        memory: &mut Scheduled,
        (settings, counters, cx): (&Settings, &mut Counters, &mut Context<'_>),
    ) -> Option<Choice> {
        let mut in_use = self.in_use(settings, counters, cx);
        if let InUse::Block { .. } = in_use {
            let memory = memory.of(in_use);
            match cx.ask(Table::Schedulers, &Query::Schedule(Box::new(question(asked, *memory)))) {
                Answer::Schedule(answer) => match *answer {
                    Ok((choice, then)) => {
                        *memory = then;
                        return choice;
                    }
                    Err(why) => in_use = self.fails(why, settings, counters, cx),
                },
                _ => in_use = self.fails("it gave no answer".to_owned(), settings, counters, cx),
            }
        }
        match in_use {
            InUse::BuiltIn(index) => SCHEDULERS[index].1.choose(asked, memory.of(in_use)),
            InUse::Block { .. } => None,
        }
    }

    /// What connections are scheduled by, for people.
    pub(crate) fn name(&self, settings: &Settings) -> Value {
        if self.failed.is_some() { SCHEDULERS[DEFAULT].0.into() } else { settings.scheduler.text().into() }
    }
}

fn question(asked: &Asked<'_>, memory: Memory) -> Question {
    let Asked { paths, una, next, end, more, edge, again } = *asked;
    let subflows = paths.iter().take(SUBFLOWS_MAX).copied().collect();
    Question { subflows, una, next, end, more, edge, again, memory }
}

/// What the scheduler of a connection remembers of it, and which one that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scheduled {
    /// [`InUse::number`].
    scheduler: u32,
    memory: Memory,
}

impl Field for Scheduled {
    fn write(&self, out: &mut Writer) {
        out.put(&self.scheduler);
        self.memory.0.iter().for_each(|word| out.put(word));
    }
    fn read(from: &mut Reader<'_>) -> Result<Scheduled, Damage> {
        let scheduler = from.take()?;
        Ok(Scheduled { scheduler, memory: Memory([from.take()?, from.take()?, from.take()?, from.take()?]) })
    }
}

impl Scheduled {
    /// The memory of this scheduler: empty, if it is another than before.
    fn of(&mut self, scheduler: InUse) -> &mut Memory {
        let scheduler = scheduler.number();
        if self.scheduler != scheduler {
            *self = Scheduled { scheduler, memory: Memory::default() };
        }
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_one_schedulers() {
        let mut scheduled = Scheduled::default();
        let (one, other, block) = (InUse::BuiltIn(2), InUse::BuiltIn(1), InUse::Block { repeats: false, lends: true });
        scheduled.of(one).0[3] = 7;
        assert_eq!(scheduled.of(one).0[3], 7);
        assert_eq!(*scheduled.of(other), Memory::default());
        scheduled.of(block).0[0] = 1;
        assert_eq!(*scheduled.of(one), Memory::default());
        assert_eq!(*scheduled.of(block), Memory::default());
    }
}
