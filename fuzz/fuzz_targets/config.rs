//! Any text is a configuration: it compiles, or every problem points into it. Laid out it is the same version, and
//! laid out as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Plan};

fuzz_target!(|text: &str| {
    let compile = |text: &str| Plan::compile(&Config::from_text("fuzz.toml", text, &Overrides::default()));
    let compiled = compile(text);
    if let Err(problems) = &compiled {
        assert!(!problems.is_empty());
        assert!(problems.to_string().lines().count() >= problems.list().len());
    }
    let Ok(laid_out) = plan::format("fuzz.toml", text) else { return };
    assert_eq!(plan::format("fuzz.toml", &laid_out).ok().as_ref(), Some(&laid_out));
    let version = |plan: &Plan| plan.pipelines[0].version.clone();
    assert_eq!(compiled.as_ref().ok().map(version), compile(&laid_out).as_ref().ok().map(version));
});
