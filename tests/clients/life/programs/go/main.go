// Command reader reads a MySQL's changes with go-mysql until it is killed. Each transaction is a line of JSON in FILE: its
// changes, and the place behind it, from which the next start goes on.
//
//	reader syncer-gtid|syncer-position|canal HOST PORT FILE PLACE [MYSQLDUMP]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/canal"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

const user, password = "rep", "a secret"

type change struct {
	Op     string         `json:"op"`
	Table  string         `json:"table"`
	Before map[string]any `json:"before"`
	After  map[string]any `json:"after"`
}

type place struct {
	Gtids    string `json:"gtids,omitempty"`
	File     string `json:"file,omitempty"`
	Position uint32 `json:"position,omitempty"`
}

type line struct {
	Changes []change `json:"changes"`
	Place   place    `json:"place"`
}

type writer struct {
	file    *os.File
	changes []change
}

func (w *writer) flush(at place) {
	found := w.changes
	if found == nil {
		found = []change{}
	}
	text, err := json.Marshal(line{found, at})
	check(err)
	_, err = w.file.Write(append(text, '\n'))
	check(err)
	w.changes = nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shown returns a value as JSON has it without loss.
func shown(value any) any {
	switch v := value.(type) {
	case nil, bool:
		return v
	case []byte:
		if !utf8.Valid(v) {
			return fmt.Sprintf("%x", v)
		}
		return string(v)
	case string:
		if !utf8.ValidString(v) {
			return fmt.Sprintf("%x", v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

func row(names []string, values []any) map[string]any {
	found := map[string]any{}
	for i, value := range values {
		name := strconv.Itoa(i)
		if i < len(names) {
			name = names[i]
		}
		found[name] = shown(value)
	}
	return found
}

func (w *writer) rows(op, table string, names []string, rows [][]any) {
	for i := 0; i < len(rows); i++ {
		switch op {
		case "u":
			w.changes = append(w.changes, change{op, table, row(names, rows[i]), row(names, rows[i+1])})
			i++
		case "d":
			w.changes = append(w.changes, change{op, table, row(names, rows[i]), nil})
		default:
			w.changes = append(w.changes, change{op, table, nil, row(names, rows[i])})
		}
	}
}

func syncer(out *writer, host string, port uint16, begin place) {
	reader := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 7101, Flavor: "mysql", Host: host, Port: port, User: user, Password: password,
		HeartbeatPeriod: 2 * time.Second, ReadTimeout: 10 * time.Second, VerifyChecksum: true,
	})
	byGtid := begin.File == ""
	executed, err := mysql.ParseMysqlGTIDSet(begin.Gtids)
	check(err)
	var stream *replication.BinlogStreamer
	if byGtid {
		stream, err = reader.StartSyncGTID(executed.Clone())
	} else {
		stream, err = reader.StartSync(mysql.Position{Name: begin.File, Pos: begin.Position})
	}
	check(err)
	at, gtid := begin, ""
	for {
		event, err := stream.GetEvent(context.Background())
		check(err)
		end := event.Header.LogPos
		done := func() {
			if byGtid {
				check(executed.Update(gtid))
				at.Gtids = executed.String()
			} else {
				at.Position = end
			}
			out.flush(at)
		}
		switch e := event.Event.(type) {
		case *replication.RotateEvent:
			if !byGtid {
				at.File, at.Position = string(e.NextLogName), uint32(e.Position)
			}
		case *replication.GTIDEvent:
			found, err := e.GTIDNext()
			check(err)
			gtid = found.String()
			out.changes = nil // it connects again by itself, and is sent a transaction again from its beginning
		case *replication.RowsEvent:
			table := string(e.Table.Schema) + "." + string(e.Table.Table)
			out.rows(opOf(event.Header.EventType), table, e.Table.ColumnNameString(), e.Rows)
		case *replication.XIDEvent:
			done()
		case *replication.QueryEvent:
			if query := string(e.Query); query != "BEGIN" {
				done()
			}
		}
	}
}

func opOf(kind replication.EventType) string {
	switch kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		return "c"
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return "d"
	default:
		return "u"
	}
}

type handler struct {
	canal.DummyEventHandler
	out *writer
}

func (h *handler) OnRow(e *canal.RowsEvent) error {
	op := map[string]string{canal.InsertAction: "c", canal.UpdateAction: "u", canal.DeleteAction: "d"}[e.Action]
	if e.Header == nil {
		op = "r"
	}
	names := []string{}
	for _, column := range e.Table.Columns {
		names = append(names, column.Name)
	}
	h.out.rows(op, e.Table.Schema+"."+e.Table.Name, names, e.Rows)
	return nil
}

func (h *handler) OnGTID(*replication.EventHeader, mysql.BinlogGTIDEvent) error {
	h.out.changes = nil // as above
	return nil
}

func (h *handler) OnPosSynced(_ *replication.EventHeader, _ mysql.Position, set mysql.GTIDSet, _ bool) error {
	if set != nil {
		h.out.flush(place{Gtids: set.String()})
	}
	return nil
}

func runCanal(out *writer, host string, port uint16, begin place, dump string) {
	config := canal.NewDefaultConfig()
	config.Addr, config.User, config.Password = fmt.Sprintf("%s:%d", host, port), user, password
	config.Flavor, config.ServerID = "mysql", 7102
	config.IncludeTableRegex = []string{`shop\..*`}
	config.HeartbeatPeriod, config.ReadTimeout = 2*time.Second, 10*time.Second
	config.Dump = canal.DumpConfig{ExecutionPath: dump, Databases: []string{"shop"}, Protocol: "TCP"}
	reader, err := canal.NewCanal(config)
	check(err)
	reader.SetEventHandler(&handler{out: out})
	if begin.Gtids == "" {
		check(reader.Run())
		return
	}
	set, err := mysql.ParseMysqlGTIDSet(begin.Gtids)
	check(err)
	check(reader.StartFromGTID(set))
}

func main() {
	if len(os.Args) < 6 {
		check(errors.New(strings.Join(os.Args, " ")))
	}
	kind, host := os.Args[1], os.Args[2]
	port, err := strconv.ParseUint(os.Args[3], 10, 16)
	check(err)
	file, err := os.OpenFile(os.Args[4], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	check(err)
	var begin place
	check(json.Unmarshal([]byte(os.Args[5]), &begin))
	out := &writer{file: file}
	if kind == "canal" {
		runCanal(out, host, uint16(port), begin, os.Args[6])
		return
	}
	syncer(out, host, uint16(port), begin)
}
