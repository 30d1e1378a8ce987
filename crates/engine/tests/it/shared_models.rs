//! Linear models that nodes share: whatever nodes teach, and whatever goes wrong between them, all have the same model in the end, which
//! is that of the examples in the order of their stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::{
    Directory, Engine, ExampleId, ExamplePage, ExamplePosition, ExampleReceipt, ModelSnapshot, SharedExample,
    SharedModelName, SharedModelState, SharedRegistries, SnapshotStream, TrainingBounds, TrainingStreams,
};
use event::Event;
use plan::{Config, Overrides};
use proptest::prelude::*;

use crate::pipeline::NOW;
use crate::registries::{LoneNode, open_with};

const CONFIGURATION: &str = r#"
name = "forum"
[[field]]
name = "post.text"
type = "string"
[feedback]
spam = []
ham = []
forget = []
[[classifier]]
name = "learned"
of = ["post.text"]
runs = ["post.text"]
forget = ["forget"]
[node]
versions = 2
"#;

/// A stream of examples in memory. It can be away, lose answers and examples, and damage snapshots.
#[derive(Clone, Default)]
struct Stream {
    /// All examples from the first on, also those that are cut off.
    history: Vec<SharedExample>,
    /// The number of examples before these: of a stream that began with a snapshot.
    before: u64,
    base: u64,
    origin: ExampleId,
    senders: BTreeMap<u64, u64>,
    snapshot: Option<(ModelSnapshot, Vec<u8>)>,
    lease: Option<u64>,
    leases: u64,
    is_wanted: bool,
    is_away: bool,
    loses_answers: bool,
    damages: bool,
    most: u64,
}

impl Stream {
    fn head(&self) -> u64 {
        self.before + self.history.len() as u64
    }

    fn id(&self, number: u64) -> ExampleId {
        if number == self.base { self.origin } else { self.history[(number - self.before) as usize - 1].id }
    }
}

#[derive(Clone)]
struct MemoryStreams {
    streams: Arc<Mutex<BTreeMap<SharedModelName, Stream>>>,
    bounds: TrainingBounds,
}

impl MemoryStreams {
    fn new(snapshot_examples: u64, kept: u64) -> MemoryStreams {
        let bounds = TrainingBounds { snapshot_examples, snapshot_bytes: 1 << 30, kept };
        MemoryStreams { streams: Arc::default(), bounds }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SharedModelName, Stream>> {
        self.streams.lock().unwrap()
    }

    /// Does something to the only stream.
    fn with<T>(&self, change: impl FnOnce(&mut Stream) -> T) -> T {
        let mut streams = self.lock();
        assert!(streams.len() <= 1);
        if streams.is_empty() {
            // Its name is not known before it is asked for.
            return change(&mut Stream::default());
        }
        change(streams.values_mut().next().unwrap())
    }

    fn ask<T>(&self, model: SharedModelName, ask: impl FnOnce(&mut Stream) -> T) -> Result<T, String> {
        let mut streams = self.lock();
        let stream = streams.entry(model).or_default();
        if stream.is_away { Err("the cluster is away".to_owned()) } else { Ok(ask(stream)) }
    }
}

impl TrainingStreams for MemoryStreams {
    fn append(
        &self,
        model: SharedModelName,
        known: u64,
        examples: &[SharedExample],
    ) -> Result<ExampleReceipt, String> {
        let (receipt, loses) = self.ask(model, |stream| {
            let sender = examples[0].id.sender;
            let mut last = stream.senders.get(&sender).copied().unwrap_or(0);
            if stream.head() < known {
                return (ExampleReceipt { last, is_full: false, is_behind: true }, false);
            }
            let mut is_full = false;
            for example in examples {
                assert_eq!(example.id.sender, sender);
                if example.id.number > last {
                    if stream.most > 0 && stream.head() - stream.base >= stream.most {
                        is_full = true;
                        break;
                    }
                    stream.history.push(example.clone());
                    last = example.id.number;
                }
            }
            stream.senders.insert(sender, last);
            (ExampleReceipt { last, is_full, is_behind: false }, stream.loses_answers)
        })?;
        if loses { Err("the answer was lost".to_owned()) } else { Ok(receipt) }
    }

