//! Random calls of several connections, their cursors among them, against maps.

use silica_base::Prng;
use silica_sql::encoding::{BEHIND, Collation, Column, Field, encode};
use silica_sql::{
    Connection, Cursor, Database, Equal, Found, META_COUNT, META_DATA_VERSION, Session, TreeCursor,
    code,
};
use silica_testkit::Reference;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::sync::Arc;

type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

/// All of a database at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct Contents {
    trees: BTreeMap<u32, Tree>,
    last_root: u32,
    meta: [u32; META_COUNT],
}

static NOTHING: Tree = Tree::new();

impl Contents {
    fn tree(&self, root: u32) -> &Tree {
        self.trees.get(&root).unwrap_or(&NOTHING)
    }
}

/// Where a cursor is, as its documentation says.
#[derive(Debug, Clone)]
enum Spot {
    Nowhere,
    At(Vec<u8>),
    Between(Vec<u8>),
    Gap(Vec<u8>),
    GapAtStart(Vec<u8>),
}

fn below(tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    tree.range(..key.to_vec()).next_back().map(|(key, _)| key.clone())
}

impl Spot {
    fn of(key: Option<Vec<u8>>) -> Self {
        key.map_or(Spot::Nowhere, Spot::At)
    }

    fn settle(&mut self, tree: &Tree) {
        if let Spot::Gap(key) = self {
            *self = match below(tree, key) {
                Some(below) => Spot::At(below),
                None => Spot::GapAtStart(std::mem::take(key)),
            };
        }
    }

    fn next(&mut self, tree: &Tree) -> bool {
        let next = match self {
            Spot::Nowhere => None,
            Spot::At(key) | Spot::Between(key) => {
                tree.range((Excluded(key.clone()), Unbounded)).next()
            }
            Spot::Gap(key) | Spot::GapAtStart(key) => tree.range(key.clone()..).next(),
        };
        *self = Spot::of(next.map(|(key, _)| key.clone()));
        matches!(self, Spot::At(_))
    }

    fn previous(&mut self, tree: &Tree) -> bool {
        self.settle(tree);
        let previous = match self {
            Spot::At(key) | Spot::Between(key) => below(tree, key),
            _ => None,
        };
        *self = Spot::of(previous);
        matches!(self, Spot::At(_))
    }

    fn restore(&mut self, tree: &Tree) -> bool {
        self.settle(tree);
        if let Spot::At(key) | Spot::Between(key) = self {
            let key = std::mem::take(key);
            let is_there = tree.contains_key(&key);
            *self = if is_there { Spot::At(key) } else { Spot::Between(key) };
        }
        matches!(self, Spot::At(_))
    }
}

enum Phase {
    Idle,
    Reads(Rc<Contents>, u64),
    Writes(Box<Writing>),
}

struct Writing {
    base: Rc<Contents>,
    number: u64,
    now: Contents,
    savepoints: Vec<Contents>,
    has_written: bool,
}

struct Place {
    root: u32,
    cursor: TreeCursor,
    spot: Spot,
    /// Nothing was written since the cursor came where it is.
    is_fresh: bool,
}

struct Client {
    connection: Connection,
    phase: Phase,
    own_commits: u64,
    /// Commits of others before what the last transaction read, and how often they were more.
    others: Option<u64>,
    data_version: u32,
    places: Vec<Place>,
}

impl Client {
    fn contents(&self) -> Option<&Contents> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Reads(contents, _) => Some(contents),
            Phase::Writes(writing) => Some(&writing.now),
        }
    }

    /// What writes, of which something is written now.
    fn write(&mut self) -> &mut Contents {
        self.places.iter_mut().for_each(|place| place.is_fresh = false);
        let Phase::Writes(writing) = &mut self.phase else { panic!("it writes") };
        writing.has_written = true;
        &mut writing.now
    }

    fn enter(&mut self, phase: Phase) {
        let number = match &phase {
            Phase::Idle => None,
            Phase::Reads(_, number) => Some(*number),
            Phase::Writes(writing) => Some(writing.number),
        };
        if let Some(others) = number.map(|number| number - self.own_commits) {
            self.data_version += u32::from(self.others.is_some_and(|seen| seen != others));
            self.others = Some(others);
        }
        self.phase = phase;
        self.places.iter_mut().for_each(|place| place.is_fresh = false);
    }
}

