// splunk-logging: texts and objects in batches.
const { Logger } = require(require.resolve("splunk-logging", { paths: [process.env.QUARRY_NODE] }));

const [host, port, token] = process.argv.slice(2);
const logger = new Logger({ url: `http://${host}:${port}`, token, batchInterval: 0, maxBatchCount: 40, maxBatchSize: 0 });
logger.error = (error) => {
  console.error(error);
  process.exitCode = 1;
};
for (let number = 0; number < 200; number += 1) {
  const metadata = { time: 1795225000 + number, index: "splunklogging", host: "web1", source: "shop", sourcetype: "_json" };
  logger.send({ message: { piece: number, city: "Köln" }, severity: "warn", metadata });
}