    fn after(&self, model: SharedModelName, position: ExamplePosition) -> Result<ExamplePage, String> {
        self.ask(model, |stream| {
            let ExamplePosition { number, id } = position;
            let is_there = number >= stream.base && number <= stream.head();
            let follows = is_there && (number == 0 || stream.id(number) == id);
            let from = if follows { (number - stream.before) as usize } else { stream.history.len() };
            ExamplePage {
                head: stream.head(),
                bytes: stream.history.len() as u64,
                snapshot: stream.snapshot.as_ref().map(|(snapshot, _)| *snapshot),
                is_snapshot_wanted: stream.is_wanted,
                follows,
                examples: stream.history[from..].iter().take(3).cloned().collect(),
            }
        })
    }

    fn snapshot(&self, model: SharedModelName, of: &ModelSnapshot) -> Result<Option<Vec<u8>>, String> {
        self.ask(model, |stream| {
            let found = stream.snapshot.as_ref().filter(|(found, _)| found == of);
            found.map(|(_, content)| content.clone())
        })
    }

    fn ask_for_snapshot(&self, model: SharedModelName) -> Result<(), String> {
        self.ask(model, |stream| stream.is_wanted = true)
    }

    fn lease(&self, model: SharedModelName) -> Result<Option<u64>, String> {
        self.ask(model, |stream| {
            if stream.lease.is_some() {
                return None;
            }
            stream.leases += 1;
            stream.lease = Some(stream.leases);
            stream.lease
        })
    }

    fn put_snapshot(
        &self,
        model: SharedModelName,
        lease: u64,
        position: ExamplePosition,
        kind: SnapshotStream,
        content: &[u8],
    ) -> Result<bool, String> {
        self.ask(model, |stream| {
            if stream.lease != Some(lease) {
                return false;
            }
            match kind {
                SnapshotStream::Begun { known } => {
                    if stream.head() != known {
                        return false;
                    }
                    (stream.history, stream.before) = (Vec::new(), position.number);
                    (stream.base, stream.origin) = (position.number, position.id);
                }
                SnapshotStream::Continued { kept } => {
                    let is_there = position.number >= stream.base && position.number <= stream.head();
                    if !is_there || stream.id(position.number) != position.id {
                        return false;
                    }
                    let to = position.number.saturating_sub(kept);
                    if to > stream.base {
                        (stream.origin, stream.base) = (stream.id(to), to);
                    }
                }
            }
            let mut content = content.to_vec();
            if stream.damages {
                content[5_000] ^= 1;
            }
            stream.snapshot = Some((ModelSnapshot { position, lease, pieces: 1 }, content));
            stream.is_wanted = false;
            stream.lease = None;
            true
        })
    }

    fn bounds(&self) -> TrainingBounds {
        self.bounds
    }
}

struct Node {
    _parent: tempfile::TempDir,
    directory: Directory,
    streams: MemoryStreams,
    engine: Option<Engine>,
}

impl Node {
    /// A node with the secret that all have.
    fn new(streams: &MemoryStreams) -> Node {
        let mut node = Node::closed(streams);
        node.open(true);
        node
    }

    fn closed(streams: &MemoryStreams) -> Node {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        std::fs::write(directory.path().join("secret"), format!("{}\n", "5a".repeat(16))).unwrap();
        Node { _parent: parent, directory, streams: streams.clone(), engine: None }
    }

    fn open(&mut self, is_shared: bool) {
        self.engine = None;
        let config = Config::from_text("forum.toml", CONFIGURATION, &Overrides::default());
        let examples = || -> Box<dyn TrainingStreams> { Box::new(self.streams.clone()) };
        let registries = SharedRegistries { examples: is_shared.then(examples), ..LoneNode::registries() };
        self.engine = Some(open_with(&self.directory, &config, registries));
    }

