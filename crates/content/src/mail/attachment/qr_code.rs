//! QR codes (ISO/IEC 18004) in a picture.
//!
//! A code is found by the marks in three of its corners, whose rings are cut 1:1:3:1:1 by any line through their middle, however
//! the code is turned, dark on light or light on dark. Three of them make the plane of the code, along which its modules are
//! sampled. Pictures in mail are drawn, not taken, so a code may be turned, scaled and stretched, but not seen at an angle.
//!
//! Modules are read by `rqrr`. Its own search for codes is not used: it asserts what a made-up picture can break,
//! and looks over the picture once more for each three of its marks, where this is linear in the pixels.

use rqrr::{Grid, SimpleGrid};

use super::grey_image::{GreyImage, STEPS_A_SEARCHED_PIXEL};
use crate::budget::Budget;

/// Steps of a run of pixels that may be the end of a mark.
const CANDIDATE_STEPS: u64 = 60;
/// Steps of a pixel that is looked at again around what may be a mark.
const STEPS_A_CROSSED_PIXEL: u64 = 4;
/// Steps of three marks that may be of one code.
const TRIPLE_STEPS: u64 = 60;
/// Steps of a code whose modules are sampled and read, and of each module.
const DECODE_STEPS: u64 = 60_000;
const STEPS_A_MODULE: u64 = 800;

/// Most marks that are remembered, and most of them that are tried, those that were crossed most often.
const MARKS_MAX: usize = 96;
const TRIED_MARKS_MAX: usize = 24;
/// Most codes that are read out of a picture, and most attempts at that.
const CODES_MAX: usize = 8;
const ATTEMPTS_MAX: usize = 16;
/// Modules of a side: versions 1 to 20, which hold up to 858 bytes. Larger ones cost more than links are worth.
const SIDE_MIN: usize = 21;
const SIDE_MAX: usize = 97;

/// A mark in a corner of a code.
#[derive(Clone, Copy, Debug)]
struct FinderMark {
    x: f64,
    y: f64,
    /// Pixels of a module along the lines by which it was found.
    module: f64,
    is_dark: bool,
    /// Number of lines that crossed it.
    crossings: usize,
}

/// The pixels of a picture, dark or light beside those around them.
struct Bitmap {
    width: usize,
    height: usize,
    dark: Vec<bool>,
}

/// Gives what each code in a picture says to `found`.
pub(super) fn find(image: &GreyImage, budget: &Budget, mut found: impl FnMut(Vec<u8>)) {
    if image.width.min(image.height) < SIDE_MIN
        || !budget.spend(STEPS_A_SEARCHED_PIXEL * image.pixels.len() as u64)
    {
        return;
    }
    let bitmap = Bitmap::of(image);
    let mut marks = bitmap.marks(budget);
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.crossings));
    marks.truncate(TRIED_MARKS_MAX);
    let mut used = [false; TRIED_MARKS_MAX];
    let (mut attempts, mut codes) = (0, 0);
    for corner in 0..marks.len() {
        for first in 0..marks.len() {
            for second in first + 1..marks.len() {
                let three = [corner, first, second];
                if first == corner || second == corner || three.iter().any(|&mark| used[mark]) {
                    continue;
                }
                if attempts == ATTEMPTS_MAX || codes == CODES_MAX || !budget.spend(TRIPLE_STEPS) {
                    return;
                }
                let Some(plane) = CodePlane::of(three.map(|mark| marks[mark])) else { continue };
                let Some(side) = bitmap.side(&plane, budget) else { continue };
                attempts += 1;
                if !budget.spend(DECODE_STEPS + STEPS_A_MODULE * (side * side) as u64) {
                    return;
                }
                if let Some(text) = bitmap.decode(&plane, side) {
                    codes += 1;
                    three.iter().for_each(|&mark| used[mark] = true);
                    found(text);
                }
            }
        }
    }
}

