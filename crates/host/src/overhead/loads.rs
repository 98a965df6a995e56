//! Three workloads whose recording is measured: one that does nothing but wake and block, one that computes,
//! one that waits for people.
//!
//! | load | like WARP's | what |
//! |---|---|---|
//! | `messages` | VolanoMark | 2 chat rooms of 10 people and a server; everybody says 500 times 100 bytes, which all in the room hear |
//! | `compress` | Gzip | `gzip -6` of 24 MB |
//! | `interactive` | Mozilla | 4 s of an editor (8 keys/s, 2 ms each, and a checker it wakes), a painter (60 Hz, 3 ms), a player (100 Hz, 0.3 ms) |

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Their names.
pub const LOADS: [&str; 3] = ["messages", "compress", "interactive"];

/// Runs the load of this name; false if there is none.
///
/// # Errors
/// What the system said.
pub fn run(name: &str) -> std::io::Result<bool> {
    match name {
        "messages" => messages()?,
        "compress" => compress()?,
        "interactive" => interactive(),
        _ => return Ok(false),
    }
    Ok(true)
}

const ROOMS: usize = 2;
const PEERS: usize = 10;
const ROUNDS: usize = 500;
const MESSAGE: usize = 100;

/// As VolanoMark's chat rooms: everybody hears everything, and speaks again when he has heard himself.
fn messages() -> std::io::Result<()> {
    let mut threads = Vec::new();
    for _ in 0..ROOMS {
        let (to_room, room) = UnixDatagram::pair()?;
        let mut ears = Vec::new();
        for peer in 0..PEERS {
            let (mouth, (ear, of_room)) = (to_room.try_clone()?, UnixDatagram::pair()?);
            ears.push(of_room);
            threads.push(std::thread::spawn(move || {
                let mut heard = [0; MESSAGE];
                for _ in 0..ROUNDS {
                    mouth.send(&[peer as u8; MESSAGE])?;
                    while ear.recv(&mut heard)? != MESSAGE || usize::from(heard[0]) != peer {}
                }
                // the others still speak
                while heard[0] != BYE && ear.recv(&mut heard)? > 0 {}
                Ok(())
            }));
        }
        threads.push(std::thread::spawn(move || {
            let mut message = [0; MESSAGE];
            for _ in 0..PEERS * ROUNDS {
                room.recv(&mut message)?;
                for ear in &ears {
                    ear.send(&message)?;
                }
            }
            ears.iter().try_for_each(|ear| ear.send(&[BYE; MESSAGE]).map(drop))
        }));
    }
    for thread in threads {
        thread.join().map_err(|_| std::io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

/// First byte of a room's last message.
const BYE: u8 = u8::MAX;

/// Digits of multiples: text that compresses about as text does, the same each time.
fn compress() -> std::io::Result<()> {
    let mut gzip = Command::new("gzip").arg("-6").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut text = Vec::with_capacity(1 << 16);
    let mut input = gzip.stdin.take().ok_or_else(|| std::io::Error::other("gzip has no input"))?;
    let (mut written, mut number) = (0, 0u32);
    while written < 24_000_000 {
        text.clear();
        while text.len() < 60_000 {
            number += 1;
            write!(text, "{:x} ", number.wrapping_mul(2_654_435_761))?;
        }
        input.write_all(&text)?;
        written += text.len();
    }
    drop(input);
    gzip.wait().map(drop)
}

/// Uses CPU time.
fn work(length: Duration) {
    let began = crate::drain::thread_cpu_time();
    while crate::drain::thread_cpu_time() - began < length {
        std::hint::spin_loop();
    }
}

/// Works now and then until the time is over.
fn every(period: Duration, length: Duration, end: Instant, mut each: impl FnMut()) {
    let mut next = Instant::now();
    while next < end {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        work(length);
        each();
        next += period;
    }
}

fn interactive() {
    let end = Instant::now() + Duration::from_secs(4);
    let ms = Duration::from_millis;
    std::thread::scope(|scope| {
        let (keys, checker) = mpsc::channel::<()>();
        scope.spawn(move || {
            while checker.recv().is_ok() {
                work(ms(5));
            }
        });
        scope.spawn(move || {
            every(ms(125), ms(2), end, || {
                // the checker lives as long as the editor
                let _ = keys.send(());
            })
        });
        scope.spawn(move || every(Duration::from_micros(16_667), ms(3), end, || {}));
        scope.spawn(move || every(ms(10), Duration::from_micros(300), end, || {}));
    });
}

/// Whether what a load needs is there.
pub(super) fn missing(name: &str) -> Option<&'static str> {
    let gzip = || ["/bin/gzip", "/usr/bin/gzip"].iter().any(|path| Path::new(path).exists());
    (name == "compress" && !gzip()).then_some("gzip is not installed")
}
