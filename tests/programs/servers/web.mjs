// node's http as server and client.
//
//   web.mjs serve ADDRESS PORT FILE          serves FILE, answers PUT with the sha256 of the body
//   web.mjs fetch URL COUNT FILE             COUNT fetches at once, then FILE as upload; prints sums
import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import http from "node:http";

async function sum(stream) {
  const hash = createHash("sha256");
  for await (const part of stream) hash.update(part);
  return hash.digest("hex");
}

function request(url, method, body) {
  return new Promise((resolve, reject) => {
    const call = http.request(url, { method, agent: false }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`status ${answer.statusCode}`));
      else resolve(answer);
    });
    call.on("error", reject);
    if (body) body.pipe(call);
    else call.end();
  });
}

async function text(stream) {
  let all = "";
  for await (const part of stream) all += part;
  return all;
}

function serve(address, port, file) {
  const data = readFileSync(file);
  http.createServer(async (call, answer) => answer.end(call.method === "PUT" ? await sum(call) : data))
    .listen(Number(port), address);
}

async function fetchAll(url, count, file) {
  const fetched = Array.from({ length: Number(count) }, async () => sum(await request(url, "GET")));
  for (const digest of await Promise.all(fetched)) console.log(digest);
  console.log(await text(await request(url, "PUT", createReadStream(file))));
}

const [verb, ...words] = process.argv.slice(2);
await { serve, fetch: fetchAll }[verb](...words);
