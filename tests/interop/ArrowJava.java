import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.ipc.JsonFileWriter;

/**
 * What Arrow Java reads, written by Arrow Java itself: as Arrow's integration JSON, or again as a stream.
 *
 * <pre>
 * java --add-opens=java.base/java.nio=ALL-UNNAMED -Darrow.struct.conflict.policy=CONFLICT_APPEND
 *     -cp 'JARS/*' ArrowJava.java JOBS
 * </pre>
 *
 * <p>JOBS is a file with [[source, target], ...]; a target that ends in .json becomes JSON, any other a stream.
 * Prints one line of JSON a job: {"target": ..., "error": null or words}. The property lets a struct have two
 * children of one name.
 */
public final class ArrowJava {
    private static final byte[] MAGIC = {'A', 'R', 'R', 'O', 'W', '1'};

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        for (String[] job : mapper.readValue(new File(arguments[0]), String[][].class)) {
            Map<String, String> answer = new LinkedHashMap<>();
            answer.put("target", job[1]);
            answer.put("error", null);
            // A child of its own for each job, closed without a complaint about what a failed read left behind.
            try {
                dump(job[0], job[1]);
            } catch (Exception | AssertionError | LinkageError thrown) {
                answer.put("error", thrown.toString());
            }
            System.out.println(mapper.writeValueAsString(answer));
        }
    }

    private static void dump(String source, String target) throws Exception {
        BufferAllocator allocator = new RootAllocator();
        try (FileInputStream input = new FileInputStream(source);
                ArrowReader reader = open(input, allocator)) {
            // A stream's dictionaries come with its first batch, and both outputs begin with them.
            boolean more = reader.loadNextBatch();
            if (target.endsWith(".json")) {
                writeJson(reader, more, target);
            } else {
                writeStream(reader, more, target);
            }
        }
    }

    private static void writeJson(ArrowReader reader, boolean loaded, String target) throws Exception {
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        try (JsonFileWriter writer = new JsonFileWriter(new File(target))) {
            writer.start(root.getSchema(), reader);
            for (boolean more = loaded; more; more = reader.loadNextBatch()) {
                writer.write(root);
            }
        }
    }

    private static void writeStream(ArrowReader reader, boolean loaded, String target) throws Exception {
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        try (FileOutputStream output = new FileOutputStream(target);
                ArrowStreamWriter writer = new ArrowStreamWriter(root, reader, output)) {
            writer.start();
            for (boolean more = loaded; more; more = reader.loadNextBatch()) {
                writer.writeBatch();
            }
            writer.end();
        }
    }

    private static ArrowReader open(FileInputStream input, BufferAllocator allocator) throws Exception {
        byte[] first = input.readNBytes(MAGIC.length);
        input.getChannel().position(0);
        if (Arrays.equals(MAGIC, first)) {
            return new ArrowFileReader(input.getChannel(), allocator, CommonsCompressionFactory.INSTANCE);
        }
        return new ArrowStreamReader(input, allocator, CommonsCompressionFactory.INSTANCE);
    }
}
