"""arq: asynchronous jobs, one worker."""

import asyncio
import os
import time

import arq
from parts import expected, must_have_run, ran

JOBS = 200
SETTINGS = arq.connections.RedisSettings(port=int(os.environ["PORT"]))


async def job(context, n):
    ran(n)
    return n


async def flaky(context):
    ran("flaky")
    if context["job_try"] < 3:
        raise arq.Retry(defer=0.1)
    return context["job_try"]


async def late(context):
    ran("late")
    return time.time()


async def main():
    begin = time.time()
    pool = await arq.create_pool(SETTINGS)
    later = await pool.enqueue_job("late", _defer_by=1)
    failing = await pool.enqueue_job("flaky")
    many = [await pool.enqueue_job("job", n, _job_id=f"job {n}") for n in range(JOBS)]
    assert await pool.enqueue_job("job", 0, _job_id="job 0") is None
    worker = arq.Worker([job, flaky, late], redis_pool=pool, burst=True, handle_signals=False)
    await worker.async_run()
    assert [await one.result(timeout=60) for one in many] == list(range(JOBS))
    assert await failing.result(timeout=60) == 3
    assert await later.result(timeout=60) >= begin + 1
    assert await pool.queued_jobs() == []
    await worker.close()
    must_have_run(expected(JOBS))
    print("content")


asyncio.run(main())
