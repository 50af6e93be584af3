//! A grid of settings: every value of one key with every value of the others.

use std::fmt;

/// Most points of a grid.
const POINTS_MAX: usize = 1 << 16;

/// Keys, and what each of them is set to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grid {
    axes: Vec<(String, Vec<String>)>,
}

/// What is wrong with an axis, and how it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GridError {
    axis: String,
    what: &'static str,
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--grid: '{}' {}\nhelp: write it as 'nodes.*.parameters.tcp.congestion=cubic,bbr,reno'", self.axis, self.what)
    }
}

impl std::error::Error for GridError {}

impl Grid {
    /// Reads `key=value,value …`, one an axis. Commas within quotes and brackets are part of a value.
    ///
    /// # Errors
    /// An axis without a key or a value, one that is there twice, or more than 65,536 points.
    pub fn read(axes: &[String]) -> Result<Grid, GridError> {
        let mut grid = Grid::default();
        for axis in axes {
            let wrong = |what| GridError { axis: axis.clone(), what };
            let (key, values) = halves(axis).ok_or_else(|| wrong("is no key with values"))?;
            let values = split(values);
            if key.is_empty() || values.iter().any(String::is_empty) {
                return Err(wrong("has no key, or an empty value"));
            }
            if grid.axes.iter().any(|(known, _)| known == key) {
                return Err(wrong("is there already"));
            }
            if key == "seed" {
                return Err(wrong("sets the seed, for which there is --seeds A..B"));
            }
            if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
                return Err(wrong("has a value twice"));
            }
            grid.axes.push((key.to_owned(), values));
            if grid.axes.iter().try_fold(1usize, |all, (_, values)| all.checked_mul(values.len())).is_none_or(|all| all > POINTS_MAX) {
                return Err(wrong("makes more than 65,536 points"));
            }
        }
        Ok(grid)
    }

    /// Its keys.
    pub fn keys(&self) -> Vec<String> {
        self.axes.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Values of the keys at every point; the last key changes first. Without a key there is one point.
    pub fn points(&self) -> Vec<Vec<String>> {
        let longer = |points: Vec<Vec<String>>, (_, values): &(String, Vec<String>)| {
            let with =
                |point: &Vec<String>| values.iter().map(|value| [&point[..], std::slice::from_ref(value)].concat()).collect::<Vec<_>>();
            points.iter().flat_map(with).collect()
        };
        self.axes.iter().fold(vec![Vec::new()], longer)
    }

    /// A point as assignments, which go over the scenario.
    pub fn assignments(&self, point: &[String]) -> Vec<String> {
        self.axes.iter().zip(point).map(|((key, _), value)| format!("{key}={value}")).collect()
    }
}

/// What stands before the first `=` that is in no quotes, and what behind it.
fn halves(axis: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let at = axis.char_indices().find_map(|(at, letter)| match (letter, quote) {
        ('=', None) => Some(at),
        ('"' | '\'', None) => {
            quote = Some(letter);
            None
        }
        (letter, Some(open)) => {
            quote = quote.filter(|_| letter != open);
            None
        }
        _ => None,
    })?;
    Some((axis.get(..at)?, axis.get(at + 1..)?))
}

/// Parts between commas that stand in no quotes and no brackets.
fn split(values: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quote, mut is_escaped) = (vec![String::new()], 0u32, None, false);
    for letter in values.chars() {
        // In a text between double quotes a quote behind a backslash is part of it.
        let escaped = std::mem::take(&mut is_escaped);
        match (letter, quote) {
            (_, Some(_)) if escaped => {}
            ('\\', Some('"')) => is_escaped = true,
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(axes: &[&str]) -> Result<Grid, String> {
        Grid::read(&axes.iter().map(|axis| (*axis).to_owned()).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_value_meets_every_other() {
        let grid = read(&["a.b=1,2", "c=x,[1,2],\"p,q\""]).unwrap();
        assert_eq!(grid.keys(), ["a.b", "c"]);
        let points = grid.points();
        assert_eq!(points.len(), 6);
        assert_eq!((points[0].join(" "), points[1].join(" "), points[5].join(" ")), ("1 x".into(), "1 [1,2]".into(), "2 \"p,q\"".into()));
        assert_eq!(grid.assignments(&points[5]), ["a.b=2", "c=\"p,q\""]);
        assert_eq!(Grid::default().points(), [Vec::<String>::new()]);
        let quoted = read(&[r#"e."a=b"="x\",y",'\',z"#]).unwrap();
        assert_eq!((quoted.keys(), quoted.points().len()), (vec![r#"e."a=b""#.to_owned()], 3));
        assert_eq!(quoted.points()[0], [r#""x\",y""#]);
    }

    #[test]
    fn what_is_no_axis_is_told() {
        let many = format!("c={}", (0..300).map(|value| value.to_string()).collect::<Vec<_>>().join(","));
        for (axes, what) in [
            (&["x"][..], "no key with values"),
            (&["=1"], "no key"),
            (&["a=1,,2"], "empty value"),
            (&["a="], "empty value"),
            (&["a=1", "a=2"], "already"),
            (&["a=1,2,1"], "twice"),
            (&["seed=1,2"], "--seeds"),
            (&[&many, &many.replace('c', "d")], "65,536"),
        ] {
            let why = read(axes).unwrap_err();
            assert!(why.contains(what) && why.contains("help:"), "{why}");
        }
    }
}
