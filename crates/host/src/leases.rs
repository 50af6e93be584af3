//! Stacks whose interfaces ask a DHCP server: they are up when one has answered, and their programs find its name servers.

use crate::error::WorldError;
use crate::world::World;
use std::io;
use std::time::Duration;
use weft_core::Instant;

/// For how long a stack that comes up waits for its first lease. Questions are sent at once, after 4 s and after 12 s.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl World {
    /// Waits until a DHCP server has answered, if an interface asks one; those that have no lease by then are told of, and go on asking.
    ///
    /// # Errors
    /// None of them has got one.
    pub fn await_lease(&mut self) -> Result<(), WorldError> {
        let end = self.clock.now() + WAIT_MAX;
        loop {
            let now = self.clock.now();
            let leases = self.node.leases(now);
            let without: Vec<&str> = leases.iter().filter(|one| one.address.is_none()).map(|one| one.interface.as_str()).collect();
            if without.is_empty() {
                return Ok(());
            }
            if now >= end {
                let silent = without.join(", ");
                if without.len() == leases.len() {
                    return Err(self.nobody_answered(&silent));
                }
                self.note_for_user(format!("{silent}: no DHCP server has answered yet; it is asked on"));
                return Ok(());
            }
            let system = |why: io::Error| WorldError::System { what: "waiting for a DHCP server", why };
            self.turn(end.since(now)).map_err(system)?;
        }
    }

    fn nobody_answered(&self, interface: &str) -> WorldError {
        let backends = self.ports.values().map(|port| port.section()).filter(|section| section.dhcp);
        let backends = backends.map(|section| section.backend.as_str()).collect::<Vec<_>>().join(", ");
        let why = format!(
            "no DHCP server has answered within {} s: is there one on the network of {backends}? `--capture FILE` shows what was asked; an [[address]] in place of dhcp = true needs none",
            WAIT_MAX.as_secs()
        );
        WorldError::Interface { interface: interface.to_owned(), why }
    }

    /// What programs find in /etc/resolv.conf: what the first lease says that says anything, unless the stack file does.
    pub(crate) fn resolv_conf_of_leases(&mut self, now: Instant) -> Option<String> {
        self.node.leases(now).iter().map(weft_node::Lease::resolv_conf).find(|text| !text.is_empty())
    }
}
