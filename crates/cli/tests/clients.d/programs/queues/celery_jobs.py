"""Celery: broker and results."""

import time

import celery
from parts import URL, expected, must_have_run, ran, worker

JOBS = 1_000
app = celery.Celery("celery_jobs", broker=URL, backend=URL)


@app.task
def job(n):
    ran(n)
    return n


@app.task(bind=True)
def flaky(self):
    ran("flaky")
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def late():
    ran("late")
    return time.time()


@app.task
def total(numbers):
    return sum(numbers)


def main():
    with worker("celery", "-A", "celery_jobs", "worker", "--loglevel=ERROR"):
        begin = time.time()
        later = late.apply_async(countdown=1)
        failing = flaky.delay()
        chord = celery.chord((job.s(n) for n in range(100)), total.s()).delay()
        rest = celery.group(job.s(n) for n in range(100, JOBS)).delay()
        assert chord.get(timeout=60) == sum(range(100))
        assert rest.get(timeout=60) == list(range(100, JOBS))
        assert failing.get(timeout=60) == 2
        assert later.get(timeout=60) >= begin + 1
    must_have_run(expected(JOBS))
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        left = [client.llen("celery"), client.hlen("unacked"), client.zcard("unacked_index")]
    assert left == [0, 0, 0], left
    print("content")


if __name__ == "__main__":
    main()
