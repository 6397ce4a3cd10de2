// Reads rows events of a MySQL source with one of the two forks of zongji, and prints each row as a line of JSON, with the
// place behind its transaction. Ends when its standard input does.
//
//     node zongji.mjs PACKAGE '{"host": …, "start": {"filename": …, "position": …}}'      in the folder with node_modules
import { createRequire } from 'node:module';

const [name, given] = process.argv.slice(2);
const { start, ...settings } = JSON.parse(given);
const require = createRequire(`${process.cwd()}/`);
const loaded = name === '@vlasky/zongji'
  ? await import(`${process.cwd()}/node_modules/@vlasky/zongji/index.js`)
  : require(name);
const ZongJi = loaded.default ?? loaded;
const zongji = new ZongJi({ dateStrings: true, ...settings });
const kinds = { WriteRows: 'c', UpdateRows: 'u', DeleteRows: 'd' };
let file = start.filename;

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
zongji.on('error', (error) => { say({ error: String(error) }); process.exit(1); });
zongji.on('ready', () => say({ ready: true }));
zongji.on('binlog', (event) => {
  const kind = event.getTypeName();
  if (kind === 'Rotate') file = event.binlogName;
  if (kind === 'Xid') say({ file, position: event.nextPosition, gtids: zongji.gtidSet });
  if (!(kind in kinds)) return;
  for (const row of event.rows) {
    const update = kind === 'UpdateRows';
    say({ kind: kinds[kind], before: update ? row.before : row, after: update ? row.after : row });
  }
});
zongji.start({ serverId: 4712, includeEvents: ['rotate', 'tablemap', 'xid', 'writerows', 'updaterows', 'deleterows'], ...start });
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
