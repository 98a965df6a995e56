//! How far from its due was each client, in a schedule of whatever origin?
//!
//! From stretches of service (who, from, to) and weights: e_A(0, t) = w_A(t) - t x W_A / W, and over
//! intervals. A client only falls behind between its stretches and only gets ahead during one, so its
//! extremes lie at their ends. Exact: numerators in ns x W, denominator W x (ns of a time unit).
//!
//! Shares 3, 2, 1 under VTRR (A B C A B A), in sixths of a quantum: A is at +3 after its first, at 0 when it
//! begins its second, at +3 after that, 0, and +3 - 3 = 0 at the end; C is at -2 when it begins and at +3
//! after its only quantum.

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

/// Extremes of e(0, t) over all clients and the times t from `from` on: the error that is left when the start
/// is over. They lie within those of the whole run. (Errors counted anew from `from` would not: a client that
/// is just then ahead would seem to fall behind.)
pub fn settled(stretches: &[Stretch], weights: &[u64], length: Span, from: Span) -> ExactRange {
    let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
    let (from_ns, mut received_ns) = (from.as_ns(), vec![0u64; weights.len()]);
    let mut range = ExactRange::default();
    let error = |received_ns: &[u64], client: usize, t_ns: u64| {
        i128::from(received_ns[client]) * total - i128::from(t_ns) * i128::from(weights[client])
    };
    for stretch in stretches.iter().filter(|stretch| stretch.from_ns < from_ns) {
        received_ns[stretch.client] += stretch.to_ns.min(from_ns) - stretch.from_ns;
    }
    (0..weights.len()).for_each(|client| range.include(error(&received_ns, client, from_ns)));
    for stretch in stretches.iter().filter(|stretch| stretch.to_ns > from_ns) {
        let begin_ns = stretch.from_ns.max(from_ns);
        range.include(error(&received_ns, stretch.client, begin_ns));
        received_ns[stretch.client] += stretch.to_ns - begin_ns;
        range.include(error(&received_ns, stretch.client, stretch.to_ns));
    }
    (0..weights.len()).for_each(|client| range.include(error(&received_ns, client, length.as_ns())));
    range
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

    /// A has three quanta at once, then B has three: A is at +3/2, and at 0 after six. Then both take turns,
    /// and A is between 0 and +1/2.
    #[test]
    fn what_the_start_caused_is_over_after_it() {
        let order = [0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1];
        let stretches: Vec<Stretch> =
            order.iter().enumerate().map(|(t, &client)| stretch(client, t as u64, t as u64 + 1)).collect();
        let settled = |from| {
            let range = settled(&stretches, &[1, 1], Span::from_ns(12), Span::from_ns(from));
            (range.low, range.high)
        };
        assert_eq!((settled(0), settled(3)), ((-3, 3), (-3, 3)));
        // in halves of a quantum
        assert_eq!((settled(4), settled(6), settled(7)), ((-2, 2), (-1, 1), (-1, 1)));
    }

    /// However a schedule begins, its later errors are among all its errors.
    #[test]
    fn settled_errors_lie_within_all() {
        let mut random = Random::new(9);
        for _ in 0..200 {
            let weights: Vec<u64> = (0..1 + random.below(6)).map(|_| 1 + random.below(9)).collect();
            let mut now_ns = 0;
            let stretches: Vec<Stretch> = (0..40)
                .map(|_| {
                    let from_ns = now_ns;
                    now_ns += 1 + random.below(20);
                    stretch(random.below(weights.len() as u64) as usize, from_ns, now_ns)
                })
                .collect();
            let (length, from) = (Span::from_ns(now_ns), Span::from_ns(random.below(now_ns)));
            let all = measure(&stretches, &weights, length, Span::from_ns(1)).from_start;
            let later = settled(&stretches, &weights, length, from);
            assert!(all.low <= later.low && later.high <= all.high, "{stretches:?} {weights:?} {from}");
            assert_eq!(settled(&stretches, &weights, length, Span::ZERO), all);
        }
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
