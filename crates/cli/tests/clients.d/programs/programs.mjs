// Programs that keep strings in Redis, each doing its main job: `programs.mjs PORT`.

import assert from "node:assert/strict";
import session from "express-session";
import { RedisStore } from "connect-redis";
import Redis from "ioredis";
import { createClient } from "redis";
import Redlock from "redlock";
import { RateLimiterRedis } from "rate-limiter-flexible";

const port = Number(process.argv[2]);

async function ioredis() {
  const client = new Redis(port);
  await client.flushall();
  assert.equal(await client.set("a", "1", "EX", 60, "NX"), "OK");
  assert.equal(await client.set("a", "2", "EX", 60, "NX"), null);
  const answers = await client.pipeline().get("a").incr("n").incrby("n", 5).exec();
  assert.deepEqual(answers, [[null, "1"], [null, 1], [null, 6]]);
  const transaction = await client.multi().set("b", "x").get("b").exec();
  assert.deepEqual(transaction, [[null, "OK"], [null, "x"]]);
  client.defineCommand("takeIf", {
    numberOfKeys: 1,
    lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
  });
  assert.equal(await client.takeIf("b", "y"), 0);
  assert.equal(await client.takeIf("b", "x"), 1);
  const keys = [];
  for await (const some of client.scanStream({ match: "*" })) keys.push(...some);
  assert.deepEqual(keys.sort(), ["a", "n"]);
  const subscriber = client.duplicate();
  const heard = new Promise((resolve) => subscriber.on("message", (_, text) => resolve(text)));
  await subscriber.subscribe("news");
  assert.equal(await client.publish("news", "hello"), 1);
  assert.equal(await heard, "hello");
  subscriber.disconnect();
  return client;
}

async function nodeRedis() {
  for (const RESP of [2, 3]) {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP });
    await client.connect();
    await client.flushAll();
    await client.set("user", "ann", { expiration: { type: "EX", value: 60 } });
    assert.equal(await client.get("user"), "ann");
    assert.equal(await client.getDel("user"), "ann");
    await client.mSet({ a: "1", b: "2" });
    assert.deepEqual(await client.mGet(["a", "b", "c"]), ["1", "2", null]);
    assert.deepEqual(await client.multi().incr("a").get("b").exec(), [2, "2"]);
    const keys = [];
    for await (const some of client.scanIterator()) keys.push(...[some].flat());
    assert.deepEqual(keys.sort(), ["a", "b"]);
    await client.close();
  }
}

async function locks(client) {
  const all = new Redlock([client], { retryCount: 50, retryDelay: 10 });
  let [inside, most] = [0, 0];
  const work = async () => {
    const lock = await all.lock("locks:one", 5000);
    inside += 1;
    most = Math.max(most, inside);
    await new Promise((resolve) => setTimeout(resolve, 5));
    inside -= 1;
    await lock.unlock();
  };
  await Promise.all([1, 2, 3, 4].map(work));
  assert.equal(most, 1);
  const lock = await all.lock("locks:two", 1000);
  await (await lock.extend(5000)).unlock();
}

async function limiter(client) {
  const limit = new RateLimiterRedis({ storeClient: client, points: 3, duration: 60 });
  const outcomes = [];
  for (let n = 0; n < 5; n += 1) {
    outcomes.push(await limit.consume("user").then((r) => r.remainingPoints, () => "no"));
  }
  assert.deepEqual(outcomes, [2, 1, 0, "no", "no"]);
  assert.equal((await limit.get("user")).consumedPoints, 5);
  assert.equal(await limit.delete("user"), true);
}

async function sessions() {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  await client.connect();
  const store = new RedisStore({ client, ttl: 60 });
  assert.ok(store instanceof session.Store);
  const call = (name, ...words) =>
    new Promise((resolve, reject) =>
      store[name](...words, (error, answer) => (error ? reject(error) : resolve(answer))));
  const data = { cookie: {}, user: "ann" };
  await call("set", "one", data);
  assert.deepEqual(await call("get", "one"), data);
  await call("touch", "one", data);
  assert.equal(await call("length"), 1);
  assert.deepEqual(await call("ids"), ["one"]);
  await call("destroy", "one");
  assert.equal(await call("get", "one") ?? null, null);
  await client.close();
}

const client = await ioredis();
await nodeRedis();
await locks(client);
await limiter(client);
await sessions();
client.disconnect();
console.log("content");
