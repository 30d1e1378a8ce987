//! Short texts and the edits by which spammers make copies of them: the share of pairs of copies that are found, and of pairs of
//! different texts that are taken for copies, by language and length.
//!
//! `cargo bench -p tollhouse-content --bench near_duplicates`
//!
//! English texts are the SMS Spam Collection, Russian ones the Telegram spam of `corpora`; Chinese ones are put together at random
//! out of the clauses below, so that different ones often share a clause or two.

use std::collections::{HashMap, HashSet};

use content::text::fingerprint::{short_fingerprints, skeleton, template};
use content::text::obfuscation::normalise;

/// Clauses of Chinese texts, wanted and unwanted.
const CLAUSES: [&str; 60] = [
    "专业代开各类发票",
    "诚信经营十年",
    "欢迎来电咨询",
    "全国各地均可办理",
    "当天出票可验真",
    "价格优惠税点低",
    "今天天气真不错",
    "我们一起去公园散步吧",
    "晚上回家吃饭吗",
    "妈妈做了红烧肉",
    "记得带上雨伞",
    "孩子在学校表现很好",
    "兼职刷单日结工资",
    "在家也能轻松赚钱",
    "每天只需两小时",
    "无需任何经验",
    "多劳多得上不封顶",
    "联系客服立即入职",
    "贵宾您好感谢支持",
    "本店周年庆典全场半价",
    "前一百名顾客有礼相送",
    "机会难得不要错过",
    "新款连衣裙刚刚到货",
    "老客户介绍新客户返现",
    "明天上午九点开会",
    "请各部门提前准备材料",
    "会议室改到三楼东侧",
    "项目进度需要加快",
    "客户对方案比较满意",
    "周五之前把报告发给我",
    "无抵押贷款额度高",
    "凭身份证即可申请",
    "最快半小时到账",
    "利息低还款灵活",
    "黑户白户都可以办",
    "不成功不收取费用",
    "这家餐厅味道很好",
    "服务态度也非常热情",
    "就是排队时间有点长",
    "下次还会带朋友来",
    "环境干净适合聚会",
    "价格比较实惠",
    "电影剧情非常感人",
    "主角的演技很自然",
    "结尾让人意想不到",
    "音乐配得恰到好处",
    "推荐大家去影院观看",
    "不过中间有点拖沓",
    "手机用了一年还是很流畅",
    "电池续航能坚持一整天",
    "拍照效果比想象中清晰",
    "快递第二天就送到了",
    "包装完好没有破损",
    "有问题客服回复很及时",
    "火车票已经帮你买好",
    "请在发车前一小时到站",
    "行李不要超过二十公斤",
    "到了以后给家里打电话",
    "酒店离地铁站很近",
    "周末去爬山记得早起",
];
/// Letters of the texts of a class, an ideograph counting as three.
const LENGTHS: [(usize, usize); 5] = [(30, 45), (45, 60), (60, 100), (100, 200), (200, 400)];
/// Two different texts that share as many of their words, or pairs of ideographs, are copies, too.
const ALIKE: f64 = 0.4;

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % most.max(1) as u64) as usize
    }

    fn of<'a>(&mut self, some: &[&'a str]) -> &'a str {
        some[self.below(some.len())]
    }
}

/// A way to make a copy of a text.
type Edit = fn(&str, &mut Random) -> String;

const EDITS: [(&str, Edit); 7] = [
    ("number", number),
    ("name", name),
    ("link", link),
    ("emoji", emoji),
    ("order", order),
    ("spacing", spacing),
    ("three of them", several),
];

/// Every number becomes another, and there is one more.
fn number(text: &str, random: &mut Random) -> String {
    let mut digit = |c: char| if c.is_ascii_digit() { char::from(b'0' + random.below(10) as u8) } else { c };
    let changed: String = text.chars().map(&mut digit).collect();
    format!("{changed} {}", 10_000_000 + random.below(90_000_000))
}

/// A greeting by name, in front.
fn name(text: &str, random: &mut Random) -> String {
    const NAMES: [&str; 12] = [
        "Ann",
        "Robert",
        "Maximiliane",
        "Li",
        "Jo",
        "Christopher",
        "Анна",
        "Владимир",
        "Оля",
        "王小明",
        "李娜",
        "欧阳先生",
    ];
    let is_other = |name: &&str| name.is_ascii() == text.is_ascii() || !text.is_ascii() && !name.is_ascii();
    let fitting: Vec<&str> = NAMES.into_iter().filter(is_other).collect();
    format!("{}, {text}", random.of(&fitting))
}

/// Another link at the end.
fn link(text: &str, random: &mut Random) -> String {
    format!(
        "{text} https://{}{}.example/{:x}",
        random.of(&["shop", "best", "go", "click"]),
        random.below(999),
        random.below(1 << 30)
    )
}

/// A few emoji, anywhere.
fn emoji(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let emoji = random.of(&["\u{1F600}", "\u{1F525}", "\u{1F4B0}", "\u{2728}", "\u{1F449}"]);
        let at = random.below(chars.len() + 1);
        chars.splice(at..at, emoji.chars());
    }
    chars.into_iter().collect()
}

/// Two clauses, or the halves of a text of one, change places.
fn order(text: &str, random: &mut Random) -> String {
    let is_end = |c: char| matches!(c, ',' | '.' | '!' | '?' | ';' | '，' | '。' | '！' | '？' | '\n');
    let mut parts: Vec<&str> = text.split_inclusive(is_end).collect();
    if parts.len() < 2 {
        let middle = text.floor_char_boundary(text.len() / 2);
        let middle = text[middle..].find(' ').map_or(middle, |blank| middle + blank);
        parts = vec![&text[..middle], &text[middle..]];
    }
    let (one, other) = (random.below(parts.len()), random.below(parts.len()));
    parts.swap(one, other);
    parts.join(" ")
}