impl Bitmap {
    /// Compares each pixel with the mean of a quarter of the picture around it, so that a code is told from its ground
    /// whatever else is shown.
    fn of(image: &GreyImage) -> Bitmap {
        let (width, height) = (image.width, image.height);
        let reach = (width.max(height) / 8).max(4);
        let row = |y: usize| &image.pixels[y * width..][..width];
        let mut columns = vec![0u32; width];
        let add = |columns: &mut [u32], y: usize| {
            columns.iter_mut().zip(row(y)).for_each(|(sum, pixel)| *sum += u32::from(*pixel));
        };
        (0..reach.min(height)).for_each(|y| add(&mut columns, y));
        let mut dark = Vec::with_capacity(image.pixels.len());
        for y in 0..height {
            if y + reach < height {
                add(&mut columns, y + reach);
            }
            if let Some(gone) = y.checked_sub(reach + 1) {
                columns.iter_mut().zip(row(gone)).for_each(|(sum, pixel)| *sum -= u32::from(*pixel));
            }
            let rows = (y + reach).min(height - 1) - y.saturating_sub(reach) + 1;
            let mut sum: u64 = columns[..reach.min(width)].iter().map(|sum| u64::from(*sum)).sum();
            let mut count = reach.min(width);
            for (x, pixel) in row(y).iter().enumerate() {
                if x + reach < width {
                    sum += u64::from(columns[x + reach]);
                    count += 1;
                }
                if let Some(gone) = x.checked_sub(reach + 1) {
                    sum -= u64::from(columns[gone]);
                    count -= 1;
                }
                dark.push(u64::from(*pixel) * (rows * count) as u64 * 100 < sum * 95);
            }
        }
        Bitmap { width, height, dark }
    }

    fn at(&self, x: usize, y: usize) -> bool {
        self.dark[y * self.width + x]
    }

    /// Finds marks, row by row.
    fn marks(&self, budget: &Budget) -> Vec<FinderMark> {
        let mut marks: Vec<FinderMark> = Vec::new();
        for y in 0..self.height {
            let row = &self.dark[y * self.width..][..self.width];
            let mut runs = [0usize; 5];
            let mut start = 0;
            for x in 1..=self.width {
                if x < self.width && row[x] == row[start] {
                    continue;
                }
                runs.rotate_left(1);
                runs[4] = x - start;
                let is_dark = row[start];
                start = x;
                if !is_mark(&runs) {
                    continue;
                }
                let total: usize = runs.iter().sum();
                if !budget.spend(CANDIDATE_STEPS + STEPS_A_CROSSED_PIXEL * 6 * total as u64) {
                    return marks;
                }
                let middle = x as f64 - (runs[4] + runs[3]) as f64 - runs[2] as f64 / 2.0;
                if let Some(mark) = self.crossed(middle, y, total, is_dark) {
                    remember(&mut marks, mark);
                }
            }
        }
        marks
    }

    /// Looks at a mark along three lines more; `None` where it is none.
    fn crossed(&self, x: f64, y: usize, total: usize, is_dark: bool) -> Option<FinderMark> {
        let (y, _) = self.cross(x as usize, y, total, is_dark, true)?;
        let (x, wide) = self.cross(x as usize, y as usize, total, is_dark, false)?;
        let (y, high) = self.cross(x as usize, y as usize, total, is_dark, true)?;
        // Stretched by a half at most.
        let is_square = wide * 2 <= high * 3 && high * 2 <= wide * 3;
        let module = (wide + high) as f64 / 14.0;
        is_square.then_some(FinderMark { x, y, module, is_dark, crossings: 1 })
    }

