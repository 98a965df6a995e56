//! How far from its due was each client, in a schedule of whatever origin?
//!
//! From stretches of service (who, from, to) and weights: e_A(0, t) = w_A(t) - t x W_A / W, and over intervals. A client only falls behind
//! between its stretches and only gets ahead during one, so its extremes lie at their ends. Exact: numerators in ns x W, denominator
//! W x (ns of a time unit).
//!
//! Shares 3, 2, 1 under VTRR (A B C A B A), in sixths of a quantum: A is at +3 after its first, at 0 when it begins its second, at
//! +3 after that, 0, and +3 - 3 = 0 at the end; C is at -2 when it begins and at +3 after its only quantum.

use crate::arm::Stretch;
use schedlab_units::Span;

/// An exact error: `numerator / denominator` time units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExactRange {
    /// Most behind; at most 0.
    pub low: i128,
    /// Most ahead; at least 0.
    pub high: i128,
}

impl ExactRange {
    fn include(&mut self, error: i128) {
        self.low = self.low.min(error);
        self.high = self.high.max(error);
    }
}

/// What one client had.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientServed {
    /// Service, ns.
    pub received_ns: u64,
    /// Longest time without service, ns.
    pub longest_wait_ns: u64,
    /// Its own extremes, from the start.
    pub from_start: ExactRange,
}

/// Errors of one schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// What all numerators are divided by.
    pub denominator: i128,
    /// Of e(0, t) over all clients and times.
    pub from_start: ExactRange,
    /// Of e(t1, t2) over all clients and intervals.
    pub intervals: ExactRange,
    /// By client.
    pub clients: Vec<ClientServed>,
}

/// A client's place on its way through [`measure`].
#[derive(Clone, Copy, Default)]
struct State {
    received_ns: u64,
    last_ns: u64,
    wait_ns: u64,
    lowest: i128,
    highest: i128,
    own: ExactRange,
}

/// Errors of a schedule of `length` with these weights; a time unit (tu) is `unit`.
pub fn measure(stretches: &[Stretch], weights: &[u64], length: Span, unit: Span) -> Served {
    let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
    let error = |received_ns: u64, client: usize, t_ns: u64| {
        i128::from(received_ns) * total - i128::from(t_ns) * i128::from(weights[client])
    };
    let mut states = vec![State::default(); weights.len()];
    let (mut from_start, mut intervals) = (ExactRange::default(), ExactRange::default());
    for &Stretch { client, from_ns, to_ns } in stretches {
        let state = &mut states[client];
        let before = error(state.received_ns, client, from_ns);
        state.received_ns += to_ns - from_ns;
        let after = error(state.received_ns, client, to_ns);
        intervals.include(before - state.highest);
        state.lowest = state.lowest.min(before);
        intervals.include(after - state.lowest);
        state.highest = state.highest.max(after);
        state.own.include(before);
        state.own.include(after);
        state.wait_ns = state.wait_ns.max(from_ns - state.last_ns);
        state.last_ns = to_ns;
    }
    let mut clients = Vec::with_capacity(weights.len());
    for (client, mut state) in states.into_iter().enumerate() {
        let last = error(state.received_ns, client, length.as_ns());
        state.own.include(last);
        intervals.include(last - state.highest);
        from_start.include(state.own.low);
        from_start.include(state.own.high);
        clients.push(ClientServed {
            received_ns: state.received_ns,
            longest_wait_ns: state.wait_ns.max(length.as_ns() - state.last_ns),
            from_start: state.own,
        });
    }
    Served { denominator: total * i128::from(unit.as_ns()), from_start, intervals, clients }
}

impl Served {
    /// In time units.
    pub fn tu(&self, numerator: i128) -> f64 {
        numerator as f64 / self.denominator as f64
    }

