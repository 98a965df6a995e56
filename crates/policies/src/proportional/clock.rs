//! How far is a client, in service per share? A clock that divides without losing anything.

/// A virtual time: service per share, in units of 2^-64. Signed, since lags are differences.
pub type Virtual = i128;

/// Virtual time that advances by service/share and keeps the remainder of each division, so that after
/// service W since the share was set it has advanced by exactly floor(W x 2^64 / share), however W was
/// divided.
///
/// With share 3, three quanta of 1: 1/3, 2/3, 1 (exactly 1, not 0.99).
///
/// Two clocks that started together compare as the exact rationals W1/S1 and W2/S2 do, while S1 x S2 <= 2^64:
/// rationals that differ then differ by at least 2^-64 and equal ones have equal floors.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Virtual,
    remainder: u64,
    share: u64,
    quantum: u64,
    /// Advance per quantum, and its remainder; computed when first needed after the share has changed.
    step: Option<(Virtual, u64)>,
}

impl Clock {
    /// At time zero; `quantum` is the service that advances fastest.
    pub fn new(share: u64, quantum: u64) -> Clock {
        Clock { time: 0, remainder: 0, share, quantum, step: None }
    }

    /// Now.
    #[inline]
    pub fn time(&self) -> Virtual {
        self.time
    }

    /// Its share.
    #[inline]
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Sets the time to one that did not come from service: the remainder is dropped (less than 2^-64).
    #[inline]
    pub fn set_time(&mut self, time: Virtual) {
        if time != self.time {
            self.time = time;
            self.remainder = 0;
        }
    }

    /// Changes the share; the time stays, the remainder is dropped (less than 2^-64).
    #[inline]
    pub fn set_share(&mut self, share: u64) {
        if share != self.share {
            self.share = share;
            self.remainder = 0;
            self.step = None;
        }
    }

    #[inline]
    fn step(&mut self) -> (Virtual, u64) {
        match self.step {
            Some(step) => step,
            None => {
                let step = divide(self.quantum, self.share);
                self.step = Some(step);
                step
            }
        }
    }

    /// The time after `used` of service.
    #[inline]
    fn after(&mut self, used: u64) -> (Virtual, u64) {
        let (step, rest) = if used == self.quantum { self.step() } else { divide(used, self.share) };
        let (mut time, mut remainder) = (self.time + step, u128::from(self.remainder) + u128::from(rest));
        if remainder >= u128::from(self.share) {
            remainder -= u128::from(self.share);
            time += 1;
        }
        (time, remainder as u64)
    }

    /// Advances by `used` of service.
    #[inline]
    pub fn advance(&mut self, used: u64) {
        (self.time, self.remainder) = self.after(used);
    }

    /// What the time will be after `service` more.
    #[inline]
    pub fn ahead(&mut self, service: u64) -> Virtual {
        self.after(service).0
    }

    /// What the time will be after one more quantum: the virtual finishing time of the next one.
    #[inline]
    pub fn finish(&mut self) -> Virtual {
        self.after(self.quantum).0
    }
}

#[inline]
fn divide(service: u64, share: u64) -> (Virtual, u64) {
    let scaled = u128::from(service) << 64;
    ((scaled / u128::from(share)) as Virtual, (scaled % u128::from(share)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;

    const ONE: Virtual = 1 << 64;

    #[test]
    fn thirds_add_up() {
        let mut clock = Clock::new(3, 1);
        (0..3_000_000).for_each(|_| clock.advance(1));
        assert_eq!(clock.time(), 1_000_000 * ONE);
        assert_eq!(clock.finish(), 1_000_000 * ONE + ONE / 3);
    }

    /// However service is cut into pieces, the time is that of its sum.
    #[test]
    fn pieces_do_not_matter() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let share = 1 + random.below(1 << 40);
            let mut clock = Clock::new(share, 10_000_000);
            let mut total: u64 = 0;
            for _ in 0..100 {
                let used = if random.below(2) == 0 { 10_000_000 } else { random.below(20_000_000) };
                clock.advance(used);
                total += used;
            }
            assert_eq!(clock.time(), ((u128::from(total) << 64) / u128::from(share)) as Virtual);
        }
    }

    /// Comparisons are those of rationals: against cross-multiplication, near ties included.
    #[test]
    fn comparisons_are_exact() {
        let mut random = Random::new(6);
        for _ in 0..100_000 {
            let (a, b) = (1 + random.below(1 << 31), 1 + random.below(1 << 31));
            let w = random.below(1 << 20);
            // the nearest rational with denominator b, or next to it
            let x = (u128::from(w) * u128::from(b) / u128::from(a)) as u64 + random.below(2);
            let (mut first, mut second) = (Clock::new(a, 1), Clock::new(b, 1));
            first.advance(w);
            second.advance(x);
            let exact = (u128::from(w) * u128::from(b)).cmp(&(u128::from(x) * u128::from(a)));
            assert_eq!(first.time().cmp(&second.time()), exact, "{w}/{a} and {x}/{b}");
        }
    }
}
