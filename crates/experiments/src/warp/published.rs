//! What the paper prints.
//!
//! Haoqiang Zheng, Jason Nieh: WARP: Enabling Fast CPU Scheduler Development and Evaluation. Section V.
//! Figures 7 to 10 carry no digits: of them, what the text says of them.

/// A row of figure 6.
pub(super) struct Speed {
    /// The workload.
    pub workload: &'static str,
    /// Speed-up of WARP over Linux.
    pub warp: f64,
    /// Speed-up of the optimum: the scheduler's functions alone.
    pub optimal: f64,
}

/// Figure 6, with the digits of section V.B.
pub(super) const SPEED: [Speed; 4] = [
    Speed { workload: "gzip", warp: 1666.0, optimal: 2856.0 },
    Speed { workload: "Mozilla", warp: 1136.0, optimal: 1909.0 },
    Speed { workload: "kernel compile", warp: 1845.0, optimal: 2581.0 },
    Speed { workload: "VolanoMark", warp: 370.0, optimal: 862.0 },
];

/// Section V.C: logging an event, in us.
pub(super) const EVENT_US: [(&str, f64); 5] =
    [("FORK", 0.74), ("BLOCK", 0.18), ("WAKEUP", 0.19), ("PRIO", 0.19), ("EXIT", 0.33)];

/// Section V.C: bringing an event from the buffer to the file, in us.
pub(super) const FILE_US: [(&str, f64); 3] = [("Mozilla", 0.46), ("Gzip", 0.55), ("VolanoMark", 0.30)];

/// Figure 8, as the text gives it, at nice -20, -10, 0, 10, 19: time slices in ms, and for EBS shares.
pub(super) const DESIGN: [(&str, [f64; 5]); 3] = [
    ("linux-2.4", [110.0, 80.0, 60.0, 30.0, 10.0]),
    ("o1-2.6.7", [200.0, 151.0, 102.0, 53.0, 10.0]),
    ("ebs", [420.0, 120.0, 20.0, 10.0, 1.0]),
];

/// The nice values of fairbench.
pub(super) const NICES: [i32; 5] = [-20, -10, 0, 10, 19];