/// Blanks are doubled, or put between characters of scripts that have none.
fn spacing(text: &str, random: &mut Random) -> String {
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        let is_wide = matches!(c, '\u{3400}'..='\u{9FFF}');
        if (c == ' ' || is_wide) && random.below(3) == 0 {
            out.push(' ');
        }
    }
    out
}

/// Three different edits one after the other.
fn several(text: &str, random: &mut Random) -> String {
    let first = random.below(6);
    let edits = [first, (first + 1 + random.below(2)) % 6, (first + 3 + random.below(3)) % 6];
    edits.iter().fold(text.to_owned(), |text, edit| EDITS[*edit].1(&text, random))
}

/// A text with what is known of it.
struct Sample {
    written: String,
    letters: usize,
    words: HashSet<String>,
    bands: Vec<String>,
}

impl Sample {
    fn new(written: String) -> Sample {
        let normalised = normalise(&written);
        let skeleton = skeleton(&normalised);
        let chars: Vec<char> = normalised.chars().filter(|c| matches!(c, '\u{3400}'..='\u{9FFF}')).collect();
        let mut words: HashSet<String> = chars.windows(2).map(|pair| pair.iter().collect()).collect();
        let others = normalised.split(|c: char| !c.is_alphabetic() || matches!(c, '\u{3400}'..='\u{9FFF}'));
        words.extend(others.filter(|word| !word.is_empty()).map(str::to_owned));
        Sample { bands: short_fingerprints(&skeleton), letters: skeleton.letters(), words, written }
    }

    fn is_alike(&self, other: &Sample) -> bool {
        let shared = self.words.intersection(&other.words).count();
        shared as f64 >= ALIKE * (self.words.len() + other.words.len() - shared) as f64
    }
}

fn texts(language: &str, count: usize) -> Vec<String> {
    let read =
        |name: &str| corpora::folder(name).and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<String> = match language {
        "English" => {
            let text = text(read("text/sms.tsv"));
            text.lines().skip(1).filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect()
        }
        "Russian" => {
            let text =
                text(read("text/telegram-ru-spam.txt")) + "\n" + &text(read("text/telegram-ru-ham.txt"));
            // Long posts are cut into texts of the lengths that are looked at.
            let cut = |line: &str| {
                let chars: Vec<char> = line.chars().collect();
                chars.chunks(160).map(|part| part.iter().collect::<String>()).collect::<Vec<_>>()
            };
            text.lines().flat_map(cut).collect()
        }
        _ => {
            let mut random = Random(7);
            let text = |_| {
                let clauses: Vec<&str> = (0..2 + random.below(9)).map(|_| random.of(&CLAUSES)).collect();
                format!("{}。", clauses.join("，"))
            };
            (0..1_500).map(text).collect()
        }
    };
    let distinct: HashSet<String> = all.into_iter().collect();
    let mut distinct: Vec<String> = distinct.into_iter().collect();
    distinct.sort();
    distinct.truncate(count);
    distinct
}

fn main() {
    // Under test, only whether it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let count = if is_bench { usize::MAX } else { 40 };
    print!("{:<8} {:>8} {:>6}", "language", "letters", "texts");
    EDITS.iter().for_each(|(name, _)| print!(" {name:>13}"));
    println!(" {:>8} {:>18}", "template", "confused");
    for language in ["English", "Russian", "Chinese"] {
        let samples: Vec<Sample> = texts(language, count).into_iter().map(Sample::new).collect();
        for (least, most) in LENGTHS {
            let class: Vec<&Sample> =
                samples.iter().filter(|it| (least..most).contains(&it.letters)).collect();
            if class.is_empty() {
                continue;
            }
            print!("{language:<8} {:>8} {:>6}", format!("{least}-{}", most - 1), class.len());
            let mut random = Random(42);
            let (mut same, mut copies) = (0usize, 0usize);
            for (edit_name, edit) in EDITS {
                let mut found = 0;
                for sample in &class {
                    let mut copy = || skeleton(&normalise(&edit(&sample.written, &mut random)));
                    let (one, other) = (copy(), copy());
                    let bands = short_fingerprints(&other);
                    found += usize::from(short_fingerprints(&one).iter().any(|band| bands.contains(band)));
                    if matches!(edit_name, "number" | "link" | "emoji" | "spacing") {
                        copies += 1;
                        same += usize::from(template(&one) == template(&other));
                    }
                }
                print!(" {:>11.1} %", 100.0 * found as f64 / class.len().max(1) as f64);
            }
            print!(" {:>6.1} %", 100.0 * same as f64 / copies.max(1) as f64);
            // Pairs that share a band, found by the band.
            let mut by_band: HashMap<&str, Vec<usize>> = HashMap::new();
            for (index, sample) in class.iter().enumerate() {
                sample.bands.iter().for_each(|band| by_band.entry(band).or_default().push(index));
            }
            let mut met: HashSet<(usize, usize)> = HashSet::new();
            for indices in by_band.values() {
                for (place, one) in indices.iter().enumerate() {
                    met.extend(indices[place + 1..].iter().map(|other| (*one, *other)));
                }
            }
            let confused = met.iter().filter(|(one, other)| !class[*one].is_alike(class[*other])).count();
            let pairs = class.len() * class.len().saturating_sub(1) / 2;
            println!(" {confused:>7} of {pairs:>7}");
        }
    }
}
