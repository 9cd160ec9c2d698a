/* Read a file and a stream of this package with Arrow Java: docs/read_it_with.md, which has the class path. */
import java.io.FileInputStream;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;

public final class ReadFlights {
    public static void main(String[] arguments) throws Exception {
        var codecs = CommonsCompressionFactory.INSTANCE;
        try (var memory = new RootAllocator();
                var input = new FileInputStream("day1.arrow").getChannel();
                var reader = new ArrowFileReader(input, memory, codecs)) {
            System.out.println(count(reader)); // 500
        }
        try (var memory = new RootAllocator();
                var input = new FileInputStream("flights.arrows");
                var reader = new ArrowStreamReader(input, memory, codecs)) {
            System.out.println(count(reader)); // 1000
        }
    }

    private static int count(ArrowReader reader) throws Exception {
        int rows = 0;
        while (reader.loadNextBatch()) {
            rows += reader.getVectorSchemaRoot().getRowCount();
        }
        return rows;
    }
}
