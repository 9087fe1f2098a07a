//! Cells of the earth's surface, and distances on it.
//!
//! Longitude and latitude are halved in turn: the bits of both, one after the other, are the number
//! of a cell, and cells beside one another mostly have numbers beside one another. A sorted set has
//! the numbers of the smallest cells, of 52 bits, as scores. Latitudes end near the poles, at those
//! of the Mercator projection.

use std::f64::consts::PI;

/// Latitudes that there are.
const LATITUDE_MAX: f64 = 85.05112878;
/// Longitudes that there are.
const LONGITUDE_MAX: f64 = 180.0;
/// Halvings of longitude and of latitude that a score has room for.
pub(super) const STEPS_MAX: u32 = 26;
/// The earth's radius in meters, as Redis has it.
const EARTH_RADIUS: f64 = 6372797.560856;
/// Half of the equator in the Mercator projection, in meters.
const MERCATOR_MAX: f64 = 20037726.37;

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// A place on the earth, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Place {
    /// True if cells can tell it.
    pub(super) fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The middle of the cell that a score stands for.
    pub(super) fn of_score(score: f64) -> Place {
        let (x, y) = separate(score as u64);
        let area = Cell { x, y, steps: STEPS_MAX }.area();
        let middle = |min: f64, max: f64, limit: f64| ((min + max) / 2.0).clamp(-limit, limit);
        Place {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// The score of the cell that it lies in.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX).scores().0
    }

    /// Meters to another place, by the haversine formula.
    pub(super) fn distance(self, other: Place) -> f64 {
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = ((to - from) / 2.0).sin();
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        2.0 * EARTH_RADIUS * (u * u + from.cos() * to.cos() * v * v).sqrt().asin()
    }

    /// The name of its cell in base 32, as geohash.org has it; it has 11 letters, the last of which
    /// no bits are left for.
    pub(super) fn name(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let x = part(self.longitude, LONGITUDE_MAX, STEPS_MAX);
        let bits = interleave(x, part(self.latitude, 90.0, STEPS_MAX));
        let letter = |at: u32| match at {
            10 => LETTERS[0],
            at => LETTERS[(bits >> (2 * STEPS_MAX - 5 * (at + 1)) & 31) as usize],
        };
        std::array::from_fn(|at| letter(at as u32))
    }
}

/// Which of the parts between `-limit` and `limit`, which were halved `steps` times, has `degrees`.
fn part(degrees: f64, limit: f64, steps: u32) -> u32 {
    ((degrees + limit) / (2.0 * limit) * (1u64 << steps) as f64) as u32
}

/// The bits of a number, with room for another's between them.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The number whose bits are those of `bits` at even places.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

fn interleave(x: u32, y: u32) -> u64 {
    spread(x) << 1 | spread(y)
}

fn separate(bits: u64) -> (u32, u32) {
    (gather(bits >> 1), gather(bits))
}

/// A part of the surface, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) west: f64,
    pub(super) east: f64,
    pub(super) south: f64,
    pub(super) north: f64,
}

/// A cell: which part of the longitudes and latitudes it is, each halved so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    x: u32,
    y: u32,
    steps: u32,
}

impl Cell {
    fn of(place: Place, steps: u32) -> Cell {
        let last = (1 << steps) - 1;
        Cell {
            x: part(place.longitude, LONGITUDE_MAX, steps).min(last),
            y: part(place.latitude, LATITUDE_MAX, steps).min(last),
            steps,
        }
    }

    fn area(self) -> Area {
        let edge = |part: u32, limit: f64| {
            -limit + f64::from(part) / (1u64 << self.steps) as f64 * (2.0 * limit)
        };
        Area {
            west: edge(self.x, LONGITUDE_MAX),
            east: edge(self.x + 1, LONGITUDE_MAX),
            south: edge(self.y, LATITUDE_MAX),
            north: edge(self.y + 1, LATITUDE_MAX),
        }
    }

    /// The cell `x` to the east and `y` to the north; behind the last one comes the first.
    fn beside(self, x: i32, y: i32) -> Cell {
        let mask = (1 << self.steps) - 1;
        let moved = |part: u32, by: i32| part.wrapping_add_signed(by) & mask;
        Cell { x: moved(self.x, x), y: moved(self.y, y), ..self }
    }

    /// The scores of places in it: from the first one on and below the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let bits = interleave(self.x, self.y);
        let shift = 2 * (STEPS_MAX - self.steps);
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }
}

/// What is searched: the places within a distance, or in a box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// Its radius in meters.
    Circle(f64),
    /// Its width and height in meters.
    Box(f64, f64),
}

impl Shape {
    /// The distance of `place` from the middle, if it is inside.
    pub(super) fn distance(self, middle: Place, place: Place) -> Option<f64> {
        let distance = middle.distance(place);
        let is_inside = match self {
            Shape::Circle(radius) => distance <= radius,
            Shape::Box(width, height) => {
                let beside = Place { longitude: middle.longitude, ..place };
                let above = Place { latitude: middle.latitude, ..place };
                place.distance(beside) <= width / 2.0 && place.distance(above) <= height / 2.0
            }
        };
        is_inside.then_some(distance)
    }

