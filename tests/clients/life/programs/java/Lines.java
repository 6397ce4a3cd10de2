import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A file with a line of JSON for each transaction: its changes, and the place behind it, from which a reader goes on. */
class Lines {
    private final Path path;
    private final List<String> changes = new ArrayList<>();
    private final Map<String, TreeMap<Long, Long>> executed = new TreeMap<>();
    private String gtid = "";

    Lines(Path path) {
        this.path = path;
    }

    /** Returns the GTIDs of a place, or none of one without. */
    static String gtids(String place) {
        Matcher found = Pattern.compile("\"gtids\": ?\"([^\"]*)\"").matcher(place);
        return found.find() ? found.group(1) : "";
    }

    void change(String op, String table, Map<String, Object> before, Map<String, Object> after) {
        changes.add("{\"op\":\"" + op + "\",\"table\":" + text(table) + ",\"before\":" + row(before) + ",\"after\":"
            + row(after) + "}");
    }

    void discard() {
        changes.clear();
    }

    void begins(String found) {
        gtid = found;
    }

    /** Ends the transaction that has begun: of one server, with no gap in what it has executed. */
    void commits() {
        String[] parts = gtid.split(":");
        place("{\"gtids\":" + text(parts[0] + ":1-" + parts[1]) + "}");
    }

    /** Ends a transaction, with the place behind it as JSON. */
    void place(String place) {
        String line = "{\"changes\":[" + String.join(",", changes) + "],\"place\":" + place + "}\n";
        try {
            Files.writeString(path, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        changes.clear();
    }

    private static String row(Map<String, Object> row) {
        if (row == null) {
            return "null";
        }
        StringJoiner found = new StringJoiner(",", "{", "}");
        row.forEach((name, value) -> found.add(text(name) + ":" + shown(value)));
        return found.toString();
    }

    private static String shown(Object value) {
        if (value instanceof byte[] bytes) {
            try {
                return text(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
            } catch (CharacterCodingException error) {
                return text(HexFormat.of().formatHex(bytes));
            }
        }
        return value == null ? "null" : text(value.toString());
    }

    static String text(String value) {
        StringBuilder found = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ') {
                found.append(String.format("\\u%04x", (int) c));
            } else {
                found.append(c);
            }
        }
        return found.append('"').toString();
    }
}
