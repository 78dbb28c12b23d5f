// The official TypeScript SDK as an agent on stdio, whom nobody asks; the same interface as client.py.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const require = createRequire(new URL("../servers/", import.meta.url));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const METHOD_NOT_FOUND = -32601;
// The SDK says on the console, and so on stdout, that a server does not have a list.
console.debug = console.error;

const plan = JSON.parse(await text(process.stdin));
const [command, ...args] = plan.command;

const transport = new StdioClientTransport({ command, args, env: plan.env, stderr: "ignore" });
const client = new Client(
  { name: "real-test", version: "1" },
  { capabilities: {}, versionNegotiation: { mode: plan.mode } },
);
await client.connect(transport);

async function everything(ask, key) {
  const entries = [];
  let cursor;
  do {
    let page;
    try {
      page = await ask(cursor === undefined ? {} : { cursor });
    } catch (error) {
      if (error.code === METHOD_NOT_FOUND) return entries;
      throw error;
    }
    entries.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return entries;
}

const said = {
  tools: await everything((page) => client.listTools(page), "tools"),
  resources: await everything((page) => client.listResources(page), "resources"),
  templates: await everything((page) => client.listResourceTemplates(page), "resourceTemplates"),
  prompts: await everything((page) => client.listPrompts(page), "prompts"),
  results: [],
};
for (const [name, args] of plan.calls) {
  try {
    said.results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    said.results.push({ error: { code: error.code, message: error.message } });
  }
}
await client.close();
process.stdout.write(JSON.stringify(said));
