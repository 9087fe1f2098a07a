//! What all charts share: the colours of stores, where axes end, and where labels stand.

use plotters::style::RGBColor;

/// The colour of each store that charts know, by the name without what comes behind a colon, or by
/// the whole name for ours. People who see two of the three primary colours tell ours apart (after
/// Okabe and Ito); a test simulates it.
pub const STORES: [(&str, RGBColor); 29] = [
    ("silica:wip", RGBColor(0, 114, 178)),
    ("silica:silt", RGBColor(230, 159, 0)),
    ("silica:mica", RGBColor(0, 158, 115)),
    ("silica:dida", RGBColor(204, 121, 167)),
    ("silica:turbo", RGBColor(86, 180, 233)),
    ("silica:sptree", RGBColor(213, 94, 0)),
    ("silica:mica-store", RGBColor(0, 158, 115)),
    ("silica:store", RGBColor(0, 114, 178)),
    ("silica:cache", RGBColor(0, 158, 115)),
    ("silica:tcp", RGBColor(0, 158, 115)),
    ("silica:udp", RGBColor(86, 180, 233)),
    ("silica:datagram", RGBColor(204, 121, 167)),
    ("silica:sql", RGBColor(0, 114, 178)),
    ("silica:sql-prepared", RGBColor(86, 180, 233)),
    ("rocksdb", RGBColor(136, 34, 85)),
    ("leveldb", RGBColor(153, 153, 51)),
    ("lmdb", RGBColor(51, 34, 136)),
    ("sqlite", RGBColor(68, 170, 153)),
    ("redb", RGBColor(170, 68, 153)),
    ("fjall", RGBColor(102, 68, 0)),
    ("redis", RGBColor(204, 51, 17)),
    ("memcached", RGBColor(17, 119, 51)),
    ("foyer", RGBColor(120, 94, 240)),
    ("quick_cache", RGBColor(100, 143, 180)),
    ("hashbrown", RGBColor(90, 90, 90)),
    ("dashmap", RGBColor(150, 110, 60)),
    ("papaya", RGBColor(190, 90, 90)),
    ("scc", RGBColor(110, 130, 60)),
    ("limit", RGBColor(150, 150, 150)),
];

/// Colours of series that are no stores, in their order.
pub const SERIES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// The colour of the store `name`, the same in every chart; `None` if no store is called so.
pub fn of_store(name: &str) -> Option<RGBColor> {
    let ours = format!("silica:{name}");
    let other = name.split(':').next().unwrap_or(name);
    let find = |wanted: &str| STORES.iter().find(|(known, _)| *known == wanted);
    find(name).or_else(|| find(&ours)).or_else(|| find(other)).map(|(_, colour)| *colour)
}

/// The colour of the series `name`, the `index`th of its chart: its store's, or the next of those
/// that are no store's.
pub fn of_series(name: &str, index: usize) -> RGBColor {
    of_store(name).unwrap_or(SERIES[index % SERIES.len()])
}

/// All of a share in `unit`, if that is one: 100 for percent, 1 for a part.
fn whole_of(unit: &str) -> Option<f64> {
    let percent = unit.contains('%') || unit.contains("percent");
    let part = ["share", "part of", "hit ratio", "probability"];
    let is_part = part.iter().any(|word| unit.starts_with(word));
    if percent { Some(100.0) } else { is_part.then_some(1.0) }
}

/// Where an axis that begins at 0 ends, if `most` is the largest value on it and `unit` its title:
/// at a round number, and never behind the whole of a share unless values are.
pub fn axis_end(most: f64, unit: &str) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return whole_of(unit).unwrap_or(1.0);
    }
    let power = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let round = steps.iter().map(|step| step * power).find(|end| *end >= most * (1.0 - 1e-9));
    let round = round.unwrap_or(10.0 * power);
    match whole_of(unit) {
        Some(whole) if most <= whole => round.min(whole),
        _ => round,
    }
}

