// winston with winston-splunk-httplogger: a request for each event.
const paths = { paths: [process.env.QUARRY_NODE] };
const winston = require(require.resolve("winston", paths));
const SplunkStreamEvent = require(require.resolve("winston-splunk-httplogger", paths));

const [host, port, token] = process.argv.slice(2);
const splunk = { host, port: Number(port), protocol: "http", token, index: "winston", source: "shop" };
const logger = winston.createLogger({ transports: [new SplunkStreamEvent({ splunk })] });
for (let number = 0; number < 60; number += 1) {
  logger.info(`sold piece=${number}`, { city: "Köln", piece: number });
}
