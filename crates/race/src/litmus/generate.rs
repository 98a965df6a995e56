//! Which litmus tests are there beside the kernel's own? As many as one likes, by number.
//!
//! Most are made as diy7 makes them (Alglave, Maranget et al., TACAS 2011): around a cycle. Each CPU has a first and a
//! last access, and what orders the two; each last access and the next CPU's first one are of the same variable:
//!
//! ```text
//! P0: W x  --smp_wmb-->  W y          rf            P1: R y  --address-->  R x          fr, back to P0
//! ```
//!
//! The rest are accesses drawn at random. The same number is the same text, so that verdicts are
//! kept by number.

use schedlab_stdx::Random;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Part of each test's seed. Another one makes other tests.
const SEED: u64 = 0x11_7a_05;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Load,
    Store,
}

use Direction::{Load, Store};

/// Between a CPU's first and its last access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Nothing,
    Full,
    Read,
    Write,
    Acquire,
    Release,
    /// The value that was loaded is stored.
    Data,
    /// The store is made only if the load saw a value.
    Control,
    /// The load gives the address.
    Address,
    /// `smp_mb__before_atomic()` and an operation without result.
    BeforeAtomic,
    AfterAtomic,
}

/// A test under construction.
struct Draft {
    random: Random,
    /// Of each CPU, its lines.
    lines: Vec<Vec<String>>,
    registers: Vec<Vec<String>>,
    /// Of each CPU the pointers among them.
    pointers: Vec<Vec<String>>,
    /// Integers stored to each variable so far.
    stored: [u32; VARIABLES.len()],
    used: [bool; VARIABLES.len()],
    /// Variable `p` points to `z` first, and is stored the address of this.
    pointee: Option<usize>,
    has_lock: bool,
    condition: Vec<String>,
}

const VARIABLES: [&str; 4] = ["x", "y", "z", "w"];

impl Draft {
    fn new(number: u64, cpus: usize) -> Draft {
        let empty = || vec![Vec::new(); cpus];
        Draft {
            random: Random::for_part(SEED, number),
            lines: empty(),
            registers: empty(),
            pointers: empty(),
            stored: [0; VARIABLES.len()],
            used: [false; VARIABLES.len()],
            pointee: None,
            has_lock: false,
            condition: Vec::new(),
        }
    }

