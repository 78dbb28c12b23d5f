// The official TypeScript SDK as an agent on stdio; the same interface as primitives.py.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const require = createRequire(new URL("../servers/", import.meta.url));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

console.debug = console.error;

const plan = JSON.parse(await text(process.stdin));
const [command, ...args] = plan.command;
const transport = new StdioClientTransport({ command, args, env: plan.env, stderr: "ignore" });
const client = new Client(
  { name: "real-test", version: "1" },
  { capabilities: {}, versionNegotiation: { mode: plan.mode } },
);
const notices = [];
client.fallbackNotificationHandler = async (notice) => {
  notices.push([notice.method, notice.params ?? {}]);
};
await client.connect(transport);

const verbs = {
  read: (params) => client.readResource(params),
  get: (params) => client.getPrompt(params),
  complete: ({ ref, argument, context }) =>
    client.complete({ ref, argument, ...(context && { context: { arguments: context } }) }),
  level: ({ level }) => client.setLoggingLevel(level),
  subscribe: (params) => client.subscribeResource(params),
  unsubscribe: (params) => client.unsubscribeResource(params),
  call: (params) => client.callTool(params),
};

const results = [];
for (const [verb, params] of plan.steps) {
  try {
    results.push(await verbs[verb](params));
  } catch (error) {
    results.push({ error: error.code });
  }
}
await new Promise((resolve) => setTimeout(resolve, 300));
await client.close();
process.stdout.write(JSON.stringify({ results, notices }));