struct World {
    committed: Rc<Contents>,
    commits: u64,
    has_writer: bool,
    clients: Vec<Client>,
    prng: Prng,
}

fn has_rowids(root: u32) -> bool {
    root % 2 == 1
}

/// Of indexes: the second column is folded, and descending in every other one.
fn columns(root: u32) -> [Column; 2] {
    let is_descending = root.is_multiple_of(4);
    [
        Column::default(),
        Column { collation: Collation::NoCase, is_descending, moves_nulls: is_descending },
    ]
}

fn row_key(rowid: i64) -> Vec<u8> {
    (rowid as u64 ^ 1 << 63).to_be_bytes().to_vec()
}

fn random_rowid(prng: &mut Prng) -> i64 {
    match prng.below(12) {
        0 => i64::MIN,
        1 => i64::MAX,
        n => n as i64 - 5,
    }
}

fn random_fields(prng: &mut Prng, count: u64) -> Vec<Field<'static>> {
    const FIELDS: &[Field<'static>] = &[
        Field::Null,
        Field::Integer(1),
        Field::Real(1.5),
        Field::Text(b"a"),
        Field::Text(b"B"),
        Field::Text(b"b\0"),
        Field::Blob(b""),
    ];
    (0..count).map(|_| FIELDS[prng.below(FIELDS.len() as u64) as usize]).collect()
}

fn random_record(prng: &mut Prng) -> Vec<u8> {
    let mut record = vec![0; prng.below(20) as usize];
    prng.fill(&mut record);
    record
}

impl World {
    fn new(database: &Arc<Database>, seed: u64) -> Self {
        let client = || Client {
            connection: Connection::to(Arc::clone(database)),
            phase: Phase::Idle,
            own_commits: 0,
            others: None,
            data_version: 1,
            places: Vec::new(),
        };
        let contents = Contents { last_root: 1, ..Contents::default() };
        World {
            committed: Rc::new(contents),
            commits: 0,
            has_writer: false,
            clients: (0..3).map(|_| client()).collect(),
            prng: Prng::new(seed),
        }
    }

    fn step(&mut self) {
        let who = self.prng.below(self.clients.len() as u64) as usize;
        match self.prng.below(100) {
            0..6 => self.begin(who),
            6..9 => self.commit(who),
            9..11 => self.roll_back(who),
            11..16 => self.savepoints(who),
            16..20 => self.trees(who),
            20..24 => self.meta(who),
            24..28 => self.open_cursor(who),
            28..31 => self.check(who),
            31..50 => self.write(who),
            _ => self.go(who),
        }
    }

    fn begin(&mut self, who: usize) {
        let is_to_write = self.prng.one_in(2);
        let client = &mut self.clients[who];
        let begun = client.connection.begin(is_to_write).map_err(|failure| failure.code);
        let wanted = match &client.phase {
            Phase::Writes(_) => Ok(()),
            _ if is_to_write && self.has_writer => Err(code::BUSY),
            Phase::Reads(_, number) if is_to_write && *number != self.commits => {
                Err(code::BUSY_SNAPSHOT)
            }
            _ => Ok(()),
        };
        assert_eq!(begun, wanted);
        let (base, number) = (Rc::clone(&self.committed), self.commits);
        match &client.phase {
            Phase::Idle | Phase::Reads(..) if is_to_write && begun.is_ok() => {
                self.has_writer = true;
                let now = Contents::clone(&base);
                let (savepoints, has_written) = (Vec::new(), false);
                let writing = Writing { base, number, now, savepoints, has_written };
                client.enter(Phase::Writes(Box::new(writing)));
            }
            Phase::Idle if !is_to_write => client.enter(Phase::Reads(base, number)),
            _ => {}
        }
    }

    fn commit(&mut self, who: usize) {
        let (is_synced, keeps) = (self.prng.one_in(4), self.prng.one_in(2));
        let client = &mut self.clients[who];
        client.connection.commit(is_synced, keeps).unwrap();
        if let Phase::Writes(writing) = &client.phase {
            self.has_writer = false;
            if writing.has_written {
                self.committed = Rc::new(writing.now.clone());
                self.commits += 1;
                client.own_commits += 1;
            }
        }
        let newest = Phase::Reads(Rc::clone(&self.committed), self.commits);
        client.enter(if keeps { newest } else { Phase::Idle });
    }