    /// As a reduced fraction of time units, `-5/6`; with two decimals if the denominator is above 1,000.
    pub fn fraction(&self, numerator: i128) -> String {
        let divisor = gcd(numerator.unsigned_abs(), self.denominator.unsigned_abs()).max(1) as i128;
        let (numerator, denominator) = (numerator / divisor, self.denominator / divisor);
        match denominator {
            1 => numerator.to_string(),
            2..=1000 => format!("{numerator}/{denominator}"),
            _ => format!("{:.2}", numerator as f64 / denominator as f64),
        }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The schedule from `from` on, as if it began there.
pub fn later(stretches: &[Stretch], from: Span) -> Vec<Stretch> {
    let from_ns = from.as_ns();
    let rest = stretches.iter().filter(|stretch| stretch.to_ns > from_ns);
    rest.map(|s| Stretch { from_ns: s.from_ns.max(from_ns) - from_ns, to_ns: s.to_ns - from_ns, ..*s })
        .collect()
}

/// A client's error against time, both in time units, at the ends of its stretches: straight lines between.
pub fn curve(
    stretches: &[Stretch],
    weights: &[u64],
    client: usize,
    until: Span,
    unit: Span,
) -> Vec<(f64, f64)> {
    let total: u64 = weights.iter().sum();
    let unit_ns = unit.as_ns() as f64;
    let part = weights[client] as f64 / total as f64;
    let mut received_ns = 0;
    let mut points = vec![(0.0, 0.0)];
    let mut push = |t_ns: u64, received_ns: u64| {
        let point = (t_ns as f64 / unit_ns, (received_ns as f64 - t_ns as f64 * part) / unit_ns);
        if points.last() != Some(&point) {
            points.push(point);
        }
    };
    for stretch in stretches.iter().filter(|stretch| stretch.client == client) {
        if stretch.from_ns >= until.as_ns() {
            break;
        }
        push(stretch.from_ns, received_ns);
        let to_ns = stretch.to_ns.min(until.as_ns());
        received_ns += to_ns - stretch.from_ns;
        push(to_ns, received_ns);
    }
    push(until.as_ns(), received_ns);
    points
}

#[cfg(test)]
mod tests {
    use super::super::CONTENDERS;
    use super::*;
    use schedlab_policies::proportional::quantum;
    use schedlab_stdx::Random;

    fn stretch(client: usize, from_ns: u64, to_ns: u64) -> Stretch {
        Stretch { client, from_ns, to_ns }
    }

    /// The module's example: A B C A B A, -1/2 to +1/2.
    #[test]
    fn the_worked_example() {
        let order = [0, 1, 2, 0, 1, 0];
        let stretches: Vec<Stretch> =
            order.iter().enumerate().map(|(t, &client)| stretch(client, t as u64, t as u64 + 1)).collect();
        let served = measure(&stretches, &[3, 2, 1], Span::from_ns(6), Span::from_ns(1));
        assert_eq!((served.from_start.low, served.from_start.high, served.denominator), (-3, 3, 6));
        assert_eq!(served.fraction(served.from_start.high), "1/2");
        assert_eq!(served.clients.iter().map(|c| c.received_ns).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(served.clients[2].longest_wait_ns, 3);
        let error = curve(&stretches, &[3, 2, 1], 2, Span::from_ns(6), Span::from_ns(1));
        let rounded: Vec<(f64, f64)> = error.iter().map(|&(t, e)| (t, (e * 6.0).round())).collect();
        assert_eq!(rounded, [(0.0, 0.0), (2.0, -2.0), (3.0, 3.0), (6.0, 0.0)]);
    }

    /// A A B B from the third quantum on is B B: A, of equal shares, is then due half of two quanta and has nothing.
    #[test]
    fn later_begins_anew() {
        let stretches = [stretch(0, 0, 2), stretch(1, 2, 4)];
        let rest = later(&stretches, Span::from_ns(2));
        assert_eq!(rest, [stretch(1, 0, 2)]);
        let served = measure(&rest, &[1, 1], Span::from_ns(2), Span::from_ns(1));
        assert_eq!((served.tu(served.from_start.low), served.tu(served.from_start.high)), (-1.0, 1.0));
        assert_eq!(later(&stretches, Span::from_ns(1))[0], stretch(0, 0, 1));
    }

    /// The same schedule has the same errors whether they are taken quantum by quantum or from stretches.
    #[test]
    fn equals_the_simulation_quantum_by_quantum() {
        let mut random = Random::new(3);
        for contender in CONTENDERS {
            for _ in 0..10 {
                let shares: Vec<u64> = (0..1 + random.below(9)).map(|_| 1 + random.below(12)).collect();
                let quanta = 2 * shares.iter().sum::<u64>();
                let mut stretches = Vec::new();
                let mut discipline = (contender.make)(shares.len(), 1);
                let errors = quantum::serve(&mut *discipline, &shares, quanta, |client, from, length| {
                    stretches.push(stretch(client.index(), from, from + length));
                });
                let served = measure(&stretches, &shares, Span::from_ns(quanta), Span::from_ns(1));
                let same = |exact: ExactRange, range: quantum::Range| {
                    assert_eq!(
                        (exact.low, exact.high),
                        (range.low.into(), range.high.into()),
                        "{contender:?}"
                    );
                };
                same(served.from_start, errors.from_start);
                same(served.intervals, errors.intervals);
            }
        }
    }
}