    /// Ends as a killed process does, and begins again. Its statistics are lost with it, as they are in memory.
    fn restart(&mut self) {
        self.open(true);
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn teach(&self, text: &str, class: &str) {
        let prepared =
            self.engine().prepare(&Arc::clone(&self.engine().plan().pipelines[0]), post(text), NOW);
        pollster::block_on(self.engine().learn(prepared, text, class)).unwrap();
    }

    fn exchange(&self) -> Result<(), String> {
        self.engine().exchange_examples()
    }

    fn state(&self) -> SharedModelState {
        self.engine().shared_models()["forum/learned.linear"].clone()
    }

    fn odds(&self, text: &str) -> Option<String> {
        let decision = crate::pipeline::decide_at(self.engine(), post(text), NOW);
        let facts = self.engine().explain(decision.id).unwrap().facts;
        facts.iter().find(|(name, _)| name == "learned.linear").map(|(_, value)| format!("{value:?}"))
    }

    /// Names, places and bytes of all models, as they are written.
    fn model(&self) -> Vec<u8> {
        (0..6).for_each(|_| self.engine().maintain(Some(NOW)).unwrap());
        let sealed = std::fs::read(self.directory.path().join("learners.bin")).unwrap();
        disk::unseal(&sealed).unwrap()[8..].to_vec()
    }

    fn condition(&self) -> Option<String> {
        let conditions = self.engine().health().list().into_iter();
        conditions
            .filter(|condition| condition.name == "models-behind")
            .map(|condition| condition.detail)
            .next()
    }
}

fn post(text: &str) -> Event {
    let mut event = Event::default();
    event.push("post.text", text);
    event
}

fn text(number: usize) -> String {
    let own = if number.is_multiple_of(2) {
        ["cheap pills", "casino bonus"]
    } else {
        ["patch review", "meeting notes"]
    };
    format!("{} number {} at {}", own[number / 2 % 2], number * 7919, number % 13)
}

fn class(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "spam" } else { "ham" }
}

fn teach(node: &Node, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| node.teach(&text(number), class(number)));
}

/// Has nodes exchange examples until all have all.
fn settle(nodes: &[&Node]) {
    for _ in 0..2 {
        nodes.iter().for_each(|node| node.exchange().unwrap());
    }
}

fn check_alike(nodes: &[&Node]) {
    let first = nodes[0].model();
    for node in nodes {
        assert!(node.model() == first, "{:?} {:?}", nodes[0].state(), node.state());
        let state = node.state();
        assert_eq!((state.waiting, state.version), (0, state.head));
        for number in 100..110 {
            assert_eq!(node.odds(&text(number)), nodes[0].odds(&text(number)));
        }
    }
}

/// A node that learns all examples of the stream from the first on, without any snapshot.
fn reference(streams: &MemoryStreams) -> Node {
    let mut streams = streams.lock().clone();
    for stream in streams.values_mut() {
        assert_eq!(stream.before, 0);
        (stream.base, stream.origin, stream.snapshot) = (0, ExampleId::default(), None);
    }
    Node::new(&MemoryStreams { streams: Arc::new(Mutex::new(streams)), bounds: TrainingBounds::DEFAULT })
}

#[test]
fn nodes_that_teach_by_turns_have_the_same_model() {
    let streams = MemoryStreams::new(1_000, 10);
    let (one, two) = (Node::new(&streams), Node::new(&streams));
    for turn in 0..10 {
        teach(&one, 4 * turn..4 * turn + 2);
        teach(&two, 4 * turn + 2..4 * turn + 4);
        one.exchange().unwrap();
        two.exchange().unwrap();
    }
    settle(&[&one, &two]);
    check_alike(&[&one, &two, &reference(&streams)]);
    assert_eq!(streams.with(|stream| stream.head()), 40);
    assert!(one.odds(&text(100)).is_some());

    // An example that both teach counts once; where they disagree the last one stands, on both.
    for node in [&one, &two] {
        node.teach("what both have seen", "spam");
    }
    settle(&[&one, &two]);
    let version = one.state().version;
    let known = one.model();
    one.teach("what they disagree on", "spam");
    two.teach("what they disagree on", "ham");
    settle(&[&one, &two]);
    assert!(one.state().version == version + 2 && one.model() != known);
    check_alike(&[&one, &two, &reference(&streams)]);
}

