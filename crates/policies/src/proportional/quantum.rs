//! How far from its due is each client, quantum by quantum? A discipline without a machine around it.
//!
//! *Service time error* of client A at time t (in quanta): e_A(0, t) = w_A(t) - t x S_A / T, service received
//! minus service due, from the start. Over an interval [t1, t2] it is e_A(0, t2) - e_A(0, t1). Positive is
//! ahead, negative is behind.
//!
//! Between two quanta of its own a client only falls behind, during one it only gets ahead: its extremes lie
//! at the beginnings and ends of its own quanta, so that a decision costs O(1), not O(clients). Errors are
//! exact: integers with the denominator T.
//!
//! Shares 3, 2, 1 under WFQ (A B A A B C), error of C: -1/6, -2/6, ... -5/6 at t = 5, then +1 x its quantum:
//! 0 at t = 6.

use super::Discipline;
use schedlab_units::TaskId;

/// An exact error in quanta: `numerator / total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Most behind; numerator, at most 0.
    pub low: i64,
    /// Most ahead; numerator, at least 0.
    pub high: i64,
}

impl Range {
    #[inline]
    fn include(&mut self, error: i64) {
        self.low = self.low.min(error);
        self.high = self.high.max(error);
    }
}

/// Errors of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    /// Sum of the shares: the denominator of all numerators.
    pub total: u64,
    /// Of e(0, t) over all clients and all quantum edges.
    pub from_start: Range,
    /// Of e(t1, t2) over all clients and all pairs of quantum edges.
    pub intervals: Range,
    /// Whether each client has received exactly its due at the end.
    pub exact_at_end: bool,
}

impl Errors {
    /// Lowest and highest error from the start, in quanta.
    pub fn from_start_tu(&self) -> (f64, f64) {
        self.in_tu(self.from_start)
    }
    fn in_tu(&self, range: Range) -> (f64, f64) {
        (range.low as f64 / self.total as f64, range.high as f64 / self.total as f64)
    }
}

#[derive(Clone, Copy, Default)]
struct Client {
    received: i64,
    lowest: i64,
    highest: i64,
}

/// Serves clients 0, 1, ... with these shares, always runnable, in order of joining, for `quanta`; a quantum
/// is 1 unit of the discipline, which is fresh. Returns the errors; `served` sees each decision (client,
/// first quantum, number of quanta).
///
/// Bound: quanta x largest share < 2^63.
pub fn serve(
    discipline: &mut dyn Discipline,
    shares: &[u64],
    quanta: u64,
    mut served: impl FnMut(TaskId, u64, u64),
) -> Errors {
    let total: u64 = shares.iter().sum();
    let mut clients = vec![Client::default(); shares.len()];
    let mut from_start = Range::default();
    let mut intervals = Range::default();
    for (index, &share) in shares.iter().enumerate() {
        discipline.join(TaskId(index as u32), share);
    }
    let numerator = |received: i64, share: u64, t: u64| received * total as i64 - (t * share) as i64;
    let mut t = 0;
    while t < quanta {
        let client = discipline.select(&|_| true).expect("clients are always runnable");
        let length = discipline.slice(client).min(quanta - t);
        served(client, t, length);
        let state = &mut clients[client.index()];
        let share = shares[client.index()];
        let before = numerator(state.received, share, t);
        state.received += length as i64;
        t += length;
        let after = numerator(state.received, share, t);
        from_start.include(before);
        from_start.include(after);
        intervals.include(before - state.highest);
        state.lowest = state.lowest.min(before);
        intervals.include(after - state.lowest);
        state.highest = state.highest.max(after);
        discipline.charge(client, length);
        discipline.put(client);
    }
    let mut exact_at_end = true;
    for (state, &share) in clients.iter().zip(shares) {
        let error = numerator(state.received, share, t);
        from_start.include(error);
        intervals.include(error - state.highest);
        exact_at_end &= error == 0;
    }
    Errors { total, from_start, intervals, exact_at_end }
}

/// The order of service of the first quanta as letters: `ABCABA`.
pub fn order(discipline: &mut dyn Discipline, shares: &[u64], quanta: u64) -> String {
    let mut letters = String::new();
    serve(discipline, shares, quanta, |client, _, length| {
        (0..length).for_each(|_| letters.push(char::from(b'A' + client.0 as u8)));
    });
    letters
}
