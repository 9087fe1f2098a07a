// Redigo and gomemcache do some real work on a server: clients PORT
package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/gomodule/redigo/redis"
)

func check(fine bool, what ...interface{}) {
	if !fine {
		panic(fmt.Sprintln(what...))
	}
}

func must(err error) {
	check(err == nil, err)
}

// All byte values, and as long as it takes.
func binary(n int) []byte {
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(i * 7)
	}
	return value
}

func main() {
	address := "127.0.0.1:" + os.Args[1]
	pool := &redis.Pool{
		MaxIdle: 8,
		Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", address) },
	}
	conn := pool.Get()
	_, err := conn.Do("FLUSHALL")
	must(err)
	plain(conn)
	pipelines(conn)
	transactions(conn)
	expiry(conn)
	errors(conn)
	channels(pool)
	together(pool)
	must(conn.Close())
	memcached(memcache.New(address))
	fmt.Println("redigo and gomemcache are content")
}

func plain(conn redis.Conn) {
	for n := 0; n < 1000; n++ {
		key, value := fmt.Sprintf("plain:%d", n), binary(n)
		reply, err := redis.String(conn.Do("SET", key, value))
		check(err == nil && reply == "OK", reply, err)
		got, err := redis.Bytes(conn.Do("GET", key))
		check(err == nil && bytes.Equal(got, value), key, err)
	}
	large := binary(1 << 19)
	_, err := conn.Do("SET", "large", large)
	must(err)
	got, err := redis.Bytes(conn.Do("GET", "large"))
	check(err == nil && bytes.Equal(got, large), "a large value", err)
	_, err = redis.Bytes(conn.Do("GET", "nowhere"))
	check(err == redis.ErrNil, err)
	many, err := redis.ByteSlices(conn.Do("MGET", "plain:3", "nowhere", "plain:5"))
	check(err == nil && len(many) == 3 && many[1] == nil && len(many[2]) == 5, many, err)
	seen, cursor := map[string]bool{}, 0
	for first := true; first || cursor != 0; first = false {
		page, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", "plain:*", "COUNT", 100))
		must(err)
		var keys []string
		_, err = redis.Scan(page, &cursor, &keys)
		must(err)
		for _, key := range keys {
			seen[key] = true
		}
	}
	check(len(seen) == 1000, "a scan", len(seen))
}

func pipelines(conn redis.Conn) {
	const count = 3000
	for n := 0; n < count; n++ {
		must(conn.Send("SET", fmt.Sprintf("pipe:%d", n), n))
		must(conn.Send("INCRBY", fmt.Sprintf("pipe:%d", n), 1))
	}
	must(conn.Flush())
	for n := 0; n < count; n++ {
		_, err := conn.Receive()
		must(err)
		sum, err := redis.Int(conn.Receive())
		check(err == nil && sum == n+1, sum, err)
	}
}

func transactions(conn redis.Conn) {
	_, err := conn.Do("WATCH", "watched")
	must(err)
	must(conn.Send("MULTI"))
	must(conn.Send("SET", "watched", "a"))
	must(conn.Send("APPEND", "watched", "b"))
	replies, err := redis.Values(conn.Do("EXEC"))
	check(err == nil && len(replies) == 2 && replies[1].(int64) == 2, replies, err)
}

func expiry(conn redis.Conn) {
	_, err := conn.Do("SET", "short", "x", "PX", 30)
	must(err)
	_, err = conn.Do("SET", "long", "x", "EX", 1000)
	must(err)
	left, err := redis.Int(conn.Do("TTL", "long"))
	check(err == nil && left > 990 && left <= 1000, left, err)
	time.Sleep(40 * time.Millisecond)
	there, err := redis.Int(conn.Do("EXISTS", "short", "long"))
	check(err == nil && there == 1, "expired", there, err)
	done, err := redis.Int(conn.Do("PERSIST", "long"))
	check(err == nil && done == 1, done, err)
}

func errors(conn redis.Conn) {
	_, err := conn.Do("SET", "word", "abc")
	must(err)
	_, err = conn.Do("INCR", "word")
	_, is := err.(redis.Error)
	check(is && err.Error() == "ERR value is not an integer or out of range", err)
	_, err = conn.Do("NONSENSE")
	check(err != nil && conn.Err() == nil, "an error ends no connection", err)
}

func channels(pool *redis.Pool) {
	ear := redis.PubSubConn{Conn: pool.Get()}
	must(ear.Subscribe("news"))
	_, is := ear.Receive().(redis.Subscription)
	check(is, "a subscription")
	conn := pool.Get()
	heard, err := redis.Int(conn.Do("PUBLISH", "news", "hello"))
	check(err == nil && heard == 1, heard, err)
	message, is := ear.Receive().(redis.Message)
	check(is && string(message.Data) == "hello", message)
	must(conn.Close())
	must(ear.Unsubscribe())
	must(ear.Conn.Close())
}

// Several connections increment one key.
func together(pool *redis.Pool) {
	var all sync.WaitGroup
	for n := 0; n < 8; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			conn := pool.Get()
			defer conn.Close()
			for i := 0; i < 250; i++ {
				_, err := conn.Do("INCR", "together")
				must(err)
			}
		}()
	}
	all.Wait()
	conn := pool.Get()
	sum, err := redis.Int(conn.Do("GET", "together"))
	check(err == nil && sum == 2000, sum, err)
	must(conn.Close())
}

func memcached(c *memcache.Client) {
	c.Timeout = 10 * time.Second
	keys := []string{}
	for n := 0; n < 1000; n++ {
		key := fmt.Sprintf("m%d", n)
		keys = append(keys, key)
		must(c.Set(&memcache.Item{Key: key, Value: binary(n), Flags: uint32(n), Expiration: 1000}))
		item, err := c.Get(key)
		check(err == nil && bytes.Equal(item.Value, binary(n)) && item.Flags == uint32(n), key, err)
	}
	items, err := c.GetMulti(append(keys, "nowhere"))
	check(err == nil && len(items) == 1000, len(items), err)
	check(c.Add(&memcache.Item{Key: "m1", Value: []byte("x")}) == memcache.ErrNotStored, "add")
	check(c.Replace(&memcache.Item{Key: "no", Value: []byte("x")}) == memcache.ErrNotStored, "replace")
	item := items["m2"]
	item.Value = []byte("swapped")
	must(c.CompareAndSwap(item))
	check(c.CompareAndSwap(item) == memcache.ErrCASConflict, "a second swap")
	_, err = c.Get("nowhere")
	check(err == memcache.ErrCacheMiss, err)
	must(c.Set(&memcache.Item{Key: "n", Value: []byte("10")}))
	sum, err := c.Increment("n", 5)
	check(err == nil && sum == 15, sum, err)
	sum, err = c.Decrement("n", 100)
	check(err == nil && sum == 0, sum, err)
	must(c.Touch("n", 100))
	must(c.Delete("n"))
	check(c.Delete("n") == memcache.ErrCacheMiss, "a second delete")
	must(c.FlushAll())
	items, err = c.GetMulti(keys)
	check(err == nil && len(items) == 0, len(items), err)
}
