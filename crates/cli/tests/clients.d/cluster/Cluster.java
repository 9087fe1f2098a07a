// Jedis and Lettuce over a cluster whose slots move, Jedis over Sentinel whose primary dies:
//
//     Cluster jedis|lettuce PORT STOP TAG...    writes keys of these tags until the file STOP is there
//     Cluster sentinel PORT STOP NAME           writes to the primary of that name
//
// Each makes the file STOP.jedis, STOP.lettuce or STOP.sentinel when it is under way. A key has one writer, so
// what a read must return is known: what was acknowledged last, or what an attempt that failed wrote.

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisAdvancedClusterAsyncCommands;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisSentinelPool;

class Cluster {
    /** What both clients have. */
    interface Strings {
        String get(String key);

        void set(String key, String value);

        long incr(String key);

        /** Sets all to one value, many requests at a time if the client can. */
        void setAll(List<String> keys, String value);
    }

    static void check(boolean good, Object what) {
        if (!good) {
            throw new AssertionError(what);
        }
    }

    static void tell(Path stop, String name) throws Exception {
        Files.write(Path.of(stop + "." + name), new byte[0]);
    }

    static void write(Strings db, String name, Path stop, List<String> tags) throws Exception {
        Map<String, Set<String>> strings = new HashMap<>();
        Map<String, Set<Long>> counts = new HashMap<>();
        var all = tags.stream().map(tag -> "{" + tag + "}:all:" + name).toList();
        int failed = 0, steps = 0;
        Exception last = null;
        for (int i = 1; !Files.exists(stop); i++, steps++) {
            var tag = tags.get(i % tags.size());
            try {
                var key = "{" + tag + "}:" + name;
                var known = strings.computeIfAbsent(key, k -> new HashSet<>(Arrays.asList((String) null)));
                var got = db.get(key);
                check(known.contains(got), key + " is " + got + ", not " + known);
                known.add("" + i);
                db.set(key, "" + i);
                strings.put(key, new HashSet<>(Set.of("" + i)));
                key += ":sum";
                var before = counts.getOrDefault(key, Set.of(0L));
                var after = new HashSet<>(before);
                before.forEach(count -> after.add(count + 1));
                counts.put(key, after);
                var sum = db.incr(key);
                check(before.contains(sum - 1), key + " is " + sum + ", and was one of " + before);
                counts.put(key, Set.of(sum));
                if (i % 10 == 0) {
                    db.setAll(all, "" + i);
                    for (var one : all) {
                        check(("" + i).equals(db.get(one)), one);
                    }
                }
            } catch (RuntimeException error) {
                failed++;
                last = error;
                Thread.sleep(10);
            }
            if (i == 200) {
                tell(stop, name);
            }
        }
        for (var entry : strings.entrySet()) {
            check(entry.getValue().contains(db.get(entry.getKey())), entry);
        }
        for (var entry : counts.entrySet()) {
            check(entry.getValue().contains(Long.parseLong(db.get(entry.getKey()))), entry);
        }
        System.out.println(name + ": steps " + steps + " failed " + failed + " " + last);
        check(failed <= 20, last);
    }

    static void jedis(int port, Path stop, List<String> tags) throws Exception {
        try (var db = new JedisCluster(Set.of(new HostAndPort("127.0.0.1", port)))) {
            write(new Strings() {
                public String get(String key) {
                    return db.get(key);
                }

                public void set(String key, String value) {
                    db.set(key, value);
                }

                public long incr(String key) {
                    return db.incr(key);
                }

                public void setAll(List<String> keys, String value) {
                    // Its pipelines follow no redirections.
                    keys.forEach(key -> db.set(key, value));
                }
            }, "jedis", stop, tags);
        }
    }

    static void lettuce(int port, Path stop, List<String> tags) throws Exception {
        var client = RedisClusterClient.create("redis://127.0.0.1:" + port);
        try (var connection = client.connect()) {
            var db = connection.sync();
            RedisAdvancedClusterAsyncCommands<String, String> async = connection.async();
            write(new Strings() {
                public String get(String key) {
                    return db.get(key);
                }

                public void set(String key, String value) {
                    db.set(key, value);
                }

                public long incr(String key) {
                    return db.incr(key);
                }

                public void setAll(List<String> keys, String value) {
                    List<RedisFuture<String>> futures = new ArrayList<>();
                    keys.forEach(key -> futures.add(async.set(key, value)));
                    LettuceFutures.awaitAll(60, TimeUnit.SECONDS, futures.toArray(new RedisFuture[0]));
                }
            }, "lettuce", stop, tags);
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** Writes go on at the new primary without a change of the program. */
    static void sentinel(int port, Path stop, String name) throws Exception {
        int good = 0, failed = 0, since = 0;
        try (var pool = new JedisSentinelPool(name, Set.of("127.0.0.1:" + port))) {
            for (int n = 0; !Files.exists(stop); n++) {
                try (Jedis db = pool.getResource()) {
                    db.set("jedis", "" + n);
                    check(("" + n).equals(db.get("jedis")), n);
                    good++;
                    since++;
                } catch (RuntimeException error) {
                    failed++;
                    since = 0;
                    Thread.sleep(10);
                }
                if (good == 50) {
                    tell(stop, "sentinel");
                }
                if (failed > 0 && since == 50) {
                    tell(stop, "sentinel.again");
                }
                Thread.sleep(1);
            }
        }
        System.out.println("writes " + good + " failed " + failed + " since then " + since);
    }

    public static void main(String[] arguments) throws Exception {
        var port = Integer.parseInt(arguments[1]);
        var stop = Path.of(arguments[2]);
        var rest = List.of(arguments).subList(3, arguments.length);
        switch (arguments[0]) {
            case "jedis" -> jedis(port, stop, rest);
            case "lettuce" -> lettuce(port, stop, rest);
            default -> sentinel(port, stop, rest.get(0));
        }
        System.out.println("content");
    }
}
