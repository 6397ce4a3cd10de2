// Makes the same calls with a driver of Node.js to any server, and prints what each gave as a line of JSON.
//
//     node drivers.mjs PACKAGE '{"host": …, "user": …, "password": …}'      in the folder with node_modules
import { createRequire } from 'node:module';

const [name, given] = process.argv.slice(2);
const settings = JSON.parse(given);
const require = createRequire(`${process.cwd()}/`);
const driver = require(name === 'mysql2' ? 'mysql2/promise' : name);
const mariadb = name === 'mariadb';
const others = mariadb ? { allowPublicKeyRetrieval: true } : {};
const plain = (value) => JSON.parse(JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? String(v) : v)));
const rows = (found) => plain(mariadb ? [...found] : found[0]);

async function calls(what, connection) {
  const say = async (call, made) => {
    let found;
    try {
      found = await made();
    } catch (error) {
      found = { error: error.errno };
    }
    process.stdout.write(`${JSON.stringify([what, call, found ?? null])}\n`);
  };
  const run = (sql, values) => async () => rows(await connection.query(sql, values));
  const prepared = (sql, values) => async () => rows(await connection.execute(sql, values));
  await say('rows', run('SELECT * FROM shop.t ORDER BY id'));
  await say('parameter', run('SELECT id FROM shop.t WHERE c = ? ORDER BY id', ['é']));
  await say('bytes', run('SELECT id FROM shop.t WHERE b = ?', [Buffer.from([0xff, 0])]));
  await say('prepared', prepared('SELECT * FROM shop.t WHERE id > ? ORDER BY id', [1]));
  await say('prepared text', prepared('SELECT id FROM shop.t WHERE c = ?', ['é']));
  await say('prepared bytes', prepared('SELECT id FROM shop.t WHERE b = ?', [Buffer.from([0xff, 0])]));
  await say('prepared null', prepared('SELECT id FROM shop.t WHERE c = ?', [null]));
  await say('prepared twice', prepared('SELECT * FROM shop.t WHERE id > ? ORDER BY id', [2]));
  await say('variable', run('SET @a = 5'));
  await say('ping', async () => { await connection.ping(); });
  await say('another user', async () => { await connection.changeUser({ ...settings, database: 'shop' }); });
  await say('nothing is kept', run('SELECT @a AS a, DATABASE() AS d'));
  await say('rows again', run('SELECT id FROM t ORDER BY id'));
  await say('prepared again', prepared('SELECT id FROM t WHERE id = ?', [1]));
  await say('reset', async () => { await connection.reset(); });
  await say('after a reset', run('SELECT @a AS a, DATABASE() AS d'));
  await say('no such table', run('SELECT * FROM shop.nothing'));
  await say('no such user', async () => { await connection.changeUser({ ...settings, password: 'another' }); });
}

const ways = {
  usual: {},
  'no attributes': mariadb ? { connectAttributes: false } : { flags: ['-CONNECT_ATTRS'] },
  attributes: mariadb ? { connectAttributes: { a: 'x'.repeat(300) } } : { connectAttributes: { a: 'x'.repeat(300) } },
  compressed: { compress: true },
  TLS: { ssl: { rejectUnauthorized: false } },
  database: { database: 'shop' },
  latin1: { charset: mariadb ? 'LATIN1_SWEDISH_CI' : 'latin1_swedish_ci' },
};
for (const [what, options] of Object.entries(ways)) {
  let connection;
  try {
    connection = await driver.createConnection({ ...settings, ...others, ...options });
  } catch (error) {
    process.stdout.write(`${JSON.stringify([what, 'login', { error: error.errno, text: String(error) }])}\n`);
    continue;
  }
  connection.on?.('error', () => {});
  await calls(what, connection);
  connection.destroy();
}

const pool = driver.createPool({ ...settings, ...others, connectionLimit: 5 });
const many = await Promise.all([...Array(30).keys()].map(async (n) => rows(await pool.query('SELECT ? AS n', [n]))));
process.stdout.write(`${JSON.stringify(['pool', 'many', many.length])}\n`);
await pool.end();
