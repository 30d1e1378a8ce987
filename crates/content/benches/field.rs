//! The cost of all facts of a field of content: microseconds for a comment of some 200 characters.
//!
//! `cargo bench -p tollhouse-content --bench field [-- NAME]`

use std::hint::black_box;
use std::time::Instant;

use content::budget::{Budget, Cancellation};
use content::field::{ContentKind, FieldColumns, features};
use event::{Column, SchemaBuilder, Type, Value};

/// Comments, honest and not.
const COMMENTS: [(&str, &str); 5] = [
    (
        "honest",
        "I had the same problem with the second generation of this lamp: the plug gets warm after an hour. They sent me a new one \
         within a week, and it has worked since. Ask for the one with the grey cable.",
    ),
    (
        "links and contacts",
        "Earn 500 euro a day from home! Ask on Telegram @easy_money_77 or WhatsApp +49 151 23456789, or see \
         https://www.google.com/url?q=https%3A%2F%2Fevil.example.org%2Fstart and http://bit.example/x7Gh for how it works.",
    ),
    (
        "obfuscated",
        "E\u{430}rn m\u{43E}n\u{435}y n0w, c\u{430}ll eight zero zero 5 5 5 1239 \u{1F4B0}\u{1F4B0} j o i n  u s at joe (at) example (dot) com, \
         hxxp://bad[.]example/x and V.I.A.G.R.A for l\u{435}ss, \u{1D41F}\u{1D42B}\u{1D41E}\u{1D41E} \u{2776}\u{2777}\u{2778} today only!!",
    ),
    (
        "Russian",
        "Ищу партнёров в команду, доход от 300 долларов в неделю, опыт не нужен, обучаем бесплатно. Пишите в личные сообщения \
         плюс, расскажу подробности. Работаем только с ответственными людьми старше восемнадцати лет.",
    ),
    (
        "Chinese",
        "专业代开各类发票,诚信经营十年,欢迎来电咨询。全国各地均可办理,当天出票可验真,价格优惠税点低。兼职刷单日结工资,在家也能轻松赚钱,\
         每天只需两小时,无需任何经验,多劳多得上不封顶,联系客服立即入职。这家餐厅味道很好,服务态度也非常热情,就是排队时间有点长,下次还会带朋友来。\
         环境干净适合聚会,价格比较实惠,电影剧情非常感人,主角的演技很自然,结尾让人意想不到,推荐大家去看一看,周末人比较多要提前订座。",
    ),
];

fn main() {
    // Under test, only whether it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let rounds: u32 = if is_bench { 20_000 } else { 2 };
    let mut builder = SchemaBuilder::default();
    let field = Column { name: "text".into(), kind: Type::String, doc: String::new(), journalled: true };
    let slot = builder.add(field).expect("the first column fits");
    let columns = FieldColumns::register(&mut builder, "text", ContentKind::Text).expect("its facts fit");
    let schema = builder.finish();
    let mut row = schema.empty_row();
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    for (name, comment) in COMMENTS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let started = Instant::now();
        for _ in 0..rounds {
            row.clear_all();
            row.set(slot, Value::from(black_box(comment)));
            features(slot, &columns, &Budget::of_message(10_000, &Cancellation::default()), &mut row);
            black_box(&row);
        }
        let each = started.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
        println!("{each:>7.1} us  {name}, {} characters", comment.chars().count());
    }
}