    fn is(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn register(&mut self, cpu: usize) -> String {
        let name = format!("r{}", self.registers[cpu].len() + self.pointers[cpu].len());
        self.registers[cpu].push(name.clone());
        name
    }

    fn say(&mut self, cpu: usize, line: impl Into<String>) {
        self.lines[cpu].push(line.into());
    }

    /// A new value for a variable.
    fn value(&mut self, variable: usize) -> u32 {
        self.stored[variable] += 1;
        self.used[variable] = true;
        self.stored[variable]
    }

    /// A load; its register.
    fn load(&mut self, cpu: usize, variable: usize, is_acquire: bool) -> String {
        self.used[variable] = true;
        let (register, name) = (self.register(cpu), VARIABLES[variable]);
        let is_atomic = self.is(8);
        let line = match (is_acquire, is_atomic) {
            (true, false) => format!("{register} = smp_load_acquire({name});"),
            (false, false) => format!("{register} = READ_ONCE(*{name});"),
            (true, true) => format!("{register} = atomic_fetch_add_acquire(0, {name});"),
            (false, true) => format!("{register} = atomic_fetch_add_relaxed(0, {name});"),
        };
        self.say(cpu, line);
        register
    }

    /// A store of a new value; the value.
    fn store(&mut self, cpu: usize, variable: usize, is_release: bool) -> u32 {
        let (value, name) = (self.value(variable), VARIABLES[variable]);
        let exchanges = self.is(8);
        match (is_release, exchanges) {
            (true, false) => self.say(cpu, format!("smp_store_release({name}, {value});")),
            (false, false) => self.say(cpu, format!("WRITE_ONCE(*{name}, {value});")),
            (_, true) => {
                let register = self.register(cpu);
                let order = match is_release {
                    true => "_release",
                    false => *self.random.pick(&["", "_relaxed", "_acquire"]),
                };
                self.say(cpu, format!("{register} = xchg{order}({name}, {value});"));
            }
        }
        value
    }

    /// The two accesses of a CPU, with what stands between them. What the cycle asks of the first's register and of the
    /// values stored.
    fn pair(
        &mut self,
        cpu: usize,
        (first, a): (Direction, usize),
        (last, b): (Direction, usize),
        link: Link,
    ) -> Ends {
        if link == Link::Address {
            return self.address(cpu, (last, b));
        }
        let mut ends = Ends::default();
        match (first, link) {
            (Load, _) => ends.first = Some(self.load(cpu, a, link == Link::Acquire)),
            (Store, Link::AfterAtomic) => {
                self.used[a] = true;
                self.say(cpu, format!("atomic_inc({});", VARIABLES[a]));
            }
            (Store, _) => ends.stored_first = self.store(cpu, a, false),
        }
        match link {
            Link::Full => self.say(cpu, "smp_mb();"),
            Link::Read => self.say(cpu, "smp_rmb();"),
            Link::Write => self.say(cpu, "smp_wmb();"),
            Link::BeforeAtomic => self.say(cpu, "smp_mb__before_atomic();"),
            Link::AfterAtomic => self.say(cpu, "smp_mb__after_atomic();"),
            _ => {}
        }
        if self.is(12) {
            self.extra(cpu);
        }
        let register = ends.first.clone().unwrap_or_default();
        match (last, link) {
            (Load, _) => ends.last = Some(self.load(cpu, b, false)),
            (Store, Link::BeforeAtomic) => {
                self.used[b] = true;
                self.say(cpu, format!("atomic_inc({});", VARIABLES[b]));
            }
            (Store, Link::Data) => {
                self.used[b] = true;
                self.stored[b] += 1;
                self.say(cpu, format!("WRITE_ONCE(*{}, {register} + 1);", VARIABLES[b]));
            }
            (Store, Link::Control) => {
                let (value, name) = (self.value(b), VARIABLES[b]);
                self.say(cpu, format!("if ({register})"));
                self.say(cpu, format!("\tWRITE_ONCE(*{name}, {value});"));
                ends.stored_last = value;
            }
            (Store, _) => ends.stored_last = self.store(cpu, b, link == Link::Release),
        }
        ends
    }

    /// A CPU's only access.
    fn one(&mut self, cpu: usize, (what, variable): (Direction, usize)) -> Ends {
        let mut ends = Ends::default();
        match what {
            Load => ends.first = Some(self.load(cpu, variable, false)),
            Store => ends.stored_first = self.store(cpu, variable, false),
        }
        (ends.last, ends.stored_last) = (ends.first.clone(), ends.stored_first);
        ends
    }

    /// An access, then the address of a variable is stored to `p`.
    fn pointer(&mut self, cpu: usize, (first, a): (Direction, usize), pointee: usize) -> Ends {
        self.pointee = Some(pointee);
        self.used[pointee] = true;
        self.used[2] = true;
        let link = *self.random.pick(&[Link::Nothing, Link::Full, Link::Write, Link::Release, Link::Release]);
        let mut ends = Ends::default();
        match first {
            Load => ends.first = Some(self.load(cpu, a, false)),
            Store => ends.stored_first = self.store(cpu, a, false),
        }
        match link {
            Link::Full => self.say(cpu, "smp_mb();"),
            Link::Write => self.say(cpu, "smp_wmb();"),
            _ => {}
        }
        let name = VARIABLES[pointee];
        match link {
            Link::Release => self.say(cpu, format!("rcu_assign_pointer(*p, {name});")),
            _ => self.say(cpu, format!("WRITE_ONCE(*p, {name});")),
        }
        ends
    }

    /// `p` is loaded, and what it points to is loaded or stored to.
    fn address(&mut self, cpu: usize, (last, b): (Direction, usize)) -> Ends {
        let pointer = format!("r{}", self.registers[cpu].len() + self.pointers[cpu].len());
        self.pointers[cpu].push(pointer.clone());
        let load = *self.random.pick(&["rcu_dereference(*p)", "READ_ONCE(*p)"]);
        self.say(cpu, format!("{pointer} = {load};"));
        let mut ends = Ends::default();
        match last {
            Load => {
                let register = self.register(cpu);
                self.say(cpu, format!("{register} = READ_ONCE(*{pointer});"));
                ends.last = Some(register);
            }
            Store => {
                let value = self.value(b);
                self.say(cpu, format!("WRITE_ONCE(*{pointer}, {value});"));
                ends.stored_last = value;
            }
        }
        ends
    }

    /// An access that the cycle does not need.
    fn extra(&mut self, cpu: usize) {
        let variable = self.random.below(3) as usize;
        match self.is(50) {
            true => drop(self.load(cpu, variable, false)),
            false => drop(self.store(cpu, variable, false)),
        }
    }

    fn link(&mut self, first: Direction, last: Direction) -> Link {
        let links: &[Link] = match (first, last) {
            (Load, Load) => {
                &[Link::Nothing, Link::Full, Link::Read, Link::Read, Link::Acquire, Link::Acquire]
            }
            (Load, Store) => &[
                Link::Nothing,
                Link::Full,
                Link::Acquire,
                Link::Release,
                Link::Data,
                Link::Control,
                Link::BeforeAtomic,
            ],
            (Store, Load) => &[Link::Nothing, Link::Full, Link::Full, Link::Full, Link::AfterAtomic],
            (Store, Store) => {
                &[Link::Nothing, Link::Full, Link::Write, Link::Write, Link::Release, Link::BeforeAtomic]
            }
        };
        *self.random.pick(links)
    }

    /// The test without its first line.
    fn text(self) -> String {
        let mut text = "\n{".to_owned();
        if self.pointee.is_some() {
            text.push_str(" p = z; ");
        }
        text.push_str("}\n");
        let used = self.used.iter().zip(VARIABLES).filter(|(used, _)| **used).map(|(_, name)| name);
        let variables: Vec<&str> = used.collect();
        let mut params: Vec<String> = variables.iter().map(|name| format!("int *{name}")).collect();
        if self.pointee.is_some() {
            params.push("int **p".into());
        }
        if self.has_lock {
            params.push("spinlock_t *l".into());
        }
        let mut seen = Vec::new();
        for (cpu, lines) in self.lines.iter().enumerate() {
            let _ = writeln!(text, "\nP{cpu}({})\n{{", params.join(", "));
            for (kind, names) in [("int ", &self.registers[cpu]), ("int *", &self.pointers[cpu])] {
                for name in names {
                    let _ = writeln!(text, "\t{kind}{name};");
                    seen.push(format!("{cpu}:{name}"));
                }
            }
            for line in lines {
                let _ = writeln!(text, "\t{line}");
            }
            text.push_str("}\n");
        }
        seen.extend(variables.iter().map(|name| (*name).to_owned()));
        let condition = match self.condition.is_empty() {
            true => format!("{}=0", seen[0]),
            false => self.condition.join(" /\\ "),
        };
        let _ = writeln!(text, "\nlocations [{};]\nexists ({condition})", seen.join("; "));
        text
    }
}

/// What a CPU's part of a cycle leaves: registers, and values that were stored (0: none that is known).
#[derive(Clone, Debug, Default)]
struct Ends {
    first: Option<String>,
    last: Option<String>,
    stored_first: u32,
    stored_last: u32,
}

/// A cycle before its CPUs are written.
struct Plan {
    /// Each CPU's first and last access.
    parts: Vec<(Direction, Direction)>,
    /// The variable of each CPU's last access and the next one's first.
    between: Vec<usize>,
    /// A CPU whose first access is its last.
    single: Option<usize>,
}

fn plan(random: &mut Random, cpus: usize) -> Plan {
    let single = (cpus == 3 && random.below(100) < 45).then(|| random.below(3) as usize);
    let direction = |random: &mut Random| if random.below(2) == 0 { Load } else { Store };
    let mut parts: Vec<(Direction, Direction)>;
    loop {
        parts = (0..cpus).map(|_| (direction(random), direction(random))).collect();
        if let Some(single) = single {
            parts[single].1 = parts[single].0;
        }
        let communicates = |cpu: usize| parts[cpu].1 == Store || parts[(cpu + 1) % cpus].0 == Store;
        if (0..cpus).all(communicates) {
            break;
        }
    }
    let mut variable = 0;
    let mut between = Vec::new();
    for cpu in 0..cpus {
        variable += usize::from(single != Some(cpu) || cpu == 0);
        between.push(variable - 1);
    }
    if single == Some(0) {
        between[0] = between[cpus - 1];
    }
    Plan { parts, between, single }
}

/// Around a cycle of communication.
fn cycle(number: u64) -> String {
    let mut random = Random::for_part(SEED + 1, number);
    let cpus = if random.below(100) < 55 { 2 } else { 3 };
    let Plan { parts, between, single } = plan(&mut random, cpus);
    let mut draft = Draft::new(number, cpus);
    // a pointer takes one variable's place: where a store is followed by a CPU that begins with a load
    let may_point = |cpu: usize| {
        let next = (cpu + 1) % cpus;
        parts[cpu].1 == Store && parts[next].0 == Load && single != Some(cpu) && single != Some(next)
    };
    let pointing = (0..cpus).find(|cpu| may_point(*cpu)).filter(|_| draft.is(25));
    let mut ends = Vec::new();
    for cpu in 0..cpus {
        let before = (cpu + cpus - 1) % cpus;
        let (a, b) = (between[before], between[cpu]);
        let (first, last) = parts[cpu];
        ends.push(if single == Some(cpu) {
            draft.one(cpu, (first, a))
        } else if pointing == Some(cpu) {
            draft.pointer(cpu, (first, a), between[(cpu + 1) % cpus])
        } else {
            let link = if pointing == Some(before) { Link::Address } else { draft.link(first, last) };
            draft.pair(cpu, (first, a), (last, b), link)
        });
    }
    for cpu in 0..cpus {
        let next = (cpu + 1) % cpus;
        let (mine, theirs) = (&ends[cpu], &ends[next]);
        match (&mine.last, parts[cpu].1, &theirs.first, parts[next].0) {
            // the next CPU sees what was stored
            (_, Store, Some(register), _) if mine.stored_last > 0 => {
                draft.condition.push(format!("{next}:{register}={}", mine.stored_last));
            }
            // this one does not see what is stored
            (Some(register), Load, _, Store) => draft.condition.push(format!("{cpu}:{register}=0")),
            (_, Store, None, Store) if theirs.stored_first > 0 => {
                draft.condition.push(format!("{}={}", VARIABLES[between[cpu]], theirs.stored_first));
            }
            _ => {}
        }
    }
    draft.text()
}

/// Accesses at random.
fn mixture(number: u64) -> String {
    let mut random = Random::for_part(SEED + 2, number);
    let cpus = if random.below(100) < 60 { 2 } else { 3 };
    let mut draft = Draft::new(number, cpus);
    let locked = draft.is(20);
    draft.has_lock = locked;
    for cpu in 0..cpus {
        let holds = locked && draft.is(75);
        if holds {
            draft.say(cpu, "spin_lock(l);");
        }
        let accesses = if cpus == 3 { 2 } else { 2 + draft.random.below(2) };
        for n in 0..accesses {
            if n > 0 && draft.is(45) {
                let barrier = *draft.random.pick(&["smp_mb();", "smp_rmb();", "smp_wmb();"]);
                draft.say(cpu, barrier);
            }
            let variable = draft.random.below(if cpus == 3 { 2 } else { 3 }) as usize;
            match draft.random.below(10) {
                0..=3 => drop(draft.load(cpu, variable, n % 2 == 0 && accesses == 2)),
                4..=6 => drop(draft.store(cpu, variable, n == 1)),
                7 => {
                    draft.used[variable] = true;
                    draft.say(cpu, format!("atomic_inc({});", VARIABLES[variable]));
                }
                8 => {
                    draft.used[variable] = true;
                    let register = draft.register(cpu);
                    let order = *draft.random.pick(&["", "_relaxed", "_acquire", "_release"]);
                    draft.say(
                        cpu,
                        format!("{register} = atomic_add_return{order}(1, {});", VARIABLES[variable]),
                    );
                }
                _ => {
                    let (value, register) = (draft.value(variable), draft.register(cpu));
                    let order = *draft.random.pick(&["", "_relaxed", "_acquire", "_release"]);
                    let name = VARIABLES[variable];
                    draft.say(cpu, format!("{register} = cmpxchg{order}({name}, 0, {value});"));
                }
            }
        }
        if holds {
            draft.say(cpu, "spin_unlock(l);");
        }
    }
    draft.text()
}

/// The tests in the kernel's form, each another one, without end.
pub fn tests() -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let drawn = (0..).map(|number| match number % 4 {
        3 => mixture(number),
        _ => cycle(number),
    });
    let distinct = drawn.filter(move |text| seen.insert(text.clone()));
    distinct.enumerate().map(|(number, text)| format!("C generated-{number}\n{text}"))
}
