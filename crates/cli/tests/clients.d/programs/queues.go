// asynq, a queue of jobs in Redis's types, doing its main job: `queues PORT`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const jobs = 1000

// How often each job ran.
type runs struct {
	sync.Mutex
	counts map[string]int
}

func (r *runs) note(name string) int {
	r.Lock()
	defer r.Unlock()
	r.counts[name]++
	return r.counts[name]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(good bool, what ...any) {
	if !good {
		panic(fmt.Sprint(what...))
	}
}

func main() {
	at := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Args[1]}
	all := runs{counts: map[string]int{}}
	var lateAt time.Time
	mux := asynq.NewServeMux()
	mux.HandleFunc("plain", func(_ context.Context, task *asynq.Task) error {
		all.note(string(task.Payload()))
		_, err := task.ResultWriter().Write(task.Payload())
		return err
	})
	mux.HandleFunc("flaky", func(context.Context, *asynq.Task) error {
		if all.note("flaky") < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	mux.HandleFunc("late", func(context.Context, *asynq.Task) error {
		lateAt = time.Now()
		all.note("late")
		return nil
	})
	// Retries and late jobs would wait for the next multiple of 5 s.
	server := asynq.NewServer(at, asynq.Config{
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           soon,
		LogLevel:                 asynq.ErrorLevel,
		Queues:                   map[string]int{"default": 1, "urgent": 5},
	})
	must(server.Start(mux))
	begin := time.Now()
	enqueue(asynq.NewClient(at))
	inspector := asynq.NewInspector(at)
	defer inspector.Close()
	// What was kept has a result; the late job and the flaky one are among them.
	for n := 0; done(inspector) < jobs+2; n++ {
		check(n < 1200, "asynq takes longer than 60 s: ", done(inspector), " jobs are done")
		time.Sleep(50 * time.Millisecond)
	}
	server.Shutdown()
	check(lateAt.Sub(begin) >= time.Second, "the late job ran after ", lateAt.Sub(begin))
	for n := range jobs {
		check(all.counts[strconv.Itoa(n)] == 1, n, " ran ", all.counts[strconv.Itoa(n)], " times")
	}
	check(all.counts["flaky"] == 3 && all.counts["late"] == 1, all.counts["flaky"], all.counts["late"])
	check(len(all.counts) == jobs+2, len(all.counts))
	info, err := inspector.GetTaskInfo("default", "job 7")
	check(err == nil && string(info.Result) == "7", err)
	removed, err := inspector.DeleteAllCompletedTasks("default")
	check(err == nil && removed == jobs+1, removed, err)
	fmt.Println("content")
}

func soon(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond }

func enqueue(client *asynq.Client) {
	defer client.Close()
	keep := asynq.Retention(time.Hour)
	put := func(kind, payload string, options ...asynq.Option) {
		_, err := client.Enqueue(asynq.NewTask(kind, []byte(payload)), append(options, keep)...)
		must(err)
	}
	put("late", "", asynq.ProcessIn(time.Second))
	put("flaky", "", asynq.MaxRetry(5), asynq.Queue("urgent"))
	for n := range jobs {
		put("plain", strconv.Itoa(n), asynq.TaskID(fmt.Sprint("job ", n)))
	}
	_, err := client.Enqueue(asynq.NewTask("plain", []byte("0")), asynq.TaskID("job 0"))
	check(errors.Is(err, asynq.ErrTaskIDConflict), err)
	inAnHour := []asynq.Option{asynq.ProcessIn(time.Hour), asynq.Unique(time.Hour)}
	_, err = client.Enqueue(asynq.NewTask("later", nil), inAnHour...)
	must(err)
	_, err = client.Enqueue(asynq.NewTask("later", nil), inAnHour...)
	check(errors.Is(err, asynq.ErrDuplicateTask), err)
}

// Jobs that are finished, in both queues.
func done(inspector *asynq.Inspector) int {
	sum := 0
	for _, queue := range []string{"default", "urgent"} {
		info, err := inspector.GetQueueInfo(queue)
		if err == nil {
			sum += info.Completed
		}
	}
	return sum
}
