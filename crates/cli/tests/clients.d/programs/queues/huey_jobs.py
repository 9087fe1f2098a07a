"""huey: its own consumer with four threads."""

import sys
import time

import huey
from parts import URL, expected, must_have_run, ran, worker

JOBS = 1_000
# Else whoever waits for a result may get the error of a run that is followed by another.
queue = huey.RedisHuey("jobs", url=URL, store_intermediate_errors=False)


@queue.task()
def job(n):
    ran(n)
    return n


@queue.task(retries=5)
def flaky(attempts=[]):
    ran("flaky")
    attempts.append(1)
    if len(attempts) < 3:
        raise ValueError("not yet")
    return len(attempts)


@queue.task()
def late():
    ran("late")
    return time.time()


def main():
    begin = time.time()
    # The consumer prints the traces of jobs that fail.
    with worker("huey.bin.huey_consumer", "huey_jobs.queue", "-w", "4", "--quiet"):
        later = late.schedule(delay=1)
        failing = flaky()
        many = [job(n) for n in range(JOBS - 100)]
        rest = job.map(range(JOBS - 100, JOBS))
        assert later.get(blocking=True, timeout=60) >= begin + 1
        assert failing.get(blocking=True, timeout=60) == 3
        assert [one.get(blocking=True, timeout=60) for one in many] == list(range(JOBS - 100))
        assert rest.get(blocking=True, timeout=60) == list(range(JOBS - 100, JOBS))
    must_have_run(expected(JOBS))
    assert (queue.pending_count(), queue.scheduled_count(), queue.result_count()) == (0, 0, 0)
    print("content")


if __name__ == "__main__":
    # Under the name that the consumer knows the tasks by.
    import huey_jobs

    huey_jobs.main()
