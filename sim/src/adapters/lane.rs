//! A lane that stores to a register of its PE's adapter.

use super::Doorbell;
use crate::lane::Lane;
use crate::net::Rung;
use shmem::hook::At;

impl Lane {
    /// Rings, unless what breaks in this world says otherwise.
    pub(crate) fn rings(&self, register: u64, value: u64, at: At) {
        let (world, pe) = (self.world(), self.block().home.pe);
        let Some(adapters) = &world.adapters else {
            self.misuse(at, "this world has no network adapters".to_owned());
        };
        let Some(doorbell) = adapters.doorbell(pe, register, value) else {
            self.misuse(at, format!("{register:#x} is no register of PE {pe}'s network adapter"));
        };
        let to = adapters.target(&doorbell);
        let _span = to.map(|to| self.reach_span("doorbell", true, to, 8, at));
        match to.map_or(Rung::Fine, |to| self.meets(to, at)) {
            Rung::Fine => self.ring_now(&doorbell, at),
            Rung::Frozen => adapters.lose(&doorbell),
            Rung::Failed => {
                self.ring_now(&doorbell, at);
                adapters.give_up(&doorbell);
            }
            Rung::CutOff => {
                adapters.cut_off(pe);
                self.ring_now(&doorbell, at);
            }
        }
    }

    fn ring_now(&self, doorbell: &Doorbell, at: At) {
        self.world().adapters_do(|adapters| {
            adapters.ring(doorbell, at);
            true
        });
        self.end_if_failed();
    }

    /// What breaks as this lane rings for a PE.
    fn meets(&self, to: u32, at: At) -> Rung {
        let net = &self.world().net;
        if !net.breaks() || self.must_not_wait() {
            return Rung::Fine;
        }
        self.admit(to, at);
        net.rung()
    }
}
