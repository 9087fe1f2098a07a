// Programs that keep strings in Redis, each doing its main job: `programs PORT`.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

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

func goRedis(ctx context.Context, address string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address})
	must(client.FlushAll(ctx).Err())
	must(client.Set(ctx, "user", "ann", time.Minute).Err())
	user, err := client.Get(ctx, "user").Result()
	check(err == nil && user == "ann", user, err)
	_, err = client.Get(ctx, "nobody").Result()
	check(err == redis.Nil, err)
	set, err := client.SetNX(ctx, "user", "bob", time.Minute).Result()
	check(err == nil && !set, set, err)
	answers, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := 0; n < 100; n++ {
			pipe.Incr(ctx, "count")
		}
		return nil
	})
	check(err == nil && len(answers) == 100, err)
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	sum, err := add.Run(ctx, client, []string{"count"}, 11).Int()
	check(err == nil && sum == 111, sum, err)
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, "count").Int()
		must(err)
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "count", n+1, 0)
			return nil
		})
		return err
	}, "count")
	must(err)
	keys := 0
	iter := client.Scan(ctx, 0, "*", 10).Iterator()
	for iter.Next(ctx) {
		keys++
	}
	check(iter.Err() == nil && keys == 2, keys, iter.Err())
	return client
}

func locks(ctx context.Context, client *redis.Client) {
	all := redsync.New(goredis.NewPool(client))
	inside, most := 0, 0
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			mutex := all.NewMutex("lock", redsync.WithTries(500), redsync.WithRetryDelay(2*time.Millisecond))
			must(mutex.Lock())
			inside++
			most = max(most, inside)
			time.Sleep(2 * time.Millisecond)
			inside--
			good, err := mutex.Extend()
			check(good && err == nil, err)
			good, err = mutex.Unlock()
			check(good && err == nil, err)
		}()
	}
	group.Wait()
	check(most == 1, most)
}

// In its defaults, which keep what was read in the client until the server says that it changed.
func rueidisClient(ctx context.Context, address string) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	must(err)
	defer client.Close()
	must(client.Do(ctx, client.B().Set().Key("cached").Value("1").Ex(time.Minute).Build()).Error())
	get := func() (string, bool) {
		answer := client.DoCache(ctx, client.B().Get().Key("cached").Cache(), time.Minute)
		value, err := answer.ToString()
		must(err)
		return value, answer.IsCacheHit()
	}
	value, hit := get()
	check(value == "1" && !hit, value, hit)
	value, hit = get()
	check(value == "1" && hit, value, hit)
	must(client.Do(ctx, client.B().Set().Key("cached").Value("2").Build()).Error())
	for range 500 {
		value, _ = get()
		if value == "2" {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	check(value == "2", "the client was not told that the value changed")
	for _, answer := range client.DoMulti(ctx,
		client.B().Incr().Key("n").Build(), client.B().Incr().Key("n").Build()) {
		must(answer.Error())
	}
}

func main() {
	ctx, address := context.Background(), "127.0.0.1:"+os.Args[1]
	client := goRedis(ctx, address)
	locks(ctx, client)
	rueidisClient(ctx, address)
	fmt.Println("content")
}
