//! Which of many streams has the earliest event? A binary heap of (time, stream), least first, whose first
//! row is changed in place: one step of the merge costs one sift, not a pop and a push.

/// Puts the first row where it belongs.
#[inline(always)]
pub(crate) fn sift_down(heap: &mut [(u64, u32)]) {
    let mut parent = 0;
    loop {
        let mut child = 2 * parent + 1;
        if child >= heap.len() {
            return;
        }
        if child + 1 < heap.len() && heap[child + 1] < heap[child] {
            child += 1;
        }
        if heap[parent] <= heap[child] {
            return;
        }
        heap.swap(parent, child);
        parent = child;
    }
}

/// The first stream has advanced to `time`, or has ended (`None`).
#[inline(always)]
pub(crate) fn replace_first(heap: &mut Vec<(u64, u32)>, time: Option<u64>) {
    match time {
        Some(time) => heap[0].0 = time,
        None => {
            heap.swap_remove(0);
        }
    }
    sift_down(heap);
}
