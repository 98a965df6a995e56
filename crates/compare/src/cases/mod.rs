//! What is run? A workload under several schedulers and seeds, and whose numbers are compared.

pub mod ensemble;
pub mod subjects;
