//! Groups of bars: a group per scheduler, a bar per level.

use super::axis::{self, Axis, Scale, Unit};
use super::svg::Rule;
use super::{Anchor, Ink, Svg, colour, text_width};

/// A drawing of groups of bars.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Heading.
    pub title: String,
    /// What y is, with its unit.
    pub y_label: String,
    /// Spread along y; on a logarithmic axis bars begin at the power of ten below the smallest.
    pub y_scale: Scale,
    /// Names of the bars in each group.
    pub names: Vec<String>,
    /// Name and values of each group; `None` leaves a gap. Parts of a name after a comma and a space stand
    /// below each other.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
    /// Groups that belong together: a row of the drawing has as many such sets as fit. 0 and 1: any groups
    /// stand beside each other.
    pub set: usize,
}

const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const BELOW: f64 = 60.0;
const HEIGHT: f64 = 376.0;
/// The same of a drawing of several rows, for one of them.
const ROW_HEIGHT: f64 = 306.0;
const GROUP_MIN: f64 = 96.0;
const WIDTH_MIN: f64 = 560.0;
/// More groups in a row than these would have to be drawn too small to read.
const ROW_MAX: usize = 12;

impl Bars {
    /// As SVG.
    pub fn svg(&self) -> Svg {
        let per_row = self.per_row();
        let group_width = ((WIDTH_MIN - LEFT - 16.0) / per_row as f64).max(GROUP_MIN);
        let width = LEFT + group_width * per_row as f64 + 16.0;
        let rows: Vec<_> = self.groups.chunks(per_row).collect();
        let plot_height = if rows.len() > 1 { ROW_HEIGHT } else { HEIGHT } - TOP - BELOW;
        let row_height = plot_height + BELOW;
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let floor = match self.y_scale {
            Scale::Log => {
                let least = values().filter(|v| *v > 0.0).reduce(f64::min).unwrap_or(1.0);
                10f64.powf(least.log10().floor())
            }
            Scale::Linear | Scale::SymLog => 0.0,
        };
        let axis =
            Axis::fit(self.y_scale, values().filter(|v| *v > 0.0).chain([floor]), plot_height, axis::UP);
        let mut svg = Svg::new(width, TOP + row_height * rows.len().max(1) as f64);
        svg.title(12.0, 20.0, &self.title);
        let mut x = LEFT;
        for (index, name) in self.names.iter().enumerate() {
            svg.fill((x, 31.0), (11.0, 11.0), colour(index), 1.0, "");
            svg.words(x + 16.0, 41.0, Anchor::Start, Ink::Full, name);
            x += 34.0 + text_width(name);
        }
        for (row, groups) in rows.into_iter().enumerate() {
            let place = Place { top: TOP + row_height * row as f64, plot_height, group_width, floor };
            self.row(&mut svg, groups, &axis, &place);
        }
        svg
    }

    /// Groups in a row: whole sets, and rows of about one length.
    fn per_row(&self) -> usize {
        let set = self.set.max(1);
        let sets = self.groups.len().div_ceil(set).max(1);
        let most = (ROW_MAX / set).max(1);
        sets.div_ceil(sets.div_ceil(most)) * set
    }

    fn row(&self, svg: &mut Svg, groups: &[(String, Vec<Option<f64>>)], axis: &Axis, place: &Place) {
        let bottom = place.top + place.plot_height;
        let y_of = |value: f64| bottom - axis.at(value.max(place.floor));
        let right = LEFT + place.group_width * groups.len() as f64;
        for tick in axis.ticks() {
            let y = y_of(tick);
            svg.rule((LEFT, y), (right, y), Rule::Grid);
            svg.words(LEFT - 6.0, y + 4.0, Anchor::End, Ink::Soft, &Unit::Number.label(tick));
        }
        svg.turned(16.0, place.top + place.plot_height / 2.0, &self.y_label);
        let bar = place.group_width * 0.82 / self.names.len().max(1) as f64;
        for (index, (name, values)) in groups.iter().enumerate() {
            let left = LEFT + place.group_width * (index as f64 + 0.09);
            for (number, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let y = y_of(*value);
                let of = self.names.get(number).map_or("", String::as_str);
                let tip = format!("{name}, {of}: {}", crate::table::short(*value));
                svg.fill(
                    (left + bar * number as f64, y),
                    (bar * 0.92, bottom - y),
                    colour(number),
                    1.0,
                    &tip,
                );
            }
            for (row, part) in name.split(", ").enumerate() {
                let y = bottom + 18.0 + 15.0 * row as f64;
                svg.words(left + place.group_width * 0.41, y, Anchor::Middle, Ink::Full, part);
            }
        }
        svg.rule((LEFT, bottom), (right, bottom), Rule::Axis);
    }
}

/// Where a row of groups is drawn.
struct Place {
    top: f64,
    plot_height: f64,
    group_width: f64,
    floor: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values_and_gaps_stay_empty() {
        let bars = Bars {
            names: vec!["a".into(), "b".into()],
            groups: vec![("g".into(), vec![Some(10.0), None]), ("h".into(), vec![Some(5.0), Some(10.0)])],
            ..Bars::default()
        };
        let svg = bars.svg().text();
        let heights: Vec<&str> = svg
            .lines()
            .filter(|l| l.contains("<title>"))
            .map(|l| l.split("height=\"").nth(1).unwrap().split('"').next().unwrap())
            .collect();
        assert_eq!(heights, ["260.0", "130.0", "260.0"]);
    }

    #[test]
    fn many_groups_stand_in_rows_of_whole_sets() {
        let per_row = |groups: usize, set: usize| {
            Bars { groups: vec![(String::new(), Vec::new()); groups], set, ..Bars::default() }.per_row()
        };
        assert_eq!((per_row(0, 0), per_row(12, 0), per_row(13, 0)), (1, 12, 7));
        assert_eq!((per_row(20, 4), per_row(25, 5), per_row(14, 7)), (12, 10, 7));
    }
}
