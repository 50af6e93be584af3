//! Where texts stand so that none lies on another, on a node, or, if there is a way, on a wire.

/// A place in the picture, in pixels.
pub(super) type Point = (f64, f64);

/// An upright rectangle: its middle, and its width and height.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Area {
    pub at: Point,
    pub size: (f64, f64),
}

impl Area {
    pub fn touches(&self, other: &Area) -> bool {
        let apart = |one: f64, two: f64, sizes: f64| (one - two).abs() * 2.0 >= sizes;
        !apart(self.at.0, other.at.0, self.size.0 + other.size.0) && !apart(self.at.1, other.at.1, self.size.1 + other.size.1)
    }

    /// Does the line from one point to another go through it? (Liang and Barsky 1984: what is left of the line inside of each pair of edges.)
    fn is_crossed(&self, (from, to): (Point, Point)) -> bool {
        let (mut enters, mut leaves) = (0.0f64, 1.0f64);
        let axes = [(from.0, to.0, self.at.0, self.size.0), (from.1, to.1, self.at.1, self.size.1)];
        for (begin, end, middle, size) in axes {
            let (low, high, way) = (middle - size / 2.0 - begin, middle + size / 2.0 - begin, end - begin);
            if way == 0.0 {
                if low > 0.0 || high < 0.0 {
                    return false;
                }
                continue;
            }
            let (first, second) = (low / way, high / way);
            enters = enters.max(first.min(second));
            leaves = leaves.min(first.max(second));
        }
        enters < leaves
    }

    pub fn corners(&self) -> [Point; 2] {
        let half = (self.size.0 / 2.0, self.size.1 / 2.0);
        [(self.at.0 - half.0, self.at.1 - half.1), (self.at.0 + half.0, self.at.1 + half.1)]
    }
}

/// What is in the picture already.
#[derive(Default)]
pub(super) struct Board {
    /// Nodes and texts: nothing lies on them.
    taken: Vec<Area>,
    /// Pieces of wires, and of which.
    wires: Vec<(usize, (Point, Point))>,
}

impl Board {
    pub fn take(&mut self, area: Area) {
        self.taken.push(area);
    }

    pub fn wire(&mut self, number: usize, route: &[Point]) {
        self.wires.extend(route.windows(2).map(|ends| (number, (ends[0], ends[1]))));
    }

    /// Takes the first of these places that is free and lies on the fewest wires, where `own` counts half. None: no place is free.
    pub fn place(&mut self, places: impl Iterator<Item = Area>, own: Option<usize>) -> Option<Area> {
        let free = places.filter(|place| !self.taken.iter().any(|taken| taken.touches(place)));
        let crossed = |place: &Area| {
            self.wires
                .iter()
                .filter(|(_, piece)| place.is_crossed(*piece))
                .map(|(wire, _)| if Some(*wire) == own { 1 } else { 2 })
                .sum::<usize>()
        };
        let best = free.map(|place| (crossed(&place), place)).reduce(|best, next| if next.0 < best.0 { next } else { best });
        let (_, place) = best?;
        self.take(place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(x: f64, y: f64) -> Area {
        Area { at: (x, y), size: (20.0, 10.0) }
    }

    #[test]
    fn areas_touch_and_are_crossed() {
        assert!(
            area(0.0, 0.0).touches(&area(19.0, 9.0))
                && !area(0.0, 0.0).touches(&area(20.0, 0.0))
                && !area(0.0, 0.0).touches(&area(0.0, 10.0))
        );
        assert!(area(0.0, 0.0).is_crossed(((-50.0, -20.0), (50.0, 20.0))) && area(0.0, 0.0).is_crossed(((5.0, -9.0), (5.0, 9.0))));
        assert!(!area(0.0, 0.0).is_crossed(((-50.0, 6.0), (50.0, 6.0))) && !area(0.0, 0.0).is_crossed(((-50.0, 0.0), (-20.0, 0.0))));
    }

    #[test]
    fn a_text_goes_where_it_is_free_and_lies_on_no_wire() {
        let mut board = Board::default();
        board.take(area(0.0, 0.0));
        board.wire(3, &[(0.0, 15.0), (100.0, 15.0)]);
        let places = || [area(5.0, 0.0), area(0.0, 15.0), area(0.0, 30.0)].into_iter();
        assert_eq!(board.place(places(), None), Some(area(0.0, 30.0)));
        board.wire(4, &[(0.0, 45.0), (100.0, 45.0)]);
        // On its own wire rather than on another one.
        assert_eq!(board.place([area(0.0, 45.0), area(0.0, 15.0)].into_iter(), Some(3)), Some(area(0.0, 15.0)));
        assert_eq!(board.place(places(), None), None);
    }
}
