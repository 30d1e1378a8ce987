//! Bans and lifts of one node hold on all that share its registries, whatever was away, restarted or lost meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use engine::{
    AllowEntry, CHANGE_SUBJECT_BYTES, ChangePage, ChangePosition, ChangeRegistry, Directory, Engine,
    SharedChange, SharedChangeKind, SharedRegistries, ValueNote,
};
use event::{Event, Span, Time};
use plan::{Config, Overrides};
use proptest::prelude::*;

use crate::registries::{LoneNode, open_with};

const NOW: Time = Time::from_seconds(1_700_000_000);
const PIPELINE: &str = r#"
name = "posts"
space = 4

[[field]]
name = "user"
type = "string"

[[kind]]
name = "user"
of = "user"

[[label]]
name = "abuser"
of = "user"
keep = "7d"
decision = "ban"

[[rule]]
name = "SEEN"
when = "user.marked('abuser')"
score = 1

[[limit]]
name = "invites"
key = ["user"]
count = 2
per = "1d"
"#;

/// The list that nodes share, as it is in memory: what the scripts in the cluster do, said once more.
#[derive(Clone, Default)]
struct ListState {
    changes: BTreeMap<u64, SharedChange>,
    numbers: HashMap<[u8; CHANGE_SUBJECT_BYTES], u64>,
    last: u64,
    tags: Vec<u64>,
}

#[derive(Default)]
struct List {
    state: ListState,
    /// The list as it was before each of the last calls.
    before: Vec<ListState>,
    is_away: bool,
    tag: u64,
}

#[derive(Clone, Default)]
struct Registries(Arc<Mutex<List>>);

impl ChangeRegistry for Registries {
    fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String> {
        const PAGE: usize = 3;
        let list = self.0.lock().unwrap();
        let ListState { changes, tags, last, .. } = &list.state;
        if list.is_away {
            return Err("away".to_owned());
        }
        if position.call > 0 && tags.get(position.call as usize - 1) != Some(&position.tag) {
            return Ok(None);
        }
        let found: Vec<_> = changes.range(position.number + 1..).take(PAGE).collect();
        let has_more = found.len() == PAGE;
        let number = found.last().filter(|_| has_more).map_or(*last, |(number, _)| **number);
        let position =
            ChangePosition { number, call: tags.len() as u64, tag: tags.last().copied().unwrap_or_default() };
        let changes = found.into_iter().map(|(_, change)| change.clone()).collect();
        Ok(Some(ChangePage { changes, position, has_more }))
    }

    fn append(&self, changes: Vec<SharedChange>, _horizon: Time) -> Result<usize, String> {
        let mut list = self.0.lock().unwrap();
        if list.is_away {
            return Err("away".to_owned());
        }
        let before = list.state.clone();
        let state = &mut list.state;
        for change in changes {
            let known = state.numbers.get(&change.subject).and_then(|number| state.changes.get(number));
            let is_stated = known.is_some_and(|known| {
                change.kind != SharedChangeKind::Set
                    && known.kind == change.kind
                    && known.until >= change.until
            });
            if !is_stated {
                state.last += 1;
                if let Some(number) = state.numbers.insert(change.subject, state.last) {
                    state.changes.remove(&number);
                }
                state.changes.insert(state.last, change);
            }
        }
        if state.last > before.last {
            list.tag += 1;
            let tag = list.tag;
            list.state.tags.push(tag);
            list.before.push(before);
        }
        Ok(0)
    }
}

struct Node {
    _parent: tempfile::TempDir,
    directory: Directory,
    registries: Registries,
    engine: Option<Engine>,
}

impl Node {
    fn new(registries: &Registries, secret: Option<&Node>) -> Node {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        if let Some(other) = secret {
            let secret = |node: &Directory| node.path().join("secret");
            std::fs::copy(secret(&other.directory), secret(&directory)).unwrap();
        }
        std::fs::write(directory.config_path(), PIPELINE).unwrap();
        let mut node = Node { _parent: parent, directory, registries: registries.clone(), engine: None };
        node.restart();
        node
    }

