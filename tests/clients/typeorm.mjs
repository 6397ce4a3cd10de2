// Asks with TypeORM, and prints each question and its answer as a line of JSON.
//    node typeorm.mjs MODULES PORT USER PASSWORD
import { createRequire } from "node:module";

const [modules, port, username, password] = process.argv.slice(2);
const { DataSource } = createRequire(`${modules}/`)("typeorm");
const source = new DataSource({ type: "mysql", host: "127.0.0.1", port: Number(port), username, password, database: "shop" });
await source.initialize();
const runner = source.createQueryRunner();

function plain(table) {
  const names = (list, keys) => list.map((one) => Object.fromEntries(keys.map((key) => [key, one[key] ?? null])));
  const key = ["name", "columnNames", "referencedTableName", "referencedColumnNames", "onDelete", "onUpdate"];
  const column = ["name", "type", "length", "default", "isNullable", "isPrimary", "isUnique", "isGenerated", "comment",
    "charset", "collation", "precision", "scale", "unsigned", "asExpression", "generatedType", "enum", "onUpdate"];
  return {
    name: table.name,
    engine: table.engine,
    comment: table.comment,
    // It asks without an order, and a server's own is that of its plan.
    columns: names(table.columns, column).sort((a, b) => (a.name < b.name ? -1 : 1)),
    indices: names(table.indices, ["name", "columnNames", "isUnique", "isFulltext", "isSpatial"])
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    foreignKeys: names(table.foreignKeys, key).sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

async function ask(question, answer) {
  let told;
  try {
    told = await answer();
  } catch (error) {
    told = `Error: ${error.message}`;
  }
  console.log(JSON.stringify([question, told]));
}

await ask("databases", async () => (await runner.getDatabases()).sort());
await ask("has a database", () => runner.hasDatabase("shop"));
await ask("has a table", () => runner.hasTable("orders"));
await ask("has a column", () => runner.hasColumn("orders", "cust"));
for (const table of ["orders", "comp", "nokey", "child", "two", "kid", "parts"]) {
  await ask(`table ${table}`, async () => plain(await runner.getTable(table)));
}
await ask("rows", () => runner.query("SELECT id, cust, note FROM orders ORDER BY id"));
await ask("counted", async () => String((await runner.query("SELECT COUNT(*) AS n FROM orders"))[0].n));
await source.destroy();
