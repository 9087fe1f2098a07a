"""RQ on a server that is killed: `rq_killed.py work ROUND` until the server is gone, for some
rounds on one store, then `rq_killed.py finish ROUNDS`. The environment has DIRECTORY and PORT.

A job is put once, under a name of its own, by a client that never repeats a request. RQ moves it
from the queue to the worker by one LMOVE or BLMOVE, and puts nothing back within a minute. So

- a job whose enqueuing was answered and that is nowhere at the end was lost by the server, and
- a job that runs twice was handed out twice: the server forgot a move that it had answered.

A worker has one job at a time, and asks for another one when its end was answered. So each round
leaves at most one job with the worker, and at most one that ran and is not known as finished.
"""

import contextlib
import itertools
import os
import sys

# Before what is run is imported: the workers write there, too.
DIRECTORY = os.environ["DIRECTORY"]
os.environ["RAN"] = os.path.join(DIRECTORY, "ran")

import time

import redis
import rq
from parts import URL, runs, worker
from redis.backoff import NoBackoff
from redis.retry import Retry

WORKER = ("rq.cli", "worker", "-w", "rq.SimpleWorker", "--quiet", "--url", URL)
WAITING_MAX = 50
"""Jobs that wait for the worker: the queue is neither empty nor long when the server is killed."""


def names(file):
    with open(os.path.join(DIRECTORY, file)) as lines:
        return lines.read().split()


def opened():
    client = redis.Redis.from_url(URL, retry=Retry(NoBackoff(), 0))
    return client, rq.Queue(connection=client)


def work(round):
    with worker(*WORKER) as process:
        try:
            put_jobs(round)
        except redis.exceptions.RedisError:
            process.kill()


def put_jobs(round):
    """Puts jobs until the server is gone."""
    client, queue = opened()
    ran_before = len(names("ran"))
    with contextlib.ExitStack() as files:
        sent, acknowledged = (
            files.enter_context(open(os.path.join(DIRECTORY, name), "a", buffering=1))
            for name in ("sent", "acknowledged")
        )
        for n in itertools.count():
            while n % 10 == 0 and n - (len(names("ran")) - ran_before) > WAITING_MAX:
                client.ping()
                time.sleep(0.01)
            name = f"{round}-{n}"
            print(name, file=sent)
            queue.enqueue("rq_jobs.job", name, job_id=name, result_ttl=-1)
            print(name, file=acknowledged)


def finish(rounds):
    client, queue = opened()
    sent, acknowledged = names("sent"), names("acknowledged")
    unfinished = [name for name in runs() if not rq.job.Job.exists(name, client)]
    assert unfinished == [], f"ran, and are gone: {unfinished}"
    until_empty(queue)
    taken = set(queue.started_job_registry.get_job_ids())
    taken |= set(queue.intermediate_queue.get_job_ids())
    ran = runs()
    stuck = taken - set(ran)
    lost = set(acknowledged) - set(ran) - stuck
    assert not lost, f"acknowledged and lost: {sorted(lost)}"
    assert len(stuck) <= rounds, f"with a worker of a round: {sorted(stuck)}"
    for name in stuck:
        queue.enqueue_job(rq.job.Job.fetch(name, client))
    until_empty(queue)
    ran = runs()
    twice = [name for name, times in ran.items() if times != 1]
    assert not twice, f"handed out twice: {twice}"
    assert set(acknowledged) <= set(ran) <= set(sent), "what ran is not what was put"
    finished = set(queue.finished_job_registry.get_job_ids())
    forgotten = set(ran) - finished
    assert len(forgotten) <= rounds, f"finished, and forgotten: {sorted(forgotten)}"
    counts = f"{len(ran)} jobs, {len(stuck)} put again, {len(forgotten)} ends unknown"
    print(counts, file=sys.stderr)


def until_empty(queue):
    with worker(*WORKER, "--burst") as process:
        process.wait(60)
    assert queue.is_empty()


(work if sys.argv[1] == "work" else finish)(int(sys.argv[2]))
print("content")
