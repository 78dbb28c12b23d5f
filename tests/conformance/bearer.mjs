// Loaded into the suite (node --import): the suite knows no bearer token, mcpd's endpoint lets nobody in without.
// It goes into every request, by whatever the suite makes it: fetch and undici, or node:http.
import { subscribe } from "node:diagnostics_channel";
import http from "node:http";
import { syncBuiltinESMExports } from "node:module";

const value = `Bearer ${process.env.CONFORMANCE_TOKEN}`;

subscribe("undici:request:create", ({ request }) => request.addHeader("authorization", value));

const plain = http.request;
http.request = (...args) => {
  const request = plain(...args);
  request.setHeader("authorization", value);
  return request;
};
syncBuiltinESMExports();
