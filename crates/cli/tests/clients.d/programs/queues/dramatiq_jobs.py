"""dramatiq: broker and results, one process with its eight threads."""

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from parts import URL, expected, must_have_run, ran, until, worker

JOBS = 1_000
broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def job(n):
    ran(n)
    return n


@dramatiq.actor(store_results=True, min_backoff=100, max_backoff=200)
def flaky():
    ran("flaky")
    retries = CurrentMessage.get_current_message().options.get("retries", 0)
    if retries < 2:
        raise ValueError("not yet")
    return retries


@dramatiq.actor(store_results=True)
def late():
    ran("late")
    return time.time()


def main():
    begin = time.time()
    with worker("dramatiq", "dramatiq_jobs", "--processes", "1"):
        later = late.send_with_options(delay=1_000)
        failing = flaky.send()
        group = dramatiq.group(job.message(n) for n in range(100)).run()
        many = [job.send(n) for n in range(100, JOBS)]
        assert list(group.get_results(block=True, timeout=60_000)) == list(range(100))
        results = [one.get_result(block=True, timeout=60_000) for one in many]
        assert results == list(range(100, JOBS))
        until(lambda: failing.get_result(block=True, timeout=60_000) == 2, "a retry")
        assert later.get_result(block=True, timeout=60_000) >= begin + 1
    must_have_run(expected(JOBS))
    broker.join("default", timeout=10_000)
    print("content")


if __name__ == "__main__":
    main()
