import com.alibaba.otter.canal.filter.aviater.AviaterRegexFilter;
import com.alibaba.otter.canal.parse.exception.CanalParseException;
import com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser;
import com.alibaba.otter.canal.parse.index.AbstractLogPositionManager;
import com.alibaba.otter.canal.parse.support.AuthenticationInfo;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.position.EntryPosition;
import com.alibaba.otter.canal.protocol.position.LogPosition;
import com.alibaba.otter.canal.sink.AbstractCanalEventSink;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads a MySQL's changes with canal's parser until it is killed; see {@link Lines}.
 *
 * <p>CanalParser HOST PORT FILE PLACE: the place is {"file":…,"position":…}, by which canal asks.
 */
public class CanalParser {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(Path.of(args[2]));
        MysqlEventParser parser = new MysqlEventParser();
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        parser.setDestination("shop");
        parser.setSlaveId(7301);
        parser.setConnectionCharset("UTF-8");
        parser.setDetectingEnable(false);
        parser.setMasterInfo(new AuthenticationInfo(address, "rep", "a secret"));
        parser.setMasterPosition(place(args[3]));
        parser.setEventFilter(new AviaterRegexFilter("shop\\..*"));
        parser.setAlarmHandler(new com.alibaba.otter.canal.common.alarm.LogAlarmHandler());
        parser.setParallel(false);
        parser.setEventSink(new AbstractCanalEventSink<List<CanalEntry.Entry>>() {
            @Override
            public boolean sink(List<CanalEntry.Entry> entries, InetSocketAddress from, String destination) {
                entries.forEach(entry -> take(lines, entry));
                return true;
            }
        });
        parser.setLogPositionManager(new AbstractLogPositionManager() {
            private volatile LogPosition latest;

            @Override
            public LogPosition getLatestIndexBy(String destination) {
                return latest;
            }

            @Override
            public void persistLogPosition(String destination, LogPosition position) throws CanalParseException {
                latest = position;
            }
        });
        parser.start();
        Thread.currentThread().join();
    }

    private static EntryPosition place(String json) {
        Matcher found = Pattern.compile("\"file\": ?\"([^\"]*)\", ?\"position\": ?(\\d+)").matcher(json);
        if (!found.find()) {
            throw new IllegalArgumentException(json);
        }
        return new EntryPosition(found.group(1), Long.parseLong(found.group(2)));
    }

    private static void take(Lines lines, CanalEntry.Entry entry) {
        CanalEntry.Header header = entry.getHeader();
        long end = header.getLogfileOffset() + header.getEventLength();
        String place = "{\"file\":" + Lines.text(header.getLogfileName()) + ",\"position\":" + end + "}";
        try {
            switch (entry.getEntryType()) {
                case TRANSACTIONBEGIN -> lines.discard();
                case TRANSACTIONEND -> lines.place(place);
                case ROWDATA -> rows(lines, header, CanalEntry.RowChange.parseFrom(entry.getStoreValue()), place);
                default -> { }
            }
        } catch (com.google.protobuf.InvalidProtocolBufferException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void rows(Lines lines, CanalEntry.Header header, CanalEntry.RowChange change, String place) {
        String table = header.getSchemaName() + "." + header.getTableName();
        if (change.getIsDdl()) {
            lines.place(place);
            return;
        }
        for (CanalEntry.RowData row : change.getRowDatasList()) {
            switch (change.getEventType()) {
                case INSERT -> lines.change("c", table, null, values(row.getAfterColumnsList()));
                case UPDATE ->
                    lines.change("u", table, values(row.getBeforeColumnsList()), values(row.getAfterColumnsList()));
                case DELETE -> lines.change("d", table, values(row.getBeforeColumnsList()), null);
                default -> throw new IllegalStateException(change.getEventType().toString());
            }
        }
    }

    private static Map<String, Object> values(List<CanalEntry.Column> columns) {
        Map<String, Object> found = new LinkedHashMap<>();
        columns.forEach(column -> found.put(column.getName(), column.getIsNull() ? null : column.getValue()));
        return found;
    }
}
