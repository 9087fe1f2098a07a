import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

/** Spymemcached does some real work on a server, in both protocols: Clients PORT */
public class Clients {
    static void check(boolean fine, Object what) {
        if (!fine) {
            throw new AssertionError(what);
        }
    }

    static byte[] binary(int length) {
        byte[] value = new byte[length];
        for (int i = 0; i < length; i++) {
            value[i] = (byte) (i * 7);
        }
        return value;
    }

    public static void main(String[] args) {
        try {
            both(args);
            System.out.println("spymemcached is content");
            System.exit(0);
        } catch (Throwable error) {
            // The client's own threads would keep the program alive.
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void both(String[] args) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.LogManager.getLogManager().reset();
        for (Protocol protocol : new Protocol[] {Protocol.TEXT, Protocol.BINARY}) {
            ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder();
            builder.setProtocol(protocol).setOpTimeout(20000);
            MemcachedClient client = new MemcachedClient(
                builder.build(), List.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]))));
            work(client, protocol);
            client.shutdown(5, TimeUnit.SECONDS);
        }
    }

    static void work(MemcachedClient client, Protocol protocol) throws Exception {
        check(client.flush().get(), "flush");
        // Many at the same time over one connection.
        List<Future<Boolean>> stored = new ArrayList<>();
        List<String> keys = new ArrayList<>();
        for (int n = 0; n < 2000; n++) {
            keys.add("key" + n);
            stored.add(client.set("key" + n, 1000, binary(n)));
        }
        for (Future<Boolean> one : stored) {
            check(one.get(), "set");
        }
        Map<String, Object> found = client.getBulk(keys);
        check(found.size() == 2000, found.size());
        for (int n = 0; n < 2000; n++) {
            check(Arrays.equals((byte[]) found.get("key" + n), binary(n)), n);
        }
        for (int n = 0; n < 300; n++) {
            check(Arrays.equals((byte[]) client.get("key" + n), binary(n)), n);
        }
        check(client.get("nowhere") == null, "a key that is not there");
        check(!client.add("key1", 0, "x").get(), "add");
        check(!client.replace("nowhere", 0, "x").get(), "replace");
        check(client.incr("count", 1, 5) == 5 && client.incr("count", 3) == 8, "incr");
        check(client.decr("count", 100) == 0, "decr");
        client.set("word", 0, "b").get();
        check(client.append("word", "c").get() && client.prepend("word", "a").get(), "append");
        check("abc".equals(client.get("word")), client.get("word"));
        CASValue<Object> seen = client.gets("word");
        check(client.cas("word", seen.getCas(), "swapped") == CASResponse.OK, "cas");
        check(client.cas("word", seen.getCas(), "again") == CASResponse.EXISTS, "a second cas");
        check(client.touch("word", 1000).get(), "touch");
        if (protocol == Protocol.BINARY) {
            check("swapped".equals(client.getAndTouch("word", 1000).getValue()), "gat");
        }
        client.set("short", 1, "x").get();
        check(client.delete("word").get() && !client.delete("word").get(), "delete");
        check(client.getStats().values().iterator().next().containsKey("curr_items"), "stats");
        check(client.getVersions().size() == 1, "version");
        for (int n = 0; client.get("short") != null; n++) {
            check(n < 300, "an entry that does not expire");
            Thread.sleep(10);
        }
        check(client.flush().get() && client.get("key7") == null, "flush");
    }
}