    /// Measures the five runs around a pixel of the middle one along a column or a row: their middle and their length.
    fn cross(
        &self,
        x: usize,
        y: usize,
        total: usize,
        is_dark: bool,
        is_column: bool,
    ) -> Option<(f64, usize)> {
        let (from, end) = if is_column { (y, self.height) } else { (x, self.width) };
        let at = |place: usize| if is_column { self.at(x, place) } else { self.at(place, y) };
        if at(from) != is_dark {
            return None;
        }
        let mut runs = [0; 5];
        let mut place = from;
        for (run, colour) in [(2, is_dark), (3, !is_dark), (4, is_dark)] {
            while place < end && at(place) == colour && runs[run] <= total {
                runs[run] += 1;
                place += 1;
            }
        }
        let last = place;
        place = from;
        for (run, colour) in [(2, is_dark), (1, !is_dark), (0, is_dark)] {
            let mut length = 0;
            while place > 0 && at(place - 1) == colour && length <= total {
                length += 1;
                place -= 1;
            }
            runs[run] += length;
        }
        let middle = last as f64 - (runs[4] + runs[3]) as f64 - runs[2] as f64 / 2.0;
        is_mark(&runs).then(|| (middle, runs.iter().sum()))
    }

    /// Returns whether the module at a place is dark, by the most of five pixels in it.
    fn module(&self, plane: &CodePlane, side: usize, x: usize, y: usize) -> bool {
        const AROUND: [(f64, f64); 5] = [(0.5, 0.5), (0.3, 0.5), (0.7, 0.5), (0.5, 0.3), (0.5, 0.7)];
        let is_dark = |(right, down): &(f64, f64)| {
            let (x, y) = plane.place(side, x as f64 + right, y as f64 + down);
            let is_within = x >= 0.0 && y >= 0.0 && x < self.width as f64 && y < self.height as f64;
            is_within && self.at(x as usize, y as usize) == plane.is_dark
        };
        AROUND.iter().filter(|around| is_dark(around)).count() >= 3
    }

    /// Returns how many modules a side of the code has: of the number that the distance of its marks suggests and those
    /// beside it the one at which dark and light alternate between the marks.
    fn side(&self, plane: &CodePlane, budget: &Budget) -> Option<usize> {
        let nearest = ((plane.side - 17.0) / 4.0).round().clamp(1.0, 21.0) as usize * 4 + 17;
        let alternating = |side: usize| {
            let along = 8..side - 8;
            let right = along.clone().filter(|&x| self.module(plane, side, x, 6) == (x % 2 == 0)).count();
            let down = along.filter(|&y| self.module(plane, side, 6, y) == (y % 2 == 0)).count();
            (right + down) as f64 / (2 * (side - 16)) as f64
        };
        let mut best = None;
        for side in [nearest, nearest + 4, nearest - 4] {
            if !(SIDE_MIN..=SIDE_MAX).contains(&side) {
                continue;
            }
            if !budget.spend(STEPS_A_CROSSED_PIXEL * 10 * 2 * side as u64) {
                return None;
            }
            let share = alternating(side);
            if share >= 0.8 && best.is_none_or(|(most, _)| share > most) {
                best = Some((share, side));
            }
        }
        best.map(|(_, side)| side)
    }

    fn decode(&self, plane: &CodePlane, side: usize) -> Option<Vec<u8>> {
        let grid = SimpleGrid::from_func(side, |x, y| self.module(plane, side, x, y));
        let mut text = Vec::new();
        Grid::new(grid).decode_to(&mut text).ok()?;
        Some(text)
    }
}

/// Returns true if five runs are as long as those of a line through the middle of a mark.
fn is_mark(runs: &[usize; 5]) -> bool {
    let total: usize = runs.iter().sum();
    if runs.contains(&0) || total < 7 {
        return false;
    }
    // Each run is wrong by half a module at most, the middle one by one and a half: times fourteen, without fractions.
    let is_near =
        |run: usize, modules: usize| (14 * run).abs_diff(2 * total * modules) <= total * modules.max(1);
    is_near(runs[0], 1)
        && is_near(runs[1], 1)
        && is_near(runs[2], 3)
        && is_near(runs[3], 1)
        && is_near(runs[4], 1)
}

/// Adds a mark, or makes that surer which is there.
fn remember(marks: &mut Vec<FinderMark>, mark: FinderMark) {
    let is_same = |known: &&mut FinderMark| {
        known.is_dark == mark.is_dark
            && (known.x - mark.x).abs() <= known.module
            && (known.y - mark.y).abs() <= known.module
    };
    if let Some(known) = marks.iter_mut().find(is_same) {
        let weight = known.crossings as f64;
        let mean = |one: f64, other: f64| (one * weight + other) / (weight + 1.0);
        known.x = mean(known.x, mark.x);
        known.y = mean(known.y, mark.y);
        known.module = mean(known.module, mark.module);
        known.crossings += 1;
    } else if marks.len() < MARKS_MAX {
        marks.push(mark);
    }
}

