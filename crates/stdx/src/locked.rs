//! What happens to a lock when a thread panics while it holds it?
//!
//! What this project keeps behind locks is changed by single steps, so it is whole after a panic: others go on with it.

use std::sync::{Mutex, MutexGuard};

/// Waits for a lock, whatever became of those that held it before.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// let kept = Arc::new(Mutex::new(1));
/// let other = Arc::clone(&kept);
/// let _ = std::thread::spawn(move || { let _held = other.lock(); panic!("while it is held") }).join();
/// assert!(kept.is_poisoned());
/// assert_eq!(*schedlab_stdx::lock(&kept), 1);
/// ```
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