#[test]
fn a_node_that_joins_late_begins_with_the_snapshot() {
    let streams = MemoryStreams::new(10, 3);
    let one = Node::new(&streams);
    for number in 0..25 {
        teach(&one, number..number + 1);
        one.exchange().unwrap();
    }
    assert_eq!(streams.with(|stream| (stream.base, stream.head())), (17, 25), "examples are cut off");
    assert_eq!(one.state().snapshot, 20);
    let mut two = Node::new(&streams);
    assert_eq!(two.state().version, 25, "before it serves");
    check_alike(&[&one, &two]);

    // One that is away for long begins with the next one; one that was away for a little reads on.
    for (numbers, was_cut) in [(30..40, true), (40..41, false)] {
        two.engine = None;
        for number in numbers {
            teach(&one, number..number + 1);
            one.exchange().unwrap();
        }
        assert_eq!(streams.with(|stream| stream.base > two_version(&two)), was_cut);
        two.restart();
        check_alike(&[&one, &two]);
    }
    check_alike(&[&one, &reference(&streams)]);
}

/// The place of a node that is closed, from its file.
fn two_version(node: &Node) -> u64 {
    let sealed = std::fs::read(node.directory.path().join("learners.bin")).unwrap();
    u64::from_le_bytes(disk::unseal(&sealed).unwrap()[13..21].try_into().unwrap())
}

#[test]
fn examples_wait_while_the_cluster_is_away_and_survive_a_kill() {
    let streams = MemoryStreams::new(1_000, 10);
    let (mut one, two) = (Node::new(&streams), Node::new(&streams));
    teach(&one, 0..6);
    settle(&[&one, &two]);
    let known = one.odds(&text(100));
    one.model();
    streams.with(|stream| stream.is_away = true);
    teach(&one, 6..9);
    assert!(one.exchange().unwrap_err().contains("the cluster is away"));
    assert!(
        one.condition().unwrap().contains("the linear model `forum/learned.linear`: "),
        "{:?}",
        one.condition()
    );
    assert_eq!((one.state().waiting, one.odds(&text(100))), (3, known), "it judges as before");
    // Killed before and after the models are written, and with examples of two processes.
    one.restart();
    assert_eq!(one.state().waiting, 3);
    teach(&one, 9..11);
    one.model();
    one.restart();
    assert_eq!(one.state().waiting, 5);
    streams.with(|stream| (stream.is_away, stream.loses_answers) = (false, true));
    assert!(one.exchange().unwrap_err().contains("the answer was lost"));
    one.restart();
    assert_eq!(streams.with(|stream| stream.head()), 6 + 3, "those of the first process");
    streams.with(|stream| stream.loses_answers = false);
    settle(&[&one, &two]);
    assert_eq!(streams.with(|stream| stream.head()), 6 + 5, "none twice");
    check_alike(&[&one, &two, &reference(&streams)]);
    assert_eq!(one.condition(), None);
}

