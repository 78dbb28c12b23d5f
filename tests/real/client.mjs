// The official TypeScript SDK as an agent; the same interface as client.py, with the mode of version
// negotiation ("legacy" or "auto") as the first argument.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const require = createRequire(new URL("../servers/", import.meta.url));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [mode, command, ...args] = process.argv.slice(2);
const plan = JSON.parse(await text(process.stdin));

const transport = new StdioClientTransport({ command, args, env: plan.env, stderr: "ignore" });
const client = new Client(
  { name: "real-test", version: "1" },
  { capabilities: {}, versionNegotiation: { mode } },
);
await client.connect(transport);

const tools = [];
let cursor;
do {
  const page = await client.listTools(cursor === undefined ? {} : { cursor });
  tools.push(...page.tools);
  cursor = page.nextCursor;
} while (cursor !== undefined);

const results = [];
for (const [name, args] of plan.calls) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    results.push({ error: { code: error.code, message: error.message } });
  }
}
await client.close();
process.stdout.write(JSON.stringify({ tools, results }));