    fn roll_back(&mut self, who: usize) {
        let keeps = self.prng.one_in(2);
        let client = &mut self.clients[who];
        client.connection.roll_back(keeps).unwrap();
        let left = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::Writes(writing) => {
                self.has_writer = false;
                Phase::Reads(Rc::clone(&writing.base), writing.number)
            }
            phase => phase,
        };
        client.enter(if keeps { left } else { Phase::Idle });
    }

    fn savepoints(&mut self, who: usize) {
        let (what, number) = (self.prng.below(6), self.prng.below(4) as usize);
        let client = &mut self.clients[who];
        let connection = &client.connection;
        match what {
            0..3 => connection.open_savepoints(number).unwrap(),
            3 => connection.release_savepoint(number).unwrap(),
            4 => connection.roll_back_to(Some(number)).unwrap(),
            _ => connection.roll_back_to(None).unwrap(),
        }
        let Phase::Writes(writing) = &mut client.phase else { return };
        let Writing { base, now, savepoints, has_written, .. } = &mut **writing;
        match what {
            0..3 => {
                while savepoints.len() < number {
                    savepoints.push(now.clone());
                }
            }
            3 => savepoints.truncate(number),
            4 => {
                if let Some(savepoint) = savepoints.get(number) {
                    *now = savepoint.clone();
                    savepoints.truncate(number + 1);
                }
            }
            _ => {
                *now = Contents::clone(base);
                savepoints.clear();
                *has_written = false;
            }
        }
        client.places.iter_mut().for_each(|place| place.is_fresh = false);
    }

    fn trees(&mut self, who: usize) {
        let what = self.prng.below(6);
        let client = &mut self.clients[who];
        let Some(last) = client.contents().map(|contents| contents.last_root) else { return };
        if !matches!(client.phase, Phase::Writes(_)) {
            let refused = client.connection.drop_tree(last).unwrap_err();
            assert_eq!(refused.code, code::MISUSE);
            return;
        }
        let root = 1 + self.prng.below(u64::from(last)) as u32;
        match what {
            0..3 if last < 12 => {
                assert_eq!(client.connection.create_tree(has_rowids(last + 1)), Ok(last + 1));
                client.write().last_root += 1;
            }
            3 if root > 1 => {
                client.connection.drop_tree(root).unwrap();
                client.write().trees.remove(&root);
            }
            4 | 5 => {
                let is_counted = what == 4;
                let cleared = client.connection.clear_tree(root, is_counted).unwrap();
                let there = client.write().trees.remove(&root).map_or(0, |tree| tree.len());
                assert_eq!(cleared, if is_counted { there as u64 } else { 0 });
            }
            _ => {}
        }
    }

    fn meta(&mut self, who: usize) {
        let (index, value) = (self.prng.below(15) as usize, self.prng.below(3) as u32);
        let client = &mut self.clients[who];
        assert_eq!(client.connection.meta(META_DATA_VERSION), Ok(client.data_version));
        let Some(contents) = client.contents() else {
            assert_eq!(client.connection.meta(index).unwrap_err().code, code::MISUSE);
            return;
        };
        assert_eq!(client.connection.meta(index), Ok(contents.meta[index]));
        assert_eq!(client.connection.last_root(), Ok(contents.last_root));
        if matches!(client.phase, Phase::Writes(_)) && contents.meta[index] != value {
            client.connection.set_meta(index, value).unwrap();
            client.write().meta[index] = value;
        }
    }

    fn open_cursor(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let Some(last) = client.contents().map(|contents| contents.last_root) else { return };
        let root = 1 + self.prng.below(u64::from(last)) as u32;
        let cursor = cursor_of(&client.connection, root);
        let place = Place { root, cursor, spot: Spot::Nowhere, is_fresh: false };
        if client.places.len() > 3 {
            client.places[self.prng.below(4) as usize] = place;
        } else {
            client.places.push(place);
        }
    }

    /// Puts or deletes through a cursor.
    fn write(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.places.is_empty() || client.contents().is_none() {
            return;
        }
        let at = self.prng.below(client.places.len() as u64) as usize;
        let is_writing = matches!(client.phase, Phase::Writes(_));
        let place = &mut client.places[at];
        let root = place.root;
        if self.prng.one_in(3) {
            if !place.cursor.is_there().unwrap() || !is_writing {
                assert!(place.cursor.delete().is_err());
                let Place { root, .. } = *place;
                let tree = client.contents().expect("it is open").tree(root).clone();
                client.places[at].spot.settle(&tree);
                return;
            }
            place.cursor.delete().unwrap();
            let tree = client.contents().expect("it is open").tree(root).clone();
            let spot = &mut client.places[at].spot;
            spot.settle(&tree);
            let Spot::At(key) = spot.clone() else { panic!("it was there") };
            *spot = Spot::Between(key.clone());
            client.write().trees.entry(root).or_default().remove(&key);
            return;
        }
        let mut record = random_record(&mut self.prng);
        let (key, put) = if has_rowids(root) {
            let (rowid, zeroes) = (random_rowid(&mut self.prng), self.prng.below(3) as usize);
            let put = place.cursor.put_row(rowid, &record, zeroes);
            record.resize(record.len() + zeroes, 0);
            (row_key(rowid), put)
        } else {
            let fields = random_fields(&mut self.prng, 2);
            let mut key = Vec::new();
            encode(&mut key, &columns(root), &fields);
            (key, place.cursor.put_key(&fields, &record))
        };
        if !is_writing {
            assert_eq!(put.unwrap_err().code, code::MISUSE);
            return;
        }
        put.unwrap();
        place.spot = Spot::At(key.clone());
        client.write().trees.entry(root).or_default().insert(key, record);
        client.places[at].is_fresh = true;
    }

    /// Moves a cursor.
    fn go(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.places.is_empty() || client.contents().is_none() {
            return;
        }
        let at = self.prng.below(client.places.len() as u64) as usize;
        let tree = client.contents().expect("it is open").tree(client.places[at].root).clone();
        let place = &mut client.places[at];
        match self.prng.below(12) {
            0 => {
                place.spot = Spot::of(tree.keys().next().cloned());
                assert_eq!(place.cursor.first(), Ok(!tree.is_empty()));
            }
            1 => {
                place.spot = Spot::of(tree.keys().next_back().cloned());
                assert_eq!(place.cursor.last(), Ok(!tree.is_empty()));
            }
            2..5 => assert_eq!(place.cursor.next(), Ok(place.spot.next(&tree))),
            5..8 => assert_eq!(place.cursor.previous(), Ok(place.spot.previous(&tree))),
            8 => {
                assert_eq!(place.cursor.restore(), Ok(place.spot.restore(&tree)));
            }
            _ if has_rowids(place.root) => seek_row(place, &tree, &mut self.prng),
            _ => seek_key(place, &tree, &mut self.prng),
        }
        place.is_fresh = true;
        // A gap that nobody asks about is to be met, too.
        if self.prng.one_in(2) {
            look(place, &tree);
        }
    }

    /// All of a client's tree.
    fn check(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let Some(contents) = client.contents() else { return };
        for root in 1..=contents.last_root {
            check_tree(&client.connection, root, contents.tree(root));
        }
        for place in &mut client.places {
            let tree = match &client.phase {
                Phase::Idle => continue,
                Phase::Reads(contents, _) => contents.tree(place.root),
                Phase::Writes(writing) => writing.now.tree(place.root),
            };
            look(place, tree);
        }
    }
}