    fn restart(&mut self) {
        self.engine = None;
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        let registries =
            SharedRegistries { changes: Box::new(self.registries.clone()), ..LoneNode::registries() };
        self.engine = Some(open_with(&self.directory, &config, registries));
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn share(&self, now: Time) -> bool {
        self.engine().share(now).is_ok()
    }

    fn ban(&self, value: &str, lasts: i64, now: Time) {
        let plan = self.engine().plan();
        let marked = self.engine().mark(
            &plan.pipelines[0],
            "user",
            "abuser",
            value,
            (Span::seconds(lasts), None),
            now,
        );
        pollster::block_on(marked).unwrap();
    }

    fn lift(&self, value: &str, now: Time) -> usize {
        pollster::block_on(self.engine().lift(value, now)).unwrap()
    }

    /// The ends of bans, in seconds from the start.
    fn bans(&self, now: Time) -> BTreeMap<String, i64> {
        let users = (0..4).map(|user| format!("u{user}"));
        let end = |value: String| {
            let bans = self.engine().ban_list().of_value(&value, now);
            assert!(bans.len() < 2, "{bans:?}");
            Some((value, (bans.first()?.until.0 - NOW.0) / 1_000_000))
        };
        users.filter_map(end).collect()
    }

    fn sees(&self, user: &str, now: Time) -> bool {
        let mut event = Event::default();
        event.push("user", user);
        let engine = self.engine();
        let plan = engine.plan();
        let prepared = engine.prepare(&plan.pipelines[0], event, now);
        let decisions = pollster::block_on(engine.decide(vec![prepared]));
        decisions[0].verdict.reasons.iter().any(|reason| reason.rule == "SEEN")
    }
}

fn fleet(nodes: usize) -> (Registries, Vec<Node>) {
    let registries = Registries::default();
    let first = Node::new(&registries, None);
    let more: Vec<Node> = (1..nodes).map(|_| Node::new(&registries, Some(&first))).collect();
    (registries, std::iter::once(first).chain(more).collect())
}

#[test]
fn a_lift_on_one_node_holds_on_all_for_rules_too() {
    let (registries, mut nodes) = fleet(2);
    let check = |nodes: &[Node], expected: bool| {
        for node in nodes {
            assert_eq!(node.sees("u1", NOW), expected);
        }
    };
    for node in &nodes {
        // Statistics are shared by other means: here each has the mark.
        node.ban("u1", 100, NOW);
        assert!(node.share(NOW));
    }
    check(&nodes, true);
    assert_eq!(nodes[1].lift("u1", NOW), 1);
    assert!(nodes[1].share(NOW) && nodes[0].share(NOW));
    check(&nodes, false);
    nodes[0].restart();
    nodes[0].share(NOW);
    assert!(nodes[0].bans(NOW).is_empty(), "its file knows of the lift");
    check(&nodes[1..], false);
    // On again, and for less time.
    nodes[1].ban("u1", 50, NOW);
    assert!(nodes[1].share(NOW) && nodes[0].share(NOW));
    assert_eq!(nodes[0].bans(NOW), BTreeMap::from([("u1".to_owned(), 50)]));
    check(&nodes[1..], true);
    // A ban that a lift was not told of, as its node was cut off, comes behind it.
    registries.0.lock().unwrap().is_away = true;
    nodes[0].ban("u1", 90, NOW);
    assert!(!nodes[0].share(NOW));
    nodes[0].restart();
    registries.0.lock().unwrap().is_away = false;
    nodes[1].lift("u1", NOW);
    assert!(nodes[1].share(NOW) && nodes[0].share(NOW) && nodes[1].share(NOW));
    for node in &nodes {
        assert_eq!(node.bans(NOW), BTreeMap::from([("u1".to_owned(), 90)]));
    }
}

/// Others never hear of a lift that has ended by then, so that it hides nothing that comes later.
#[test]
fn a_lift_that_has_ended_hides_no_later_ban() {
    let (_, nodes) = fleet(2);
    let later = NOW + Span::seconds(1);
    nodes[1].ban("u1", 1, NOW);
    nodes[1].lift("u1", NOW);
    nodes[0].ban("u1", 10, later);
    for node in &nodes {
        assert!(node.share(later));
        assert_eq!(node.bans(later), BTreeMap::from([("u1".to_owned(), 11)]));
    }
}

/// A ban that a failover has left in the list may have ended.
#[test]
fn a_lost_ban_is_told_again_beside_one_that_has_ended() {
    let (registries, nodes) = fleet(2);
    let later = NOW + Span::seconds(1);
    nodes[0].ban("u1", 1, NOW);
    assert!(nodes[0].share(NOW));
    nodes[0].ban("u1", 10, later);
    assert!(nodes[0].share(later));
    let mut list = registries.0.lock().unwrap();
    list.state = list.before.pop().unwrap();
    drop(list);
    for node in [&nodes[0], &nodes[0], &nodes[1]] {
        assert!(node.share(later));
    }
    for node in &nodes {
        assert_eq!(node.bans(later), BTreeMap::from([("u1".to_owned(), 11)]));
    }
}

#[test]
fn exceptions_are_everybodys_or_refused() {
    let (registries, nodes) = fleet(2);
    let exception = |key: &str, count: Option<u64>| plan::limit::LimitException {
        limit: "invites".to_owned(),
        key: vec![key.to_owned()],
        count,
        exempt: false,
        until: None,
    };
    let posted = |node: &Node| {
        let posted = node.engine().posted_exceptions("invites").into_iter();
        posted.map(|exception| (exception.key[0].clone(), exception.count)).collect::<BTreeMap<_, _>>()
    };
    nodes[0].engine().post_exception(exception("ann", Some(5)), NOW).unwrap();
    nodes[1].engine().post_exception(exception("bob", Some(6)), NOW).unwrap();
    nodes[1].engine().post_exception(exception("ann", Some(7)), NOW).unwrap();
    let both = BTreeMap::from([("ann".to_owned(), Some(7)), ("bob".to_owned(), Some(6))]);
    for node in &nodes {
        node.share(NOW);
        assert_eq!(posted(node), both);
    }
    registries.0.lock().unwrap().is_away = true;
    nodes[0].engine().post_exception(exception("ann", None), NOW).unwrap_err();
    assert_eq!(posted(&nodes[0]), both, "nothing has changed");
    registries.0.lock().unwrap().is_away = false;
    nodes[0].engine().post_exception(exception("ann", None), NOW).unwrap();
    nodes[1].share(NOW);
    assert_eq!(posted(&nodes[1]), BTreeMap::from([("bob".to_owned(), Some(6))]));
    // What the cluster has lost nodes have.
    registries.0.lock().unwrap().state = ListState::default();
    nodes.iter().for_each(|node| _ = node.share(NOW));
    nodes.iter().for_each(|node| _ = node.share(NOW));
    let late = Node::new(&registries, Some(&nodes[0]));
    late.share(NOW);
    assert_eq!(posted(&late), BTreeMap::from([("bob".to_owned(), Some(6))]));
}

#[test]
fn allowed_values_and_notes_are_everybodys_or_refused() {
    let (registries, nodes) = fleet(2);
    let entry = |value: &str| AllowEntry {
        value: value.to_owned(),
        why: "ours".to_owned(),
        by: "ann".to_owned(),
        since: NOW,
        until: None,
    };
    let note = |value: &str, text: &str| ValueNote {
        value: value.to_owned(),
        time: NOW,
        by: "ann".to_owned(),
        text: text.to_owned(),
    };
    let allowed = |node: &Node| {
        let mut values: Vec<String> =
            node.engine().allow_entries().into_iter().map(|entry| entry.value).collect();
        values.sort_unstable();
        values
    };
    let notes = |node: &Node| node.engine().value_notes("u1").len();
    nodes[1].ban("u1", 100, NOW);
    assert!(nodes[1].share(NOW) && nodes[0].share(NOW));
    nodes[0].engine().allow(entry("U1"), NOW).unwrap();
    nodes[0].engine().allow(entry("10.9.8.0/24"), NOW).unwrap();
    nodes[1].engine().add_note(note("u1", "one"), NOW).unwrap();
    let kept = nodes[1].engine().add_note(note("u1", "another of the same time"), NOW).unwrap();
    for node in &nodes {
        assert!(node.share(NOW));
        assert_eq!((allowed(node), notes(node)), (vec!["10.9.8.0/24".to_owned(), "u1".to_owned()], 2));
        assert!(node.bans(NOW).is_empty(), "a value that is allowed is banned nowhere");
    }
    registries.0.lock().unwrap().is_away = true;
    nodes[0].engine().disallow("u1", NOW).unwrap_err();
    nodes[0].engine().add_note(note("u1", "lost"), NOW).unwrap_err();
    assert_eq!((allowed(&nodes[0]).len(), notes(&nodes[0])), (2, 2), "nothing has changed");
    registries.0.lock().unwrap().is_away = false;
    assert!(nodes[0].engine().disallow("u1", NOW).unwrap());
    assert!(nodes[0].engine().remove_note("u1", kept.time, NOW).unwrap());
    assert!(nodes[1].share(NOW));
    assert_eq!((allowed(&nodes[1]), notes(&nodes[1])), (vec!["10.9.8.0/24".to_owned()], 1));
    // What the cluster has lost nodes have.
    registries.0.lock().unwrap().state = ListState::default();
    nodes.iter().for_each(|node| _ = node.share(NOW));
    nodes.iter().for_each(|node| _ = node.share(NOW));
    let late = Node::new(&registries, Some(&nodes[0]));
    late.share(NOW);
    assert_eq!((allowed(&late), notes(&late)), (vec!["10.9.8.0/24".to_owned()], 1));
}

#[derive(Clone, Debug)]
enum Step {
    Ban {
        node: usize,
        user: u8,
        lasts: i64,
    },
    Lift {
        node: usize,
        user: u8,
    },
    Share(usize),
    Restart(usize),
    /// The cluster is away, or back.
    Away(bool),
    /// A failover has forgotten so many calls.
    Lose(usize),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..3usize;
    prop_oneof![
        5 => (node(), 0..4u8, 1..200i64).prop_map(|(node, user, lasts)| Step::Ban { node, user, lasts }),
        3 => (node(), 0..4u8).prop_map(|(node, user)| Step::Lift { node, user }),
        6 => node().prop_map(Step::Share),
        1 => node().prop_map(Step::Restart),
        1 => any::<bool>().prop_map(Step::Away),
        1 => (1..4usize).prop_map(Step::Lose),
        1 => (1..40i64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Once all have looked often enough, all have the same bans, and these are the list's.
    #[test]
    fn nodes_agree_on_who_is_banned_in_the_end(steps in prop::collection::vec(step(), 1..50)) {
        let (registries, mut nodes) = fleet(3);
        let mut now = NOW;
        for step in steps {
            match step {
                Step::Ban { node, user, lasts } => nodes[node].ban(&format!("u{user}"), lasts, now),
                Step::Lift { node, user } => _ = nodes[node].lift(&format!("u{user}"), now),
                Step::Share(node) => _ = nodes[node].share(now),
                Step::Restart(node) => nodes[node].restart(),
                Step::Away(is_away) => registries.0.lock().unwrap().is_away = is_away,
                Step::Lose(calls) => {
                    let mut list = registries.0.lock().unwrap();
                    let left = list.before.len().saturating_sub(calls);
                    if let Some(before) = list.before.get(left).cloned() {
                        list.state = before;
                        list.before.truncate(left);
                    }
                }
                Step::Pass(seconds) => now = now + Span::seconds(seconds),
            }
        }
        registries.0.lock().unwrap().is_away = false;
        for _ in 0..6 {
            for node in &nodes {
                prop_assert!(node.share(now));
            }
        }
        let bans: Vec<_> = nodes.iter().map(|node| node.bans(now)).collect();
        prop_assert!(bans.iter().all(|of| *of == bans[0]), "{bans:?}");
        let list = registries.0.lock().unwrap();
        let held = list.state.changes.values();
        let held = held.filter(|change| change.kind == SharedChangeKind::Put && change.until > now).count();
        prop_assert_eq!(held, bans[0].len(), "{:?}", bans[0]);
        prop_assert!(nodes.iter().all(|node| node.engine().unshared_changes() == (0, 0)));
    }
}