    /// Meters from the middle to the farthest place.
    fn reach(self) -> f64 {
        match self {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => {
                (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt()
            }
        }
    }

    /// An area that has all of it.
    fn bounds(self, middle: Place) -> Area {
        let (width, height) = match self {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let Place { longitude, latitude } = middle;
        let up = degrees(height / EARTH_RADIUS);
        // Meridians are closer together towards the pole.
        let far = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = match far.abs() < 90.0 {
            true => degrees(width / EARTH_RADIUS / radians(far).cos()),
            false => f64::INFINITY,
        };
        Area {
            west: longitude - aside,
            east: longitude + aside,
            south: latitude - up,
            north: latitude + up,
        }
    }

    /// Cells that have all of it between them, no more than nine, in Redis's order.
    pub(super) fn cells(self, middle: Place) -> Vec<Cell> {
        let bounds = self.bounds(middle);
        let mut steps = steps_of(self.reach(), middle.latitude);
        let mut center = Cell::of(middle, steps);
        let is_small = {
            let [north, south, east, west] =
                [(0, 1), (0, -1), (1, 0), (-1, 0)].map(|(x, y)| center.beside(x, y).area());
            north.north < bounds.north
                || south.south > bounds.south
                || east.east < bounds.east
                || west.west > bounds.west
        };
        if steps > 1 && is_small {
            steps -= 1;
            center = Cell::of(middle, steps);
        }
        let area = center.area();
        let mut cells: Vec<Cell> = Vec::with_capacity(9);
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        for (x, y) in around {
            let is_needless = (y < 0 && area.south < bounds.south)
                || (y > 0 && area.north > bounds.north)
                || (x < 0 && area.west < bounds.west)
                || (x > 0 && area.east > bounds.east);
            let cell = center.beside(x, y);
            // Around the largest cells some are the same.
            let is_left_out = steps >= 2 && is_needless;
            if !is_left_out && !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

/// How often to halve for cells that are about as large as `meters` at a latitude.
fn steps_of(mut meters: f64, latitude: f64) -> u32 {
    if meters == 0.0 {
        return STEPS_MAX;
    }
    let mut steps = -1;
    while meters < MERCATOR_MAX {
        meters *= 2.0;
        steps += 1;
    }
    // Cells are narrower near the poles.
    steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    const PALERMO: Place = Place { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Place = Place { longitude: 15.087269, latitude: 37.502669 };

    /// What redis-server 7.0 answers.
    #[test]
    fn scores_names_and_distances_are_those_of_redis() {
        assert_eq!(PALERMO.score(), 3479099956230698.0);
        assert_eq!(CATANIA.score(), 3479447370796909.0);
        let [palermo, catania] = [PALERMO, CATANIA].map(|place| Place::of_score(place.score()));
        assert_eq!(&palermo.name(), b"sqc8b49rny0");
        assert_eq!(&catania.name(), b"sqdtr74hyu0");
        assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
        let shown = format!("{:.17} {:.17}", palermo.longitude, palermo.latitude);
        assert_eq!(shown, "13.36138933897018433 38.11555639549629859");
    }

    #[test]
    fn bits_are_put_together_and_taken_apart() {
        let mut prng = Prng::new(1);
        for _ in 0..1000 {
            let (x, y) = (prng.next_u64() as u32, prng.next_u64() as u32);
            assert_eq!(separate(interleave(x, y)), (x, y));
        }
        assert_eq!(interleave(0b11, 0b00), 0b1010);
    }

    #[test]
    fn cells_have_all_places_of_a_shape() {
        let mut prng = Prng::new(1);
        let mut place = |spread: f64| Place {
            longitude: (prng.next_u64() as f64 / u64::MAX as f64 - 0.5) * 2.0 * spread,
            latitude: (prng.next_u64() as f64 / u64::MAX as f64 - 0.5) * spread,
        };
        let mut inside = 0;
        for round in 0..20_000 {
            let (middle, place) = (place(120.0), place(130.0));
            let distance = middle.distance(place);
            let shape = match round % 2 {
                0 => Shape::Circle(distance * 1.0001),
                _ => Shape::Box(distance * 1.7, distance * 1.9),
            };
            if shape.distance(middle, place).is_some() {
                let score = place.score();
                let has = |cell: &Cell| cell.scores().0 <= score && score < cell.scores().1;
                let cells = shape.cells(middle);
                // Beyond the antimeridian Redis does not look from everywhere, either.
                let is_near = (middle.longitude - place.longitude).abs() < 180.0;
                assert!(!is_near || cells.iter().any(has), "{middle:?} {place:?} {cells:?}");
                inside += usize::from(is_near);
            }
        }
        assert!(inside > 10_000, "{inside}");
    }
}