fn cursor_of(connection: &Connection, root: u32) -> TreeCursor {
    let columns = columns(root);
    connection.cursor(root, (!has_rowids(root)).then_some(&columns[..])).unwrap()
}

fn seek_row(place: &mut Place, tree: &Tree, prng: &mut Prng) {
    let rowid = random_rowid(prng);
    let (key, found) = (row_key(rowid), place.cursor.seek_row(rowid).unwrap());
    let is_there = tree.contains_key(&key);
    assert_eq!(found, if is_there { Found::Here } else { Found::Before });
    place.spot = if is_there { Spot::At(key) } else { Spot::Gap(key) };
}

fn seek_key(place: &mut Place, tree: &Tree, prng: &mut Prng) {
    let count = prng.below(3);
    let fields = random_fields(prng, count);
    let equal = [Equal::Equal, Equal::Before, Equal::Behind][prng.below(3) as usize];
    let mut key = Vec::new();
    encode(&mut key, &columns(place.root), &fields);
    let first = tree.range(key.clone()..).next().map(|(key, _)| key);
    let first = first.filter(|first| first.starts_with(&key)).cloned();
    let found = place.cursor.seek_key(&fields, equal).unwrap();
    place.spot = match (equal, first) {
        (Equal::Equal, Some(first)) => Spot::At(first),
        (Equal::Equal | Equal::Behind, _) => Spot::Gap(key),
        (Equal::Before, _) => Spot::Gap([&key[..], &[BEHIND]].concat()),
    };
    let is_there = matches!(place.spot, Spot::At(_));
    assert_eq!(found, if is_there { Found::Here } else { Found::Before });
}