/// The plane of a code: where in the picture its modules lie.
struct CodePlane {
    /// The middle of the mark between the two others.
    corner: (f64, f64),
    /// From there to the middle of the mark to the right, and of the one below.
    right: (f64, f64),
    down: (f64, f64),
    /// About how many modules a side has.
    side: f64,
    is_dark: bool,
}

impl CodePlane {
    /// Returns the plane of three marks, the first the one at the corner; `None` where they are not of one code.
    fn of([corner, first, second]: [FinderMark; 3]) -> Option<CodePlane> {
        let marks = [corner, first, second];
        let largest = marks.iter().map(|mark| mark.module).fold(0.0, f64::max);
        let is_alike =
            marks.iter().all(|mark| mark.is_dark == corner.is_dark && mark.module * 1.5 >= largest);
        let to = |mark: FinderMark| (mark.x - corner.x, mark.y - corner.y);
        let length = |(x, y): (f64, f64)| x.hypot(y);
        let (mut right, mut down) = (to(first), to(second));
        let (across, along) = (length(right), length(down));
        let dot = right.0 * down.0 + right.1 * down.1;
        let is_corner = dot.abs() <= 0.12 * across * along && across <= along * 1.4 && along <= across * 1.4;
        if !is_alike || !is_corner {
            return None;
        }
        if right.0 * down.1 - right.1 * down.0 < 0.0 {
            (right, down) = (down, right);
        }
        // A line across a turned square is longer than its side.
        let turn = (right.0.abs().max(right.1.abs()) / length(right)).clamp(0.7, 1.0);
        let module = marks.iter().map(|mark| mark.module).sum::<f64>() / 3.0 * turn;
        let side = (across + along) / 2.0 / module + 7.0;
        let is_code = (SIDE_MIN as f64 - 4.0..=SIDE_MAX as f64 + 8.0).contains(&side);
        let (x, y) = (corner.x, corner.y);
        is_code.then_some(CodePlane { corner: (x, y), right, down, side, is_dark: corner.is_dark })
    }

