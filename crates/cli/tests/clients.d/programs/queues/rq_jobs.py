"""RQ: a worker that forks for each job, with a scheduler, and one that does not fork."""

import datetime
import time

import redis
import rq
from parts import URL, expected, must_have_run, ran, runs, until, worker

FORKED_JOBS = 30
JOBS = 300


def job(n):
    ran(n)
    return n


def flaky():
    ran("flaky")
    if runs()["flaky"] < 3:
        raise ValueError("not yet")


def late():
    ran("late")
    return time.time()


def main():
    client = redis.Redis.from_url(URL)
    queue = rq.Queue(connection=client)
    begin = time.time()
    with worker("rq.cli", "worker", "--with-scheduler", "--quiet", "--url", URL) as process:
        later = queue.enqueue_in(datetime.timedelta(seconds=1), "rq_jobs.late")
        failing = queue.enqueue("rq_jobs.flaky", retry=rq.Retry(max=3))
        forked = [queue.enqueue("rq_jobs.job", n) for n in range(FORKED_JOBS)]
        follower = queue.enqueue("rq_jobs.job", FORKED_JOBS, depends_on=forked)
        until(lambda: later.is_finished and follower.is_finished and failing.is_finished, "RQ")
        assert later.latest_result().return_value >= begin + 1
        assert [work.return_value() for work in forked] == list(range(FORKED_JOBS))
        # A message to the worker, by pub/sub.
        (name,) = [one.name for one in rq.Worker.all(connection=client)]
        rq.command.send_shutdown_command(client, name)
        process.wait(60)
    rest = [
        rq.Queue.prepare_data("rq_jobs.job", (n,)) for n in range(FORKED_JOBS + 1, JOBS)
    ]
    rest = queue.enqueue_many(rest)
    with worker("rq.cli", "worker", "-w", "rq.SimpleWorker", "--quiet", "--url", URL):
        until(lambda: rest[-1].is_finished, "RQ")
    must_have_run(expected(JOBS))
    assert queue.is_empty() and queue.failed_job_registry.count == 0
    assert queue.finished_job_registry.count == JOBS + 2
    print("content")


if __name__ == "__main__":
    main()
