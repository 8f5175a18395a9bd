// Has kafka-connect-client do everything it can, and tells on standard output, as JSON, what came of
// each call. Arguments: the worker's host and port, a connector's name and its configuration.
//
// A call that the client itself gets wrong is told as the error it raises. What it cannot do with
// any Kafka Connect is done by hand in its place, so that the calls after it have something to do.

"use strict";

const { ConnectorClient, KafkaConnectClient } = require("kafka-connect-client");

const [host, port, name, config] = process.argv.slice(2);
const told = [];
const called = new Set();

/** The client, each of its calls noted under `kind` and its name. */
function watched(kind, client) {
  return new Proxy(client, {
    get(target, member) {
      const value = target[member];
      if (typeof value !== "function") return value;
      return (...given) => {
        called.add(`${kind}.${member}`);
        return value.apply(target, given);
      };
    },
  });
}

/** What a call came to: the answer's status and body, or the error. */
async function tell(what, call) {
  try {
    const answer = await call();
    told.push({ what, status: answer.status, body: answer.data, location: answer.headers.location });
  } catch (error) {
    const answer = error.response;
    told.push(answer ? { what, status: answer.status, body: answer.data } : { what, error: String(error) });
  }
}

/** Asks for something without the client, and without a body. */
async function byHand(method, path) {
  const answer = await fetch(`http://${host}:${port}/connectors/${name}/${path}`, { method });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
}

/** Waits until the connector and its tasks are in a state; at most four minutes. */
async function reached(client, state, tasks) {
  const end = Date.now() + 240_000;
  for (;;) {
    const { data } = await client.getStatus().catch(() => ({ data: null }));
    const states = data ? data.tasks.map((task) => task.state) : [];
    const there = data && data.connector.state === state && states.length === tasks;
    if (there && states.every((each) => each === state)) return;
    if (Date.now() > end) throw new Error(`not ${state}: ${JSON.stringify(data)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function main() {
  const options = { protocol: "http", host, port: Number(port) };
  const cluster = watched("cluster", new KafkaConnectClient(options));
  const given = JSON.parse(config);
  const raw = cluster.connector(name);
  const connector = watched("connector", raw);
  const other = watched("connector", cluster.connector(`${name}-other`));
  const unknown = watched("connector", cluster.connector("unknown"));

  await tell("getCluster", () => cluster.getCluster());
  await tell("getConnectorPlugins", () => cluster.getConnectorPlugins());
  await tell("getConnectorPlugins all", () => cluster.getConnectorPlugins({ connectorsOnly: false }));
  await tell("validate", () => cluster.validateConnectorConfig("FileStreamSource", { name, ...given }));
  await tell("validate bad", () =>
    cluster.validateConnectorConfig("FileStreamSource", { name, ...given, "tasks.max": "0" }));

  await tell("createConnector", () => cluster.createConnector(name, given));
  await tell("createConnector again", () => cluster.createConnector(name, given));
  await tell("createConnector bad", () => cluster.createConnector(`${name}-bad`, { a: "b" }));
  await tell("create", () => other.create(given));
  await reached(raw, "RUNNING", 1);
  await tell("getConnectors", () => cluster.getConnectors());
  await tell("getConnectors expanded", () => cluster.getConnectors({ expand: "status" }));

  await tell("get", () => connector.get());
  await tell("getConfig", () => connector.getConfig());
  await tell("getStatus", () => connector.getStatus());
  await tell("getTasks", () => connector.getTasks());
  await tell("getTaskStatus", () => connector.getTaskStatus(0));
  await tell("updateConfig", () => connector.updateConfig({ ...given, "batch.size": 7 }));
  await reached(raw, "RUNNING", 1);

  await tell("restart", () => connector.restart());
  await reached(raw, "RUNNING", 1);
  await tell("restart with tasks", () => connector.restart({ includeTasks: true }));
  await reached(raw, "RUNNING", 1);
  await tell("restartTask", () => connector.restartTask(0));
  await tell("getTopics", () => connector.getTopics());
  await tell("resetTopics", () => connector.resetTopics());

  await tell("pause", () => connector.pause());
  await byHand("PUT", "pause");
  await reached(raw, "PAUSED", 1);
  await tell("resume", () => connector.resume());
  await byHand("PUT", "resume");
  await reached(raw, "RUNNING", 1);
  await tell("alterOffsets too early", () => connector.alterOffsets([]));
  await tell("stop", () => connector.stop());
  await byHand("PUT", "stop");
  await reached(raw, "STOPPED", 0);

  const partition = { filename: given.file };
  await tell("getOffsets", () => connector.getOffsets());
  await tell("alterOffsets", () => connector.alterOffsets([{ partition, offset: { position: 4 } }]));
  await tell("getOffsets altered", () => connector.getOffsets());
  await tell("resetOffsets", () => connector.resetOffsets());
  await tell("getOffsets reset", () => connector.getOffsets());

  await tell("delete", () => connector.delete());
  await tell("delete again", () => connector.delete());
  await tell("delete other", () => other.delete());
  await tell("get unknown", () => unknown.get());
  await tell("getStatus unknown", () => unknown.getStatus());

  const all = [];
  for (const [kind, type] of [["cluster", KafkaConnectClient], ["connector", ConnectorClient]]) {
    for (const member of Object.getOwnPropertyNames(type.prototype)) {
      if (member !== "constructor") all.push(`${kind}.${member}`);
    }
  }
  const missed = all.filter((member) => !called.has(member));
  process.stdout.write(JSON.stringify({ told, missed }));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
