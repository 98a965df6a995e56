//! What if a CPU stops inside the kernel while time goes on? Only under an order that steers ([`Order::STEERS`]).
//!
//! ```text
//! cpu1 stands at a point, interrupts off, held back from 3.0 ms
//! 4.0 ms   its timer is due            noted; nothing happens on cpu1
//! 4.2 ms   a device wakes t3 there     noted
//! 4.5 ms   the order lets it go on     the timer's interrupt is pending; the kernel takes it once it enables them
//!          it returns to user mode     the device's interrupt comes, at 4.5 ms
//! ```
//!
//! So it is when a hypervisor has taken a virtual CPU off: what was due meanwhile comes when it runs again.

use super::{Charge, Cpu, Machine};
use crate::kernel::{Fault, Kernel, Stimulus};
use crate::order::Order;
use crate::queue::{CLASS_TIMER, Key};
use schedlab_units::{CpuId, TaskId};

/// What the engine remembers of CPUs that stand in the kernel; empty under orders that do not steer.
pub(super) struct Steer {
    /// Per CPU that has stopped at a point: who computed before its kernel code began, and what that code is
    /// charged as.
    halted: Vec<Option<(Cpu, Option<Charge>)>>,
    /// Per CPU: its timer was due while it stood.
    timer_due: Vec<bool>,
    /// What the CPU that is about to go on is charged for, if it stood at a point.
    charge: Option<Charge>,
    /// Device interrupts that came for a CPU that stood: where, and who is to be woken; first come, first served.
    devices: Vec<(CpuId, TaskId)>,
}

impl Steer {
    pub(super) fn new(nr_cpus: usize) -> Steer {
        Steer {
            halted: vec![None; nr_cpus],
            timer_due: vec![false; nr_cpus],
            charge: None,
            devices: Vec::new(),
        }
    }

    /// A CPU has stopped at a point; its kernel code began in this state, for this.
    pub(super) fn stopped(&mut self, cpu: CpuId, began: Cpu, charge: Option<Charge>) {
        self.halted[cpu.index()] = Some((began, charge));
    }

    /// What the kernel code that is about to run costs: a CPU that goes on from a point goes on with what it
    /// was charged for.
    pub(super) fn charge(&mut self, stimulus: &Stimulus<'_>) -> Charge {
        match (self.charge.take(), stimulus) {
            (Some(charge), Stimulus::Continue) => charge,
            _ => Charge::of(stimulus),
        }
    }

    /// The tasks that devices are to wake on this CPU.
    fn take_devices(&mut self, cpu: CpuId) -> Vec<TaskId> {
        let there = self.devices.extract_if(.., |(on, _)| *on == cpu);
        there.map(|(_, task)| task).collect()
    }
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// A CPU is about to be resumed. If it stood at a point, all is as when its kernel code began.
    pub(super) fn enter_steered(&mut self, cpu: CpuId) {
        self.order.entered(cpu);
        self.steer.timer_due[cpu.index()] = false;
        if let Some((began, charge)) = self.steer.halted[cpu.index()].take() {
            self.steer.charge = charge;
            self.cpus[cpu.index()] =
                Cpu { since_ns: self.now_ns, timer: self.cpus[cpu.index()].timer, ..began };
        }
    }

    /// A ready CPU goes on, with what was due while it stood and can come now.
    pub(super) fn go_on(&mut self, cpu: CpuId) -> Result<(), Box<Fault>> {
        if O::STEERS
            && let Some(point) = self.order.stands(cpu)
        {
            if point.interrupts_on {
                let tasks = self.steer.take_devices(cpu);
                if !tasks.is_empty() {
                    return self.step(cpu, Stimulus::Device(&tasks));
                }
            }
            if self.steer.timer_due[cpu.index()] {
                return self.step(cpu, Stimulus::Timer(&[]));
            }
        }
        self.step(cpu, Stimulus::Continue)
    }

    /// Whether the timer that is due on this CPU must wait, since the CPU stands.
    pub(super) fn hold_timer(&mut self, cpu: CpuId, class: u64) -> bool {
        let holds = class == CLASS_TIMER && self.order.stands(cpu).is_some();
        if holds {
            self.steer.timer_due[cpu.index()] = true;
            self.queue.set(cpu.index(), Key::NEVER);
        }
        holds
    }

    /// Whether the device interrupt that wakes this task must wait, since its CPU stands.
    pub(super) fn hold_device(&mut self, task: TaskId) -> bool {
        let cpu = self.device_cpu(task);
        let holds = self.order.stands(cpu).is_some();
        if holds {
            self.steer.devices.push((cpu, task));
        }
        holds
    }

    /// Delivers a device interrupt that waited for a CPU which does not stand any more; false if there is none.
    pub(super) fn deliver_held(&mut self) -> Result<bool, Box<Fault>> {
        let free = |(cpu, _): &&(CpuId, TaskId)| self.order.stands(*cpu).is_none();
        let Some(&(cpu, _)) = self.steer.devices.iter().find(free) else { return Ok(false) };
        let tasks = self.steer.take_devices(cpu);
        self.step(self.taking_devices(cpu), Stimulus::Device(&tasks)).map(|()| true)
    }

    /// Nobody is held back any longer: every ready CPU goes on until none is. Returns whether any was.
    #[cold]
    pub(super) fn let_all_go(&mut self) -> Result<bool, Box<Fault>> {
        self.order.may_hold(false);
        let mut any = false;
        loop {
            if let Some(turn) = self.next_turn() {
                match turn.spins {
                    true => self.count_spin(turn.cpu)?,
                    false => self.spins = 0,
                }
                self.go_on(turn.cpu)?;
            } else if !self.deliver_held()? {
                break;
            }
            any = true;
        }
        self.order.may_hold(true);
        Ok(any)
    }
}
