//! Prints what papers say of old schedulers beside what their native models do.

fn main() {
    let table = schedlab_experiments::history::table().expect("the schedulers are registered");
    for row in 0..table.rows.len() {
        println!(
            "{:<12} {:<11} {:<75} {:>18} {:>12} {}",
            table.text(row, "place"),
            table.text(row, "sched"),
            table.text(row, "quantity"),
            table.text(row, "published"),
            table.number(row, "here").unwrap_or_default(),
            table.text(row, "verdict")
        );
    }
}