    /// Returns where in the picture a place lies that is counted in modules from the upper left.
    fn place(&self, side: usize, x: f64, y: f64) -> (f64, f64) {
        let modules = side as f64 - 7.0;
        let (right, down) = ((x - 3.5) / modules, (y - 3.5) / modules);
        (
            self.corner.0 + right * self.right.0 + down * self.down.0,
            self.corner.1 + right * self.right.1 + down * self.down.1,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Cancellation;

    /// A picture of a code, its modules so many pixels wide and high, turned by an angle around its middle.
    fn drawn(text: &str, wide: f64, high: f64, degrees: f64, dark: u8, light: u8) -> GreyImage {
        let (side, modules) = corpora::qr_modules(text);
        let is_dark = |x: usize, y: usize| x < side && y < side && modules[y * side + x];
        let room = if degrees == 0.0 { 1.0 } else { 1.5 };
        let (width, height) = (side as f64 * wide * room, side as f64 * high * room);
        let (sin, cos) = degrees.to_radians().sin_cos();
        let mut pixels = Vec::new();
        for y in 0..height as usize {
            for x in 0..width as usize {
                let (x, y) = (x as f64 + 0.5 - width / 2.0, y as f64 + 0.5 - height / 2.0);
                let (x, y) = (x * cos + y * sin, y * cos - x * sin);
                let (x, y) = (x / wide + side as f64 / 2.0, y / high + side as f64 / 2.0);
                let is_within = x >= 0.0 && y >= 0.0;
                pixels.push(if is_within && is_dark(x as usize, y as usize) { dark } else { light });
            }
        }
        GreyImage { width: width as usize, height: height as usize, pixels }
    }

    fn read(image: &GreyImage) -> Vec<String> {
        let mut texts = Vec::new();
        find(image, &Budget::ample(), |text| texts.push(String::from_utf8(text).unwrap()));
        texts
    }

    #[test]
    fn codes_are_read_however_they_are_drawn() {
        let link = "https://login.example.com/a?b=c";
        for (name, image) in [
            ("small", drawn(link, 2.0, 2.0, 0.0, 0, 255)),
            ("large", drawn(link, 17.0, 17.0, 0.0, 0, 255)),
            ("odd", drawn(link, 3.7, 3.7, 0.0, 0, 255)),
            ("stretched", drawn(link, 5.0, 4.0, 0.0, 0, 255)),
            ("turned a little", drawn(link, 5.0, 5.0, 7.0, 0, 255)),
            ("turned", drawn(link, 5.0, 5.0, 45.0, 0, 255)),
            ("on its side", drawn(link, 5.0, 5.0, 90.0, 0, 255)),
            ("upside down", drawn(link, 5.0, 5.0, 180.0, 0, 255)),
            ("in a pale colour", drawn(link, 5.0, 5.0, 0.0, 190, 255)),
            ("light on dark", drawn(link, 5.0, 5.0, 0.0, 230, 20)),
        ] {
            assert_eq!(read(&image), [link], "{name}");
        }
        let long = format!("https://example.com/{}", "x".repeat(600));
        assert_eq!(read(&drawn(&long, 4.0, 4.0, 0.0, 0, 255)), [long]);
        let capitals = "HTTPS://EXAMPLE.COM/123";
        assert_eq!(read(&drawn(capitals, 4.0, 4.0, 0.0, 0, 255)), [capitals]);
    }

    #[test]
    fn codes_are_read_among_other_things() {
        let (one, other) = (drawn("one", 4.0, 4.0, 0.0, 0, 255), drawn("two", 6.0, 6.0, 0.0, 0, 255));
        let (width, height) = (600, 500);
        let mut pixels: Vec<u8> =
            (0..width * height).map(|at| ((at % width) * 255 / width) as u8 / 2 + (at % 7) as u8).collect();
        for (image, left, top) in [(&one, 20, 30), (&other, 300, 250)] {
            for y in 0..image.height {
                let row = &image.pixels[y * image.width..][..image.width];
                pixels[(top + y) * width + left..][..image.width].copy_from_slice(row);
            }
        }
        let mut texts = read(&GreyImage { width, height, pixels });
        texts.sort();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn what_is_no_code_is_none() {
        let image = |pixel: &dyn Fn(usize, usize) -> bool| GreyImage {
            width: 300,
            height: 300,
            pixels: (0..90_000).map(|at| if pixel(at % 300, at / 300) { 0 } else { 255 }).collect(),
        };
        assert!(read(&image(&|_, _| false)).is_empty());
        assert!(read(&image(&|x, y| (x / 5 + y / 5) % 2 == 0)).is_empty());
        // Marks in all places, of no code.
        let ring = |x: usize| [0, 6].contains(&x);
        let is_mark = |x: usize, y: usize| {
            x < 7 && y < 7 && (ring(x) || ring(y) || (2..5).contains(&x) && (2..5).contains(&y))
        };
        assert!(read(&image(&|x, y| is_mark(x / 2 % 9, y / 2 % 9))).is_empty());
        assert!(read(&GreyImage { width: 0, height: 0, pixels: Vec::new() }).is_empty());
    }

    #[test]
    fn work_is_paid_for() {
        let image = drawn("https://example.com/", 4.0, 4.0, 0.0, 0, 255);
        let whole = Budget::ample();
        find(&image, &whole, |_| {});
        for share in [1, 2, 4, 100] {
            let budget = Budget::of_steps(whole.spent() / share, &Cancellation::default());
            let mut count = 0;
            find(&image, &budget, |_| count += 1);
            assert!(budget.spent() <= whole.spent() / share);
            assert_eq!(count, usize::from(share == 1));
        }
    }
}
