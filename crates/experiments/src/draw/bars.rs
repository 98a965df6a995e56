//! Groups of bars: a group per scheduler, a bar per level.

use super::axis::{Axis, Scale, label};
use super::{colour, line, open_svg, px, text};

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
    /// Name and values of each group; `None` leaves a gap. Parts of a name after a comma and a space stand below each other.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
}

const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const BELOW: f64 = 60.0;
const HEIGHT: f64 = 376.0;
const GROUP_MIN: f64 = 96.0;
const WIDTH_MIN: f64 = 560.0;

impl Bars {
    /// As SVG.
    pub fn svg(&self) -> String {
        let group_width = ((WIDTH_MIN - LEFT - 16.0) / self.groups.len().max(1) as f64).max(GROUP_MIN);
        let width = LEFT + group_width * self.groups.len() as f64 + 16.0;
        let plot_height = HEIGHT - TOP - BELOW;
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let floor = match self.y_scale {
            Scale::Log => 10f64.powf(values().filter(|v| *v > 0.0).fold(f64::MAX, f64::min).log10().floor()),
            Scale::Linear | Scale::SymLog => 0.0,
        };
        let axis = Axis::fit(self.y_scale, values().filter(|v| *v > 0.0).chain([floor]), plot_height);
        let y_of = |value: f64| TOP + plot_height - axis.at(value.max(floor));
        let mut svg = open_svg(width, HEIGHT);
        text(&mut svg, 12.0, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", &self.title);
        let mut x = LEFT;
        for (index, name) in self.names.iter().enumerate() {
            svg += &format!(
                "<rect x=\"{}\" y=\"31\" width=\"11\" height=\"11\" fill=\"{}\"/>\n",
                px(x),
                colour(index)
            );
            text(&mut svg, x + 16.0, 41.0, "start", "", name);
            x += 34.0 + 7.0 * name.chars().count() as f64;
        }
        for tick in axis.ticks() {
            let y = y_of(tick);
            line(&mut svg, (LEFT, y), (width - 16.0, y), "stroke=\"#e4e4e4\"");
            text(&mut svg, LEFT - 6.0, y + 4.0, "end", "fill=\"#444\"", &label(tick));
        }
        let middle = TOP + plot_height / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {})\"", px(middle));
        text(&mut svg, 16.0, middle, "middle", &turned, &self.y_label);
        let bar = group_width * 0.82 / self.names.len().max(1) as f64;
        for (index, (name, values)) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * (index as f64 + 0.09);
            for (place, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let y = y_of(*value);
                svg += &format!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{name}, {}: {}</title></rect>\n",
                    px(left + bar * place as f64),
                    px(y),
                    px(bar * 0.92),
                    px(TOP + plot_height - y),
                    colour(place),
                    self.names.get(place).map_or("", String::as_str),
                    crate::table::short(*value),
                );
            }
            for (row, part) in name.split(", ").enumerate() {
                let y = HEIGHT - BELOW + 18.0 + 15.0 * row as f64;
                text(&mut svg, left + group_width * 0.41, y, "middle", "", part);
            }
        }
        line(&mut svg, (LEFT, TOP + plot_height), (width - 16.0, TOP + plot_height), "stroke=\"#888\"");
        svg + "</svg>\n"
    }
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
        let svg = bars.svg();
        let heights: Vec<&str> = svg
            .lines()
            .filter(|l| l.contains("<title>"))
            .map(|l| l.split("height=\"").nth(1).unwrap().split('"').next().unwrap())
            .collect();
        assert_eq!(heights, ["260.0", "130.0", "260.0"]);
    }
}