/// Compares what a cursor shows.
fn look(place: &mut Place, tree: &Tree) {
    place.spot.settle(tree);
    let is_there = place.cursor.is_there().unwrap();
    assert_eq!(is_there, matches!(place.spot, Spot::At(_)), "{:?}", place.spot);
    let Spot::At(key) = &place.spot else {
        assert_eq!(place.cursor.rowid(), Ok(0));
        assert_eq!(place.cursor.record().unwrap_err().code, code::MISUSE);
        return;
    };
    if has_rowids(place.root) {
        assert_eq!(row_key(place.cursor.rowid().unwrap()), *key);
    }
    if place.is_fresh {
        assert_eq!(place.cursor.record(), Ok(&tree[key][..]));
        assert_eq!(place.cursor.record(), Ok(&tree[key][..]), "and again");
    }
}

fn check_tree(connection: &Connection, root: u32, tree: &Tree) {
    let mut cursor = cursor_of(connection, root);
    assert_eq!(cursor.count(), Ok(tree.len() as u64));
    let mut is_there = cursor.first().unwrap();
    for (key, record) in tree {
        assert!(is_there);
        assert_eq!(cursor.record(), Ok(&record[..]));
        if has_rowids(root) {
            assert_eq!(row_key(cursor.rowid().unwrap()), *key);
        }
        is_there = cursor.next().unwrap();
    }
    assert!(!is_there && !cursor.next().unwrap() && !cursor.is_there().unwrap());
    let mut is_there = cursor.last().unwrap();
    for record in tree.values().rev() {
        assert!(is_there);
        assert_eq!(cursor.record(), Ok(&record[..]));
        is_there = cursor.previous().unwrap();
    }
    assert!(!is_there && !cursor.previous().unwrap());
}

fn run(database: &Arc<Database>, seed: u64, steps: u64) {
    let mut world = World::new(database, seed);
    for _ in 0..steps {
        world.step();
    }
    // What is left is what was committed.
    for client in &mut world.clients {
        client.connection.roll_back(false).unwrap();
    }
    let connection = &world.clients[0].connection;
    connection.begin(false).unwrap();
    assert_eq!(connection.last_root(), Ok(world.committed.last_root));
    for root in 1..=world.committed.last_root {
        check_tree(connection, root, world.committed.tree(root));
    }
}

#[test]
fn connections_and_cursors_do_what_maps_do() {
    for seed in 0..silica_base::test_size(40, 400, 20_000) {
        println!("seed {seed}");
        run(&Database::on(Arc::new(Reference::new())).unwrap(), seed, 1_500);
    }
}

#[test]
fn connections_and_cursors_do_what_maps_do_on_a_store() {
    for seed in 0..silica_base::test_size(4, 20, 1_000) {
        println!("seed {seed}");
        let device = silica_device::sim::SimDevice::new(seed, Default::default());
        let batch_bytes_max = if seed % 2 == 0 { 100 } else { 64 << 20 };
        let engine = super::crash::engine(&device).unwrap();
        run(&Database::with_batches_of(engine, batch_bytes_max).unwrap(), seed, 10_000);
    }
}
