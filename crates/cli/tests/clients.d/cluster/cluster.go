// go-redis over a cluster whose slots move, or over Sentinel whose primary dies.
//
//	cluster PORT STOP TAG...      writes keys of these tags until the file STOP is there
//	sentinel PORT STOP NAME       writes to the primary of that name
//
// Each makes the file STOP.go when it is under way. A key has one writer, so what a read must return is
// known: what was acknowledged last, or what an attempt that failed wrote.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// What the keys of one writer may be.
type known struct {
	strings map[string]map[string]bool
	counts  map[string]map[int64]bool
}

type writer struct {
	db     redis.UniversalClient
	tags   []string
	known  known
	steps  int
	failed int
	last   error
}

func check(good bool, what ...any) {
	if !good {
		panic(fmt.Sprint(what...))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (w *writer) mustBe(key string, got string, err error) error {
	if errors.Is(err, redis.Nil) {
		got, err = "", nil
	}
	if err == nil {
		check(w.known.strings[key][got], key, " is ", got, ", not ", w.known.strings[key])
	}
	return err
}

// A read, a write, a sum, and a pipeline over all tags.
func (w *writer) step(ctx context.Context, i int) error {
	tag := w.tags[i%len(w.tags)]
	key := fmt.Sprintf("{%s}:go", tag)
	if w.known.strings[key] == nil {
		w.known.strings[key] = map[string]bool{"": true}
	}
	got, err := w.db.Get(ctx, key).Result()
	if err = w.mustBe(key, got, err); err != nil {
		return err
	}
	value := strconv.Itoa(i)
	w.known.strings[key][value] = true
	if err = w.db.Set(ctx, key, value, 0).Err(); err != nil {
		return err
	}
	w.known.strings[key] = map[string]bool{value: true}
	return w.add(ctx, fmt.Sprintf("{%s}:go:sum", tag))
}

func (w *writer) add(ctx context.Context, key string) error {
	before := w.known.counts[key]
	if before == nil {
		before = map[int64]bool{0: true}
	}
	after := map[int64]bool{}
	for count := range before {
		after[count] = true
		after[count+1] = true
	}
	w.known.counts[key] = after
	got, err := w.db.Incr(ctx, key).Result()
	if err != nil {
		return err
	}
	check(before[got-1], key, " is ", got, ", and was one of ", before)
	w.known.counts[key] = map[int64]bool{got: true}
	return nil
}

// Many requests at a time, which the client hands out to the nodes.
func (w *writer) pipeline(ctx context.Context, i int) error {
	sets, err := w.db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, tag := range w.tags {
			pipe.Set(ctx, fmt.Sprintf("{%s}:go:pipe", tag), i, 0)
			pipe.Get(ctx, fmt.Sprintf("{%s}:go:pipe", tag))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := 1; n < len(sets); n += 2 {
		got := sets[n].(*redis.StringCmd).Val()
		check(got == strconv.Itoa(i), "pipelined ", got, ", not ", i)
	}
	return nil
}

func (w *writer) run(ctx context.Context, stop string) {
	for i := 1; !exists(stop); i++ {
		err := w.step(ctx, i)
		if err == nil && i%10 == 0 {
			err = w.pipeline(ctx, i)
		}
		if err != nil {
			w.failed++
			w.last = err
			time.Sleep(10 * time.Millisecond)
		}
		if i == 200 {
			check(os.WriteFile(stop+".go", nil, 0o600) == nil)
		}
		w.steps = i
	}
}

func (w *writer) verify(ctx context.Context) {
	for key := range w.known.strings {
		got, err := w.db.Get(ctx, key).Result()
		err = w.mustBe(key, got, err)
		check(err == nil, key, err)
	}
	for key, counts := range w.known.counts {
		got, err := w.db.Get(ctx, key).Int64()
		check(err == nil && counts[got], key, got, counts, err)
	}
}

func cluster(ctx context.Context, address, stop string, tags []string) {
	db := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	defer db.Close()
	var group sync.WaitGroup
	writers := make([]*writer, 2)
	for n := range writers {
		mine := make([]string, 0, len(tags))
		for i := n; i < len(tags); i += len(writers) {
			mine = append(mine, tags[i])
		}
		all := known{map[string]map[string]bool{}, map[string]map[int64]bool{}}
		writers[n] = &writer{db: db, tags: mine, known: all}
		group.Add(1)
		go func() {
			defer group.Done()
			writers[n].run(ctx, stop)
		}()
	}
	group.Wait()
	for _, w := range writers {
		w.verify(ctx)
		fmt.Println("steps", w.steps, "failed", w.failed, w.last)
		check(w.failed <= 20, w.failed, w.last)
	}
}

// Writes go on at the new primary without a change of the program.
func sentinel(ctx context.Context, address, stop, name string) {
	db := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: name, SentinelAddrs: []string{address}, DialTimeout: time.Second, ReadTimeout: time.Second,
	})
	defer db.Close()
	good, failed, since := 0, 0, 0
	for n := 0; !exists(stop); n++ {
		if err := db.Set(ctx, "go", n, 0).Err(); err != nil {
			failed, since = failed+1, 0
			time.Sleep(10 * time.Millisecond)
			continue
		}
		got, err := db.Get(ctx, "go").Int()
		if err == nil && got == n {
			good, since = good+1, since+1
		}
		if good == 50 {
			check(os.WriteFile(stop+".go", nil, 0o600) == nil)
		}
		if failed > 0 && since == 50 {
			check(os.WriteFile(stop+".go.again", nil, 0o600) == nil)
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("writes", good, "failed", failed, "since then", since)
}

func main() {
	ctx, address, stop := context.Background(), "127.0.0.1:"+os.Args[2], os.Args[3]
	if os.Args[1] == "cluster" {
		cluster(ctx, address, stop, os.Args[4:])
	} else {
		sentinel(ctx, address, stop, os.Args[4])
	}
	fmt.Println("content")
}