#[test]
fn a_broken_snapshot_is_refused_and_said() {
    let streams = MemoryStreams::new(5, 0);
    let one = Node::new(&streams);
    teach(&one, 0..2);
    one.exchange().unwrap();
    let two = Node::new(&streams);
    let known = two.model();
    teach(&one, 2..7);
    one.exchange().unwrap();
    streams.with(|stream| stream.snapshot.as_mut().unwrap().1[5_000] ^= 1);
    let why = two.exchange().unwrap_err();
    assert!(why.contains("its snapshot of example 7 is damaged, and is not taken"), "{why}");
    assert_eq!(two.condition(), Some(why));
    assert!(two.model() == known, "it judges as before");
    let late = Node::new(&streams);
    assert!(late.condition().is_some() && late.odds(&text(100)).is_none());
    // Who finds it so twice asks for another one, which mends it.
    assert!(!streams.with(|stream| stream.is_wanted));
    assert!(late.exchange().is_err() && streams.with(|stream| stream.is_wanted));
    one.exchange().unwrap();
    settle(&[&two, &late]);
    check_alike(&[&one, &two, &late]);
    assert_eq!((two.condition(), late.condition()), (None, None));
    // It asks no more if all are damaged.
    streams.with(|stream| stream.damages = true);
    teach(&one, 7..13);
    one.exchange().unwrap();
    let leases: Vec<u64> = (0..12)
        .map(|_| {
            assert!(two.exchange().is_err());
            one.exchange().unwrap();
            streams.with(|stream| stream.leases)
        })
        .collect();
    assert_eq!(leases[11], leases[0] + 3, "{leases:?}");
    // With the next examples comes a sound one.
    streams.with(|stream| stream.damages = false);
    teach(&one, 13..20);
    one.exchange().unwrap();
    settle(&[&two, &late]);
    check_alike(&[&one, &two, &late]);
}

#[test]
fn who_is_killed_with_the_lease_holds_nobody_up_for_long() {
    let streams = MemoryStreams::new(5, 1);
    let (one, two) = (Node::new(&streams), Node::new(&streams));
    streams.with(|stream| stream.most = 8);
    teach(&one, 0..4);
    one.exchange().unwrap();
    assert!(streams.with(|stream| {
        stream.lease = Some(77);
        stream.snapshot.is_none()
    }));
    teach(&one, 4..8);
    one.exchange().unwrap();
    settle(&[&two]);
    assert_eq!(streams.with(|stream| stream.base), 0, "nothing is cut off that no snapshot has");
    check_alike(&[&one, &two]);
    // The stream is full: examples wait.
    teach(&two, 8..12);
    assert!(two.exchange().unwrap_err().contains("full until a snapshot"));
    assert_eq!(two.state().waiting, 4);
    // The lease ends.
    streams.with(|stream| stream.lease = None);
    settle(&[&two, &one]);
    assert!(streams.with(|stream| stream.base) >= 7);
    check_alike(&[&one, &two, &reference(&streams)]);
    assert_eq!(streams.with(|stream| stream.head()), 12);
}

#[test]
fn what_a_node_knew_before_it_shared_becomes_everybodys() {
    let streams = MemoryStreams::new(100, 10);
    let [mut first, mut second] = [(), ()].map(|()| Node::closed(&streams));
    for (node, numbers) in [(&mut first, 0..10), (&mut second, 10..14)] {
        node.open(false);
        teach(node, numbers);
        assert!(node.engine().shared_models()["forum/learned.linear"].version == 0);
        node.engine().close().unwrap();
    }
    first.open(true);
    let known = first.odds(&text(100));
    assert!(known.is_some());
    second.open(true);
    assert_eq!(second.odds(&text(100)), known);
    teach(&second, 20..24);
    settle(&[&second, &first]);
    check_alike(&[&first, &second]);
    assert_eq!(first.state().version, 1 + 4);
}

