import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends the orders that it reads from standard input, one a line, and prints what became of their records.
 *
 * <p>An order: partition, codec, ending and records, between tabs. A record: timestamp, key, value and headers,
 * between semicolons; a header: name and value, between colons; headers stand between commas. Keys, values and
 * headers are in Base64, "-" is null. The answer: for each record its offset, or an error's name, between tabs.
 */
public final class OddProducer {
    private static final String NULL = "-";

    private final String bootstrap;
    private final String topic;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    private OddProducer(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        OddProducer odd = new OddProducer(arguments[0], arguments[1]);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(String.join("\t", odd.send(line.split("\t"))));
            out.flush();
        }
        odd.producers.values().forEach(KafkaProducer::close);
    }

    private List<String> send(String[] order) throws InterruptedException {
        int partition = Integer.parseInt(order[0]);
        String ending = order[2];
        boolean inTransaction = !ending.equals("plain");
        KafkaProducer<byte[], byte[]> producer =
            producers.computeIfAbsent(order[1] + inTransaction, key -> create(order[1], inTransaction));
        if (inTransaction) {
            producer.beginTransaction();
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<String> outcomes = new ArrayList<>();
        for (int at = 3; at < order.length; at++) {
            sent.add(producer.send(record(partition, order[at].split(";", -1))));
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            outcomes.add(outcome(each));
        }
        if (ending.equals("commit")) {
            producer.commitTransaction();
        } else if (ending.equals("abort")) {
            producer.abortTransaction();
        }
        return outcomes;
    }

    private KafkaProducer<byte[], byte[]> create(String codec, boolean inTransactions) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "1000"); // an order is flushed: its records are one batch
        settings.put("batch.size", "2000000");
        settings.put("max.request.size", "2000000");
        if (inTransactions) {
            settings.put("transactional.id", topic + "-java-" + codec);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes);
        if (inTransactions) {
            producer.initTransactions();
        }
        return producer;
    }

    private ProducerRecord<byte[], byte[]> record(int partition, String[] fields) {
        List<Header> headers = new ArrayList<>();
        if (!fields[3].isEmpty()) {
            for (String header : fields[3].split(",")) {
                String[] pair = header.split(":", -1);
                String name = new String(bytes(pair[0]), StandardCharsets.UTF_8);
                headers.add(new RecordHeader(name, bytes(pair[1])));
            }
        }
        Long timestamp = fields[0].equals(NULL) ? null : Long.valueOf(fields[0]);
        return new ProducerRecord<>(topic, partition, timestamp, bytes(fields[1]), bytes(fields[2]), headers);
    }

    private static byte[] bytes(String field) {
        return field.equals(NULL) ? null : Base64.getDecoder().decode(field);
    }

    private static String outcome(Future<RecordMetadata> sent) throws InterruptedException {
        try {
            return Long.toString(sent.get().offset());
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }
}
