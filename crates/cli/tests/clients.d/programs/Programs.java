// Lettuce in its defaults: `Programs PORT`.

import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

class Programs {
    static void check(boolean good, Object what) {
        if (!good) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var client = RedisClient.create("redis://127.0.0.1:" + arguments[0]);
        try (var connection = client.connect(); var subscriber = client.connectPubSub()) {
            var db = connection.sync();
            db.flushall();
            check("OK".equals(db.set("user", "ann", SetArgs.Builder.ex(60).nx())), "set");
            check(db.set("user", "bob", SetArgs.Builder.nx()) == null, "set again");
            check("ann".equals(db.get("user")) && db.ttl("user") > 50, "get");
            check(db.mget("user", "nobody").equals(
                List.of(KeyValue.just("user", "ann"), KeyValue.empty("nobody"))), "mget");
            db.multi();
            db.incr("n");
            db.incrby("n", 5);
            check(db.exec().get(1).equals(6L), "exec");
            var sha = db.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
            Long sum = db.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"n"}, "4");
            check(sum == 10, sum);
            check(db.scan().getKeys().size() == 2, "scan");

            var async = connection.async();
            CompletableFuture<?>[] puts = new CompletableFuture<?>[100];
            for (int i = 0; i < puts.length; i++) {
                puts[i] = async.set("key:" + i, "value").toCompletableFuture();
            }
            CompletableFuture.allOf(puts).get(10, TimeUnit.SECONDS);
            check(db.dbsize() == 102, db.dbsize());
            check("value".equals(connection.reactive().get("key:7").block()), "reactive");

            var heard = new CompletableFuture<String>();
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    heard.complete(text);
                }
            });
            subscriber.sync().subscribe("news");
            check(db.publish("news", "hello") == 1, "publish");
            check("hello".equals(heard.get(10, TimeUnit.SECONDS)), "heard");
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
        System.out.println("content");
    }
}