#[test]
fn a_stream_that_a_failover_has_forgotten_is_begun_again() {
    let streams = MemoryStreams::new(100, 10);
    let (one, two) = (Node::new(&streams), Node::new(&streams));
    teach(&one, 0..10);
    settle(&[&one, &two]);
    let known = one.model();
    // The last examples are gone, and others have their numbers.
    streams.with(|stream| stream.history.truncate(7));
    teach(&two, 10..16);
    settle(&[&two, &one]);
    check_alike(&[&one, &two, &reference(&streams)]);
    // All of it is gone: the first one to notice gives it back.
    teach(&two, 16..18);
    settle(&[&two, &one]);
    let whole = one.model();
    streams.with(|stream| *stream = Stream::default());
    settle(&[&one, &two]);
    check_alike(&[&one, &two]);
    assert!(one.model() == whole && whole != known);
    teach(&two, 18..20);
    settle(&[&two, &one]);
    check_alike(&[&one, &two]);
}

#[derive(Clone, Debug)]
enum Step {
    Teach(usize, usize, &'static str),
    Exchange(usize),
    Restart(usize),
    Away(bool),
    LosesAnswers(bool),
    /// A node is killed with the lease; it ends at the next time.
    Lease(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![Just("spam"), Just("ham"), Just("forget")];
    prop_oneof![
        8 => (0..3usize, 0..12usize, class).prop_map(|(node, number, class)| Step::Teach(node, number, class)),
        6 => (0..3usize).prop_map(Step::Exchange),
        1 => (0..3usize).prop_map(Step::Restart),
        1 => any::<bool>().prop_map(Step::Away),
        1 => any::<bool>().prop_map(Step::LosesAnswers),
        1 => any::<bool>().prop_map(Step::Lease),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a list of examples: nodes end with the model of the list, in which every example is once, and for each event the last that
    /// its node has taught.
    #[test]
    fn nodes_have_the_model_of_the_list_of_examples(steps in prop::collection::vec(step(), 1..60)) {
        let streams = MemoryStreams::new(7, 2);
        let mut nodes: Vec<Node> = (0..3).map(|_| Node::new(&streams)).collect();
        // The label of each event, which one node alone teaches.
        let mut taught: BTreeMap<(usize, usize), u8> = BTreeMap::new();
        // Events whose label is in a node's statistics, which a restart of these nodes loses.
        let mut counted: BTreeSet<(usize, usize)> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Teach(node, number, class) => {
                    let label = match class { "spam" => 2, "ham" => 1, _ => 0 };
                    nodes[node].teach(&format!("{} of node {node}", text(number)), class);
                    // What is not counted cannot be forgotten.
                    if label > 0 || counted.remove(&(node, number)) {
                        taught.insert((node, number), label);
                    }
                    if label > 0 {
                        counted.insert((node, number));
                    }
                }
                Step::Exchange(node) => _ = nodes[node].exchange(),
                Step::Restart(node) => {
                    nodes[node].restart();
                    counted.retain(|(of, _)| *of != node);
                }
                Step::Away(is_away) => streams.with(|stream| stream.is_away = is_away),
                Step::LosesAnswers(loses) => streams.with(|stream| stream.loses_answers = loses),
                Step::Lease(is_held) => streams.with(|stream| stream.lease = is_held.then_some(0)),
            }
        }
        streams.with(|stream| (stream.is_away, stream.loses_answers, stream.lease) = (false, false, None));
        for _ in 0..3 {
            nodes.iter().for_each(|node| node.exchange().unwrap());
        }
        let examples = streams.with(|stream| stream.history.clone());
        let ids: BTreeSet<ExampleId> = examples.iter().map(|example| example.id).collect();
        prop_assert_eq!(ids.len(), examples.len(), "none is there twice");
        if examples.is_empty() {
            return Ok(());
        }
        check_alike(&nodes.iter().collect::<Vec<_>>());
        check_alike(&[&nodes[0], &reference(&streams)]);
        // Form, event, label before and now: the last of each event.
        let last: BTreeMap<&[u8], u8> = examples.iter().map(|example| (&example.bytes[1..9], example.bytes[10])).collect();
        for label in 1..=2u8 {
            let (found, wanted) = (last.values().filter(|found| **found == label), taught.values().filter(|wanted| **wanted == label));
            prop_assert_eq!(found.count(), wanted.count(), "of label {}", label);
        }
    }
}
