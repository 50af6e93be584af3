//! The policy for unlike interfaces, for one connection: which subflows are backups, which are opened, and which have to go.

use super::{Connection, Path, Stage};
use crate::counters::Counter;
use crate::endpoint::Locals;
use crate::kind::Settings;
use crate::out::Out;
use crate::policy::Standby;
use crate::word::{Down, Say};
use std::net::IpAddr;
use weft_core::Instant;

impl Connection {
    /// Data has come or gone.
    pub(super) fn is_active(&mut self, now: Instant) {
        self.active_at = now;
    }

    /// When it counts as idle, if that matters.
    pub(super) fn idle_at(&self, settings: &Settings) -> Option<Instant> {
        let matters = settings.standby == Standby::Active && !settings.prefer.is_empty() && self.stage == Stage::Open;
        matters.then(|| self.active_at + settings.idle_after)
    }

    /// The best rank of the subflows that work.
    fn best_rank(&self, locals: &Locals) -> Option<u32> {
        let works = |path: &&Path| path.may_send() && !path.suspect;
        self.paths.iter().filter(works).map(|path| locals.rank(path.local.ip())).min()
    }

    /// May a subflow be opened from this address?
    pub(super) fn may_open_from(&self, address: IpAddr, locals: &Locals, out: &Out<'_, '_>) -> bool {
        if out.settings.prefer.is_empty() {
            return true;
        }
        let better_works = self.best_rank(locals).is_some_and(|best| best < locals.rank(address));
        !better_works
            || match out.settings.standby {
                Standby::Always => true,
                Standby::Active => self.idle_at(out.settings).is_none_or(|at| at > out.now()),
                Standby::Never => false,
            }
    }

    /// Brings subflows in line with the policy. A better one takes over when it works, and not before ("make before break").
    pub(crate) fn follow_policy(&mut self, out: &mut Out<'_, '_>) {
        if out.settings.prefer.is_empty() || self.manager.is_some() || self.stage != Stage::Open || self.fallen_back || !self.confirmed {
            return;
        }
        let locals = out.locals;
        let Some(best) = self.best_rank(locals) else {
            return self.paths.iter_mut().for_each(|path| path.stands_by = false);
        };
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if !path.may_send() {
                continue;
            }
            let stands_by = locals.rank(path.local.ip()) > best;
            if stands_by && !self.may_open_from(path.local.ip(), locals, out) {
                out.count(Counter::StandbyClosed);
                self.forget_tried(self.paths[index].local.ip());
                // What is on the way by it arrives by it.
                self.end_path(index, out);
                continue;
            }
            let path = &mut self.paths[index];
            let was = std::mem::replace(&mut path.stands_by, stands_by);
            // One that is a backup by its endpoint is one for the peer already.
            if was != stands_by && !path.backup {
                out.word(path.flow, &Down::Say(Say::Priority { backup: stands_by }));
            }
        }
    }

    /// A way may be tried again, though it was.
    fn forget_tried(&mut self, address: IpAddr) {
        self.tried.retain(|(from, _)| *from != address);
    }

    /// Data flows again, after it was idle.
    pub(super) fn wakes(&mut self, out: &mut Out<'_, '_>) {
        let was_idle = self.idle_at(out.settings).is_some_and(|at| at <= out.now());
        self.is_active(out.now());
        if was_idle {
            self.open_others(out);
        }
    }
}