/// Where labels stand that are wanted at these heights, so that they are `step` apart and between
/// `top` and `bottom`, as near to what is wanted as goes.
pub fn spread(wanted: &[i32], step: i32, top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| wanted[*index]);
    let mut places = wanted.to_vec();
    let mut least = top;
    for index in &order {
        places[*index] = places[*index].max(least);
        least = places[*index] + step;
    }
    let mut most = bottom;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(most);
        most = places[*index] - step;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a person without cones for red (`is_red`) or for green sees: linear light by the
    /// matrices of Viénot, Brettel and Mollon (1999).
    fn seen(colour: RGBColor, is_red: bool) -> [f64; 3] {
        let linear = |part: u8| (f64::from(part) / 255.0).powf(2.2);
        let [r, g, b] = [colour.0, colour.1, colour.2].map(linear);
        let (one, other) = if is_red { (0.11238, 0.00401) } else { (0.29275, -0.02234) };
        let yellow = one * r + (1.0 - one) * g;
        [yellow, yellow, other * r - other * g + b].map(|part| part.max(0.0).powf(1.0 / 2.2))
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn our_engines_are_told_apart_by_everybody() {
        let engines = ["wip", "silt", "mica", "dida", "turbo", "sptree"];
        for (n, one) in engines.iter().enumerate() {
            for other in &engines[n + 1..] {
                let [a, b] = [one, other].map(|name| of_store(name).expect("it is in the table"));
                for is_red in [true, false] {
                    let far = distance(seen(a, is_red), seen(b, is_red));
                    assert!(far > 0.1, "{one} and {other}: {far}");
                }
            }
        }
        let [wip, silt] = ["silica:wip", "silica:silt"].map(|name| of_store(name).unwrap());
        assert!(distance(seen(wip, true), seen(silt, true)) > 0.5);
        assert!(distance(seen(wip, false), seen(silt, false)) > 0.5);
    }

    #[test]
    fn a_store_has_one_colour_in_every_chart() {
        assert_eq!(of_store("wip"), of_store("silica:wip"));
        assert_eq!(of_store("rocksdb:lz4"), of_store("rocksdb"));
        assert_eq!(of_store("gets"), None);
        assert_eq!(of_series("silt", 0), of_series("silica:silt", 5));
        assert_ne!(of_series("gets", 0), of_series("puts", 1));
        let mut names: Vec<&str> = STORES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STORES.len(), "a name stands twice");
        // White ground: nothing paler than 3 : 1 but the bright yellow-orange and sky of the set.
        let peers = STORES.iter().filter(|(name, _)| !name.starts_with("silica"));
        for (name, RGBColor(r, g, b)) in peers {
            let light = 0.2126 * f64::from(*r) + 0.7152 * f64::from(*g) + 0.0722 * f64::from(*b);
            assert!(light < 160.0, "{name} is too pale");
        }
    }

    #[test]
    fn axes_of_shares_end_at_the_whole() {
        assert_eq!(axis_end(97.0, "percent"), 100.0);
        assert_eq!(axis_end(100.0, "hits, %"), 100.0);
        assert_eq!(axis_end(14.0, "percent"), 15.0);
        assert_eq!(axis_end(0.97, "share of reads"), 1.0);
        assert_eq!(axis_end(0.0, "percent"), 100.0);
        // More than all is shown as it is, and other units know no whole.
        assert_eq!(axis_end(130.0, "percent"), 150.0);
        assert_eq!(axis_end(97.0, "MiB"), 100.0);
        assert_eq!(
            [1.01, 2.0, 87.0, 8100.0].map(|most| axis_end(most, "")),
            [1.2, 2.0, 100.0, 1e4]
        );
    }

    #[test]
    fn labels_keep_their_distance_inside_the_chart() {
        assert_eq!(spread(&[50, 200], 18, 20, 300), [50, 200]);
        assert_eq!(spread(&[100, 101, 102], 18, 20, 300), [100, 118, 136]);
        assert_eq!(spread(&[299, 300], 18, 20, 300), [282, 300]);
        assert_eq!(spread(&[0, 300, 300], 18, 20, 300), [20, 282, 300]);
    }
}
