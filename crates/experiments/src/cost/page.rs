//! The drawings of costs and their page.

use super::{Cost, Row};
use schedlab_report::chart::{Chart, Drawing, Scale, Series, Style};
use schedlab_report::pages::{OutputError, Pages};
use std::path::{Path, PathBuf};

type Pick = fn(&Row) -> Option<f64>;

/// A drawing each: end of its file name, and words.
const FAMILIES: [(&str, &str); 4] = [
    ("shares", "proportional share"),
    ("linux", "Linux's own and real Linux"),
    ("realtime", "real time"),
    ("others", "others"),
];

/// The end of the name of the drawing in which a scheduler is.
fn family(label: &str) -> &'static str {
    match label {
        "wrr" | "drr" | "wfq" | "wfq-list" | "sfq" | "wf2q" | "stride" | "lottery" | "vtrr"
        | "eevdf-1995" => "shares",
        "posix" | "cbs" | "gedf" | "pedf" | "rm" => "realtime",
        "eevdf" => "linux",
        _ if ["linux-", "o1-", "cfs-"].iter().any(|start| label.starts_with(start)) => "linux",
        _ => "others",
    }
}

impl Cost {
    fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !labels.contains(&row.label.as_str()) {
                labels.push(&row.label);
            }
        }
        labels
    }

    /// A quantity against the number of clients for the policies whose label is in `labels`; `None` if
    /// nothing was measured.
    pub fn drawing(
        &self,
        name: &str,
        title: &str,
        unit: &str,
        labels: &[&str],
        pick: Pick,
    ) -> Option<Drawing> {
        let curve = |label: &&str| {
            let rows = self.rows.iter().filter(|row| row.label == **label);
            let points: Vec<_> =
                rows.filter_map(|row| Some((f64::from(row.nr_clients), pick(row)?))).collect();
            (!points.is_empty()).then(|| Series::new(*label, points, Style::Line))
        };
        let series: Vec<Series> = labels.iter().filter_map(curve).collect();
        if series.is_empty() {
            return None;
        }
        let chart = Chart {
            title: title.into(),
            x_label: "number of clients".into(),
            y_label: unit.into(),
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            series,
            ..Chart::default()
        };
        let caption =
            "Both axes are logarithmic: a constant cost is level, a linear one rises by a decade per decade.";
        Some(Drawing { name: name.into(), caption: caption.into(), svg: chart.svg() })
    }

    /// Tables and drawings together.
    pub fn pages(&self) -> Pages {
        let labels = self.labels();
        let main: Vec<&str> = labels.iter().copied().filter(|label| !label.contains(':')).collect();
        let paper = ["vtrr", "wfq", "wfq-list", "linux-2.2", "linux-2.4"];
        let paper: Vec<&str> = paper.into_iter().filter(|label| labels.contains(label)).collect();
        let variants: Vec<&str> = labels.iter().copied().filter(|label| label.starts_with("vtrr")).collect();
        let select: Pick = |row| row.select_instructions;
        let select_ns: Pick = |row| row.select_wall_ns;
        let enqueue: Pick = |row| row.enqueue_instructions;
        let mut drawings = Vec::new();
        drawings.extend(self.drawing(
            "cost-paper",
            "Choosing the next client: the paper's schedulers",
            "instructions",
            &paper,
            select,
        ));
        drawings.extend(self.drawing(
            "cost-paper-ns",
            "Choosing the next client: the paper's schedulers",
            "ns",
            &paper,
            select_ns,
        ));
        for (name, words) in FAMILIES {
            let members: Vec<&str> = main.iter().copied().filter(|label| family(label) == name).collect();
            let title = format!("Choosing the next client: {words}");
            drawings.extend(self.drawing(
                &format!("cost-select-{name}"),
                &title,
                "instructions",
                &members,
                select,
            ));
        }
        drawings.extend(self.drawing(
            "cost-vtrr-enqueue",
            "A client comes back: VTRR's variants",
            "instructions",
            &variants,
            enqueue,
        ));
        Pages {
            title: "Cost of scheduling".into(),
            remarks: self.remarks.clone(),
            drawings,
            tables: std::iter::once(self.table()).chain(self.ratios()).collect(),
        }
    }

    /// Writes table, drawings and page into a folder; returns the paths, the page first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        self.pages().write(folder)
    }
}
