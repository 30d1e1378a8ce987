//! Unsafe code stands where it is written down that it does, and the compiler refuses it elsewhere.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Attribute, ExprUnsafe, ItemForeignMod, ItemImpl, ItemTrait, Meta, Safety, Signature};

use crate::sources::{self, Source};

/// Files with unsafe code. (`module` is a crate for the servers' interface in C, whose every call is unsafe.)
const UNSAFE: [(&str, &[&str]); 3] = [
    ("module", &["allocator.rs", "api.rs", "commands.rs", "data_type.rs", "lib.rs"]),
    ("store", &["arena.rs"]),
    ("tollhouse", &["memory.rs"]),
];

/// True once something unsafe was seen.
#[derive(Default)]
struct UnsafeSearch(bool);

impl<'ast> Visit<'ast> for UnsafeSearch {
    fn visit_expr_unsafe(&mut self, _: &'ast ExprUnsafe) {
        self.0 = true;
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.0 |= matches!(signature.safety, Safety::Unsafe(_));
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.0 |= item.unsafety.is_some();
        visit::visit_item_impl(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.0 |= item.unsafety.is_some();
        visit::visit_item_trait(self, item);
    }

    fn visit_item_foreign_mod(&mut self, _: &'ast ItemForeignMod) {
        self.0 = true;
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.0 |= attribute.path().is_ident("unsafe");
    }
}

fn is_unsafe(source: &Source) -> bool {
    let mut search = UnsafeSearch::default();
    source.items.iter().for_each(|item| search.visit_item(item));
    search.0
}

/// True if a crate's root has `#![forbid(unsafe_code)]`.
fn forbids_it(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("forbid") && list.tokens.to_string() == "unsafe_code",
        _ => false,
    })
}

#[test]
fn unsafe_code_stands_in_few_files_and_is_forbidden_elsewhere() {
    let sources = sources::all();
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.krate.as_str()).collect();
    for krate in crates {
        let of_crate = || sources.iter().filter(|source| source.krate == krate);
        let found: BTreeSet<&str> = of_crate()
            .filter(|source| is_unsafe(source))
            .filter_map(|source| source.path.split_once("/src/").map(|(_, file)| file))
            .collect();
        let known = UNSAFE.into_iter().find(|(known, _)| *known == krate).map_or(&[][..], |(_, files)| files);
        assert_eq!(found, known.iter().copied().collect(), "files of {krate} with unsafe code");
        let mut roots = of_crate().filter(|source| source.module.is_empty()).peekable();
        assert!(roots.peek().is_some(), "{krate} has no root");
        for root in roots {
            let path = &root.path;
            assert_eq!(forbids_it(&root.attributes), known.is_empty(), "`#![forbid(unsafe_code)]` in {path}");
        }
    }
}

#[test]
fn every_form_of_unsafe_code_is_found() {
    let source = |text: &str| {
        let file = syn::parse_file(text).unwrap();
        let (krate, path) = ("a".to_owned(), "a/src/lib.rs".to_owned());
        Source { krate, module: Vec::new(), path, items: file.items, attributes: file.attrs }
    };
    for text in [
        "fn f() { let x = unsafe { g() }; }",
        "mod m { unsafe fn f() {} }",
        "impl A { unsafe fn f() {} }",
        "unsafe impl Send for A {}",
        "unsafe trait A {}",
        "unsafe extern \"C\" { fn f(); }",
        "#[unsafe(no_mangle)] fn f() {}",
    ] {
        assert!(is_unsafe(&source(text)), "{text}");
    }
    let safe = source("#![forbid(unsafe_code)]\n//! Nothing unsafe.\nfn f() { let unsafety = \"unsafe\"; }");
    assert!(!is_unsafe(&safe) && forbids_it(&safe.attributes));
    assert!(!forbids_it(&source("#![deny(unsafe_code)]").attributes));
}
