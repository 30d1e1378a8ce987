//! Sets, entry by entry.

use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::console::check_page;
use crate::harness::{configure, start};

#[test]
fn sets_are_shown_entry_by_entry() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset::find("web").unwrap()]).unwrap();
    let numbers: Vec<String> = (0..300).map(|number| format!("\"name{number}\"")).collect();
    let sets = format!(
        "[[set]]\nname = \"many\"\ntype = \"string\"\nvalues = [{}, \"<b>\\u202e\"]\n\
         [[set]]\nname = \"nets\"\ntype = \"ip\"\nvalues = [\"192.0.2.0/25\", \"192.0.2.128/25\", \"2001:db8::7\"]\n\
         [[set]]\nname = \"hosts\"\ntype = \"domain\"\nvalues = [\"Bit.ly\"]\n\
         [[set]]\nname = \"codes\"\ntype = \"integer\"\nvalues = [404, 403, 404]\n",
        numbers.join(",")
    );
    configure(&directory, &sets);
    let server = start(&directory, &[]);
    let listed = server.get("/v1/sets?pipeline=web").json();
    let of = |name: &str| {
        listed["sets"].as_array().unwrap().iter().find(|set| set["name"] == name).unwrap().clone()
    };
    assert_eq!(of("many"), json!({"name": "many", "type": "string", "entries": 301}));
    assert_eq!((of("nets")["type"].clone(), of("nets")["entries"].clone()), (json!("ip"), json!(2)));
    let get = |url: &str| server.get(&format!("/v1/sets/{url}")).json();
    let strings = |page: &Value| -> Vec<String> {
        page["page"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(strings(&get("nets")), ["192.0.2.0/24", "2001:db8::7"]);
    assert_eq!(strings(&get("codes")), ["403", "404"]);
    // All pages together have each entry once.
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let page = get(&format!("many?pipeline=web&limit=7&from={place}"));
        assert!(strings(&page).len() <= 7);
        all.extend(strings(&page));
        from = page["next"].as_u64();
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 301);
    assert_eq!(strings(&get("many?text=NAME29")).len(), 11);
    for (set, value, found) in [
        ("hosts", "a.bit.ly", true),
        ("hosts", "bit.lyx", false),
        ("nets", "192.0.2.200", true),
        ("nets", "x", false),
        ("codes", "404", true),
        ("codes", "405", false),
        ("many", "name7", true),
        ("many", "NAME7", false),
    ] {
        assert_eq!(get(&format!("{set}?has={value}"))["found"], json!(found), "{set} {value}");
    }
    for (url, status) in
        [("/v1/sets/none", 404), ("/v1/sets/many?limit=0", 400), ("/v1/sets?pipeline=none", 400)]
    {
        let answer = server.get(url);
        assert_eq!(answer.status, status, "{url} {}", answer.body);
    }
    check_page(&server.get("/console/rules?pipeline=web"), 200, &["/console/rules/set?"]);
    check_page(&server.get("/console/rules/set?pipeline=web&name=many"), 200, &["&lt;b&gt;⟨202E⟩", "More"]);
    let looked = server.get("/console/rules/set?pipeline=web&name=nets&text=192.0.2.9");
    check_page(&looked, 200, &["192.0.2.9 is found in this set.", "No entry has this."]);
    server.stop();
}
