import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.*;
import com.github.shyiko.mysql.binlog.network.SSLMode;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.*;

/**
 * Reads a MySQL's changes with osheroff's mysql-binlog-connector-java until it is killed; see {@link Lines}.
 *
 * <p>Osheroff HOST PORT FILE PLACE: the place is {} for the log's beginning, or one that a line has had.
 */
public class Osheroff {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(Path.of(args[2]));
        Map<Long, TableMapEventData> tables = new HashMap<>();
        BinaryLogClient client = new BinaryLogClient(args[0], Integer.parseInt(args[1]), "rep", "a secret");
        client.setServerId(7201);
        client.setSSLMode(SSLMode.DISABLED);
        client.setHeartbeatInterval(2000);
        client.setKeepAliveInterval(1000);
        client.setGtidSet(Lines.gtids(args[3]));
        client.registerEventListener(event -> {
            EventData data = event.getData();
            EventType type = event.getHeader().getEventType();
            if (data instanceof TableMapEventData found) {
                tables.put(found.getTableId(), found);
            } else if (data instanceof WriteRowsEventData found) {
                TableMapEventData table = tables.get(found.getTableId());
                found.getRows().forEach(row -> lines.change("c", name(table), null, row(table, row)));
            } else if (data instanceof UpdateRowsEventData found) {
                TableMapEventData table = tables.get(found.getTableId());
                found.getRows().forEach(
                    row -> lines.change("u", name(table), row(table, row.getKey()), row(table, row.getValue())));
            } else if (data instanceof DeleteRowsEventData found) {
                TableMapEventData table = tables.get(found.getTableId());
                found.getRows().forEach(row -> lines.change("d", name(table), row(table, row), null));
            } else if (type == EventType.GTID) {
                lines.discard(); // it connects again by itself, and is sent a transaction again from its beginning
                lines.begins(((GtidEventData) data).getMySqlGtid().toString());
            } else if (type == EventType.XID || data instanceof QueryEventData query && !"BEGIN".equals(query.getSql())) {
                lines.commits();
            }
        });
        client.connect();
    }

    private static String name(TableMapEventData table) {
        return table.getDatabase() + "." + table.getTable();
    }

    private static Map<String, Object> row(TableMapEventData table, Serializable[] values) {
        List<String> names = table.getEventMetadata().getColumnNames();
        Map<String, Object> found = new LinkedHashMap<>();
        for (int i = 0; i < values.length; i++) {
            found.put(names.get(i), values[i]);
        }
        return found;
    }
}
