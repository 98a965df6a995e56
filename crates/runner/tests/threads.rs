//! A live program with many threads makes many runs: none hangs, no process and no file is left. (One test:
//! it counts what its own process has.)

use schedlab_machine::drawn::Life::*;
use schedlab_machine::drawn::workload;
use schedlab_runner::{RunEnd, RunRequest, Scheduler, end_idle, pool, run};
use schedlab_topology::Topology;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const JOBS: usize = 1000;

fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(|task| of(task).split_whitespace().count()).sum()
}

/// (One of them is that by which they are counted.)
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What other threads of a program do while it runs things: they hold locks, allocate, print, panic.
fn bustle(over: &AtomicBool, shared: &Mutex<Vec<u8>>, number: usize) {
    let mut nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
    while !over.load(Ordering::Relaxed) {
        match number % 4 {
            0 => {
                let mut held = shared.lock().unwrap();
                held.clear();
                held.extend_from_slice(&[7; 5000]);
                std::thread::yield_now();
            }
            1 => drop((1..40).map(|size| vec![1_u8; size * 1000]).collect::<Vec<_>>()),
            2 => {
                let mut held = std::io::stderr().lock();
                held.flush().unwrap();
                nowhere.write_all(b"a line\n").unwrap();
            }
            _ => assert!(std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(1))).is_err()),
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn a_thousand_jobs_of_a_program_with_sixteen_threads() {
    let workloads = [workload(&[&[Run(1), Sleep(1), Run(1)], &[Run(1)]]), workload(&[&[Run(3)][..]; 5])];
    let schedulers =
        ["fifo", "rr", "eevdf"].map(|name| Scheduler::Native(schedlab_policies::find(name).unwrap()));
    let one = |index: usize| {
        let request = RunRequest::new(
            &workloads[index % workloads.len()],
            &schedulers[index % schedulers.len()],
            Topology::flat(1 + index as u32 % 3).unwrap(),
        );
        let result = run(&request).unwrap();
        assert_eq!(result.report.end, RunEnd::AllDone);
        let mut log = Vec::new();
        std::io::Read::read_to_end(&mut &result.spill, &mut log).unwrap();
        assert!(!log.is_empty());
        (result.report.duration_ns, log)
    };
    let kinds: Vec<_> = (0..6).map(one).collect();
    end_idle();
    let files = open_files();
    assert_eq!(children(), 0);
    let (over, shared, nr_bustling) = (AtomicBool::new(false), Mutex::new(Vec::new()), AtomicU64::new(0));
    let begun = Instant::now();
    let results = std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (over, shared, nr_bustling) = (&over, &shared, &nr_bustling);
            scope.spawn(move || {
                nr_bustling.fetch_add(1, Ordering::Relaxed);
                bustle(over, shared, number);
            });
        }
        while nr_bustling.load(Ordering::Relaxed) < THREADS as u64 {
            std::thread::yield_now();
        }
        let results = pool::map(JOBS, THREADS, one, |_| {});
        over.store(true, Ordering::Relaxed);
        results
    });
    for (index, result) in results.unwrap().into_iter().enumerate() {
        assert_eq!(result.unwrap(), kinds[index % kinds.len()], "job {index}");
    }
    println!("{JOBS} jobs in {:?}", begun.elapsed());
    // at most one worker for each thread
    assert!((1..=THREADS).contains(&children()), "{} children", children());
    end_idle();
    assert_eq!((children(), open_files()), (0, files));
}
