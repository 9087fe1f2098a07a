// Queues of jobs in Redis's types, each doing its main job: `queues.mjs PORT`.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import BeeQueue from "bee-queue";
import Redis from "ioredis";

const port = Number(process.argv[2]);
const JOBS = 1000;

// How often each job ran.
class Runs {
  counts = new Map();
  note(name) {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    return this.counts.get(name);
  }
  async until(holds, what) {
    for (let n = 0; !holds(); n += 1) {
      assert.ok(n < 3000, `${what} takes longer than 60 s: ${this.counts.size} jobs ran`);
      await sleep(20);
    }
  }
  // Fails unless JOBS plain jobs and one late job ran once, and one ran three times.
  check() {
    const wanted = new Map([["flaky", 3], ["late", 1]]);
    for (let n = 0; n < JOBS; n += 1) wanted.set(n, 1);
    const wrong = [...wanted].filter(([name, times]) => this.counts.get(name) !== times);
    assert.deepEqual(wrong, []);
    assert.equal(this.counts.size, wanted.size);
  }
}

async function bullmq() {
  const connection = { port, maxRetriesPerRequest: null };
  const queue = new Queue("jobs", { connection });
  const events = new QueueEvents("jobs", { connection });
  await events.waitUntilReady();
  const runs = new Runs();
  const done = new Set();
  events.on("completed", ({ jobId }) => done.add(jobId));
  const work = async (job) => {
    const times = runs.note(job.name === "plain" ? job.data.n : job.name);
    if (job.name === "flaky" && times < 3) throw new Error("not yet");
    if (job.name === "late") return Date.now();
    return job.data.n;
  };
  const worker = new Worker("jobs", work, { connection, concurrency: 20 });
  const begin = Date.now();
  const late = await queue.add("late", {}, { delay: 1000 });
  const backoff = { type: "fixed", delay: 100 };
  const flaky = await queue.add("flaky", {}, { attempts: 3, backoff });
  const urgent = await queue.add("plain", { n: 0 }, { priority: 1, jobId: "urgent" });
  const again = await queue.add("plain", { n: 0 }, { priority: 1, jobId: "urgent" });
  assert.equal(again.id, urgent.id);
  const all = Array.from({ length: JOBS - 11 }, (_, n) => ({ name: "plain", data: { n: n + 1 } }));
  await queue.addBulk(all);
  // A parent runs behind its children, and sees what they returned.
  let sum = null;
  const parent = new Worker("parents", async (job) => {
    sum = Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
  }, { connection });
  const flow = new FlowProducer({ connection });
  const children = Array.from({ length: 10 }, (_, n) =>
    ({ name: "plain", queueName: "jobs", data: { n: JOBS - 10 + n } }));
  await flow.add({ name: "sum", queueName: "parents", children });
  assert.ok(await late.waitUntilFinished(events, 60_000) >= begin + 1000);
  if (!done.has(flaky.id)) await flaky.waitUntilFinished(events, 60_000);
  await runs.until(() => sum !== null && done.size === JOBS + 2, "BullMQ");
  assert.equal(sum, 10 * JOBS - 55);
  runs.check();
  const counts = await queue.getJobCounts("completed", "failed", "delayed", "active", "wait");
  assert.deepEqual(counts, { completed: JOBS + 2, failed: 0, delayed: 0, active: 0, wait: 0 });
  for (const one of [worker, parent, flow, events]) await one.close();
  await queue.obliterate();
  await queue.close();
}

async function beeQueue() {
  const settings = { redis: { port }, activateDelayedJobs: true };
  const queue = new BeeQueue("bees", settings);
  const runs = new Runs();
  let lateAt = null;
  let succeeded = 0;
  queue.on("succeeded", () => (succeeded += 1));
  queue.process(20, async ({ data }) => {
    const times = runs.note(data.n);
    if (data.n === "flaky" && times < 3) throw new Error("not yet");
    if (data.n === "late") lateAt = Date.now();
    return data.n;
  });
  const begin = Date.now();
  await queue.createJob({ n: "late" }).delayUntil(begin + 1000).save();
  await queue.createJob({ n: "flaky" }).retries(5).backoff("fixed", 100).save();
  const all = Array.from({ length: JOBS }, (_, n) => queue.createJob({ n }));
  assert.equal((await queue.saveAll(all)).size, 0);
  await runs.until(() => succeeded === JOBS + 2, "bee-queue");
  runs.check();
  assert.ok(lateAt >= begin + 1000);
  const { waiting, active, succeeded: good, failed, delayed } = await queue.checkHealth();
  assert.deepEqual({ waiting, active, good, failed, delayed },
    { waiting: 0, active: 0, good: JOBS + 2, failed: 0, delayed: 0 });
  await queue.close();
}

// Streams by ioredis: groups, entries that a dead consumer leaves, and who waits for new ones.
async function streams() {
  const client = new Redis(port);
  const [stream, group] = ["jobs", "workers"];
  await client.xgroup("CREATE", stream, group, "$", "MKSTREAM");
  const waiting = client.duplicate();
  const first = waiting.xreadgroup("GROUP", group, "dead", "BLOCK", 0, "STREAMS", stream, ">");
  await client.xadd(stream, "*", "n", 0);
  const [[, [[id, fields]]]] = await first;
  assert.deepEqual(fields, ["n", "0"]);
  const pipeline = client.pipeline();
  for (let n = 1; n < JOBS; n += 1) pipeline.xadd(stream, "*", "n", n);
  const ids = (await pipeline.exec()).map(([error, id]) => (assert.equal(error, null), id));
  await client.xreadgroup("GROUP", group, "dead", "COUNT", 99, "STREAMS", stream, ">");
  const claimed = await client.xautoclaim(stream, group, "alive", 0, "0", "COUNT", 200);
  const [cursor, taken, gone] = claimed;
  assert.deepEqual([cursor, taken.length, gone], ["0-0", 100, []]);
  const runs = new Map();
  const finish = async (entries) => {
    for (const [, [, n]] of entries) runs.set(n, (runs.get(n) ?? 0) + 1);
    assert.equal(await client.xack(stream, group, ...entries.map(([id]) => id)), entries.length);
  };
  await finish(taken);
  for (;;) {
    const read = ["GROUP", group, "alive", "COUNT", 100, "STREAMS", stream, ">"];
    const some = await client.xreadgroup(...read);
    if (some === null) break;
    await finish(some[0][1]);
  }
  assert.equal(runs.size, JOBS);
  assert.ok([...runs.values()].every((times) => times === 1));
  assert.deepEqual(await client.xpending(stream, group), [0, null, null, null]);
  const oldest = [[id, ["n", "0"]], [ids[0], ["n", "1"]]];
  assert.deepEqual(await client.xrange(stream, id, ids[0]), oldest);
  assert.equal(await client.xtrim(stream, "MAXLEN", 10), JOBS - 10);
  assert.equal(await client.xlen(stream), 10);
  waiting.disconnect();
  client.disconnect();
}

for (const job of [bullmq, beeQueue, streams]) {
  const client = new Redis(port);
  await client.flushall();
  client.disconnect();
  await job();
}
console.log("content");
