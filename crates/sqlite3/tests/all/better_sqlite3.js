// Real work through better-sqlite3 on the library that LD_PRELOAD names: migrations, transactions,
// reads, functions, tables of the program's, backup.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const Database = require('better-sqlite3');
const directory = process.argv[2];
const file = path.join(directory, 'app.db');

const db = new Database(file);
assert.strictEqual(db.prepare('SELECT sqlite_version()').pluck().get(), '3.54.1');
assert.ok(fs.existsSync(file + '-silica/store'), 'the database is not ours');
assert.strictEqual(db.pragma('journal_mode = WAL', { simple: true }), 'wal');
db.pragma('foreign_keys = ON');

// Migrations by user_version.
const migrations = [
  `CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, avatar BLOB);
   CREATE TABLE posts (id INTEGER PRIMARY KEY, user INTEGER NOT NULL REFERENCES users
     ON DELETE CASCADE, title TEXT NOT NULL, at INTEGER NOT NULL)`,
  `CREATE INDEX posts_by_user ON posts (user, at DESC);
   ALTER TABLE posts ADD COLUMN likes INTEGER NOT NULL DEFAULT 0`,
  `CREATE VIRTUAL TABLE words USING fts5 (title, content='posts', content_rowid='id');
   CREATE TRIGGER posts_words AFTER INSERT ON posts BEGIN
     INSERT INTO words (rowid, title) VALUES (new.id, new.title); END`,
];
for (const [n, sql] of migrations.entries()) {
  db.transaction(() => { db.exec(sql); db.pragma(`user_version = ${n + 1}`); })();
}
assert.strictEqual(db.pragma('user_version', { simple: true }), 3);

// Transactions, nested ones as savepoints.
const addUser = db.prepare('INSERT INTO users (name, avatar) VALUES (@name, @avatar)');
const addPost = db.prepare('INSERT INTO posts (user, title, at) VALUES (?, ?, ?)');
const fill = db.transaction((users, posts) => {
  for (let u = 0; u < users; u++) {
    const avatar = Buffer.alloc(100 * u, u);
    const { lastInsertRowid } = addUser.run({ name: `user ${u}`, avatar });
    for (let p = 0; p < posts; p++) addPost.run(lastInsertRowid, `post ${p} of ${u}`, p);
  }
});
fill(50, 40);
assert.throws(() => db.transaction(() => {
  addUser.run({ name: 'gone', avatar: null });
  assert.throws(() => db.transaction(() => {
    addPost.run(1, 'gone', 1);
    addUser.run({ name: 'gone', avatar: null });
  })(), { code: 'SQLITE_CONSTRAINT_UNIQUE' });
  assert.strictEqual(db.prepare("SELECT count(*) FROM posts WHERE title = 'gone'").pluck().get(), 0);
  throw new Error('back');
})(), /back/);
assert.strictEqual(db.prepare('SELECT count(*) FROM users').pluck().get(), 50);
assert.throws(() => addPost.run(999, 'nobody', 1), { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' });

// Reads: all, iterate, pluck, raw, columns, integers of 64 bits.
const newest = db.prepare('SELECT title FROM posts WHERE user = ? ORDER BY at DESC LIMIT 3').pluck();
assert.deepStrictEqual(newest.all(7), ['post 39 of 6', 'post 38 of 6', 'post 37 of 6']);
let seen = 0;
for (const row of db.prepare('SELECT id, title FROM posts ORDER BY id').iterate()) {
  assert.strictEqual(row.id, ++seen);
}
assert.strictEqual(seen, 2000);
assert.deepStrictEqual(db.prepare('SELECT avatar FROM users WHERE id = 9').pluck().get(),
  Buffer.alloc(800, 8));
const large = db.prepare('SELECT 9007199254740993').safeIntegers().pluck().get();
assert.strictEqual(large, 9007199254740993n);
assert.strictEqual(db.prepare("SELECT count(*) FROM words WHERE words MATCH 'post AND 17'").pluck().get(),
  50 + 39);

// Functions, aggregates and tables of the program's.
db.function('twice', { deterministic: true }, (x) => 2 * x);
db.aggregate('product', { start: 1, step: (total, next) => total * next, inverse: (t, x) => t / x });
db.table('numbers', { columns: ['n'], parameters: ['upto'],
  *rows(upto) { for (let n = 1; n <= upto; n++) yield [n]; } });
assert.strictEqual(db.prepare('SELECT product(twice(n)) FROM numbers(4)').pluck().get(), 384);
db.exec('CREATE INDEX twice_likes ON posts (twice(likes + at))');
assert.strictEqual(db.prepare('SELECT count(*) FROM posts WHERE twice(likes + at) = 78').pluck().get(), 50);

// Cascades, changes, upserts.
assert.strictEqual(db.prepare('DELETE FROM users WHERE id <= 10').run().changes, 10);
assert.strictEqual(db.prepare('SELECT count(*) FROM posts').pluck().get(), 1600);
const like = db.prepare(`INSERT INTO posts (id, user, title, at) VALUES (?, 20, 'x', 0)
  ON CONFLICT (id) DO UPDATE SET likes = likes + 1 RETURNING likes`).pluck();
assert.strictEqual(like.get(500), 1);
assert.strictEqual(like.get(500), 2);
assert.deepStrictEqual(db.pragma('integrity_check'), [{ integrity_check: 'ok' }]);
assert.deepStrictEqual(db.pragma('foreign_key_check'), []);

async function rest() {
  // Backup into a file of SQLite's and into a Silica database, while writes go on.
  const copy = path.join(directory, 'copy.db');
  let steps = 0;
  await db.backup(copy, { progress: () => { steps++; return 1; } });
  const other = new Database(copy, { readonly: true });
  assert.strictEqual(other.prepare('SELECT count(*) FROM posts').pluck().get(), 1600);
  other.close();
  const image = new Database(db.serialize());
  assert.strictEqual(image.prepare('SELECT count(*) FROM users').pluck().get(), 40);
  image.close();
  // A second connection: one moment, and busy.
  const second = new Database(file, { timeout: 10 });
  db.exec('BEGIN IMMEDIATE');
  assert.throws(() => second.exec('DELETE FROM users'), { code: 'SQLITE_BUSY' });
  db.exec('ROLLBACK');
  second.close();
  db.close();
  const again = new Database(file, { fileMustExist: true });
  assert.strictEqual(again.pragma('user_version', { simple: true }), 3);
  assert.strictEqual(again.prepare('SELECT sum(likes) FROM posts').pluck().get(), 2);
  again.close();
  console.log(`better-sqlite3: passed, ${steps} steps of the backup`);
}
rest().catch((error) => { console.error(error); process.exit(1); });
